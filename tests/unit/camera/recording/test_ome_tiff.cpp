// SPDX-License-Identifier: MIT
// OME-TIFF and ImageJ hyperstacks: of several channels, positions in z and series, one movie is
// chosen, or the file is refused with what there is. Files are written after the OME-TIFF
// specification (docs.openmicroscopy.org/ome-model, 2016-06).
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "camera/recording/image_stack.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"
#include "unit/camera/recording/ome_files.hpp"
#include "unit/camera/recording/tiff_bytes.hpp"

namespace driftd::camera {
namespace {

using namespace driftd::test;

using namespace ome_files;

const std::string kTwoChannels =
    "<Channel ID=\"Channel:0:0\" Name=\"Cy5\"/><Channel Name=\"GFP\"/>";

StackSettings at(const std::filesystem::path& path) {
  StackSettings settings;
  settings.path = path;
  return settings;
}

std::string complaint(const StackSettings& settings) {
  try {
    open_stack(settings);
  } catch (const RecordingError& error) {
    return error.what();
  }
  return {};
}

void check_movie(const StackSettings& settings, const std::vector<Plane>& planes) {
  const auto stack = open_stack(settings);
  CHECK(stack->shape().width_px == kWidth);
  CHECK(stack->shape().height_px == kHeight);
  REQUIRE(stack->shape().frames == static_cast<std::int64_t>(planes.size()));
  CHECK(read_all<std::uint16_t>(*stack) == pixels_of(planes));
}

TEST_CASE("one channel and z of an OME-TIFF, in every order of its planes and byte order") {
  const TemporaryFolder folder;
  const Extent size{.z = 2, .c = 3, .t = 4};
  for (const std::string order : {"XYZCT", "XYZTC", "XYCTZ", "XYCZT", "XYTCZ", "XYTZC"}) {
    for (const bool big_endian : {false, true}) {
      CAPTURE(order, big_endian);
      const auto planes = planes_in(order, size);
      // Without attributes TiffData means every page of the file.
      const std::string xml = ome(image("a", pixels_element(order, size, "<TiffData/>")));
      write_file(folder / "s.ome.tif",
                 tiff_bytes(pixels_of(planes), kWidth, kHeight, xml, {.big_endian = big_endian}));
      for (int c = 0; c < size.c; ++c) {
        for (int z = 0; z < size.z; ++z) {
          StackSettings settings = at(folder / "s.ome.tif");
          settings.channel = c;
          settings.slice = z;
          check_movie(settings, {{z, c, 0}, {z, c, 1}, {z, c, 2}, {z, c, 3}});
        }
      }
    }
  }
}

TEST_CASE("what libtiff writes, compressed and tiled, is chosen from alike") {
  const TemporaryFolder folder;
  const Extent size{.c = 2, .t = 5};
  const std::string xml = ome(image("a", pixels_element("XYCZT", size,
                                                        kTwoChannels + "<TiffData IFD=\"0\" "
                                                                       "PlaneCount=\"10\"/>")));
  write_tiff(
      folder / "s.tif", pixels_of(planes_in("XYCZT", size)), kWidth, kHeight,
      {.mode = "wb8", .compression = COMPRESSION_LZW, .tiled = true, .description = xml.c_str()});
  StackSettings settings = at(folder / "s.tif");
  settings.channel = 1;
  check_movie(settings, {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, 1, 3}, {0, 1, 4}});
}

TEST_CASE("several channels, positions in z or series are not mixed: one must be chosen") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "s.ome.tif");
  const auto write = [&](const std::string& xml, const std::vector<Plane>& planes) {
    write_file(settings.path, tiff_bytes(pixels_of(planes), kWidth, kHeight, xml));
  };
  const Extent channels{.c = 2, .t = 40};
  write(ome(image("a", pixels_element("XYCZT", channels, kTwoChannels + "<TiffData/>"))),
        planes_in("XYCZT", channels));
  CHECK_THAT(complaint(settings), contains("s.ome.tif: has 2 channels: 0 (Cy5), 1 (GFP); choose "
                                           "one by the option channel"));
  settings.channel = 2;
  CHECK_THAT(complaint(settings), contains("has 2 channels: 0 (Cy5), 1 (GFP); the option channel "
                                           "is 2"));
  settings.channel = 1;
  CHECK(open_stack(settings)->shape().frames == 40);
  CHECK(open_stack(settings)->notes() == std::vector<std::string>{"channel 1"});
  settings.every_page = true;
  CHECK_THAT(complaint(settings),
             contains("channel is for metadata, which the option every_page leaves"));
  settings.channel = -1;
  CHECK(open_stack(settings)->shape().frames == 80);

  settings = at(settings.path);
  const Extent depths{.z = 3, .t = 4};
  write(ome(image("a", pixels_element("XYZCT", depths, "<TiffData/>"))),
        planes_in("XYZCT", depths));
  CHECK_THAT(
      complaint(settings),
      contains("has 3 positions in z at each time: 0, 1, 2; choose one by the option slice"));
  settings.slice = 2;
  check_movie(settings, {{2, 0, 0}, {2, 0, 1}, {2, 0, 2}, {2, 0, 3}});

  settings = at(settings.path);
  std::vector<Plane> planes = planes_in("XYZCT", {.t = 2}, 0);
  const auto second = planes_in("XYZCT", {.t = 3}, 1);
  planes.insert(planes.end(), second.begin(), second.end());
  write(ome(image("left", pixels_element("XYZCT", {.t = 2}, "<TiffData PlaneCount=\"2\"/>")) +
            image("right",
                  pixels_element("XYZCT", {.t = 3}, "<TiffData IFD=\"2\" PlaneCount=\"3\"/>"))),
        planes);
  CHECK_THAT(complaint(settings),
             contains("has 2 series: 0 (left), 1 (right); choose one by the option series"));
  settings.series = 1;
  check_movie(settings, second);
  settings.series = 0;
  check_movie(settings, {{0, 0, 0}, {0, 0, 1}});
}

TEST_CASE("what has no series, channels or z is not chosen from") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "s.raw");
  write_file(settings.path, std::string(kWidth * kHeight * 2, 'x'));
  settings.width_px = kWidth;
  settings.height_px = kHeight;
  settings.type = PixelType::U16;
  CHECK(complaint(settings).empty());
  settings.slice = 0;
  CHECK_THAT(complaint(settings), contains("the option slice is for TIFF; this is plain pixels"));
}

TEST_CASE("positions in z at one time alone are the frames") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "z.tif");
  const Extent size{.z = 4, .c = 2};
  write_file(settings.path,
             tiff_bytes(pixels_of(planes_in("XYCZT", size)), kWidth, kHeight,
                        ome(image("", pixels_element("XYCZT", size, "<TiffData/>")))));
  settings.channel = 1;
  check_movie(settings, {{0, 1, 0}, {1, 1, 0}, {2, 1, 0}, {3, 1, 0}});
  CHECK(open_stack(settings)->notes() ==
        std::vector<std::string>{"channel 1", "its frames are positions in z"});
  settings.slice = 3;
  check_movie(settings, {{3, 1, 0}});
}

TEST_CASE("the time between frames is the recorded rate, in its unit") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "r.tif");
  const auto rate = [&](const std::string& more) {
    const Extent size{.t = 2};
    write_file(settings.path,
               tiff_bytes(pixels_of(planes_in("XYZCT", size)), kWidth, kHeight,
                          ome(image("", pixels_element("XYZCT", size, "<TiffData/>", more)))));
    return open_stack(settings)->recorded_rate_hz();
  };
  CHECK(rate(" TimeIncrement=\"0.04\"").value() == Approx(25));
  CHECK(rate(" TimeIncrement=\"40\" TimeIncrementUnit=\"ms\"").value() == Approx(25));
  CHECK(rate(" TimeIncrement=\"40\" TimeIncrementUnit=\"\u00b5s\"").value() == Approx(25000));
  CHECK_FALSE(rate(" TimeIncrement=\"40\" TimeIncrementUnit=\"furlong\""));
  CHECK_FALSE(rate(" TimeIncrement=\"0\""));
  CHECK_FALSE(rate(""));
}

TEST_CASE(
    "the times of frames are those of their own planes, in their unit, and not known where none is "
    "said") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "t.tif");
  settings.channel = 1;
  settings.slice = 0;
  const Extent size{.z = 2, .c = 2, .t = 4};
  const auto times = [&](const std::string& planes) {
    write_file(settings.path,
               tiff_bytes(pixels_of(planes_in("XYCZT", size)), kWidth, kHeight,
                          ome(image("", pixels_element("XYCZT", size, "<TiffData/>" + planes)))));
    return open_stack(settings)->facts().times_s;
  };
  const auto plane = [](int z, int c, int t, const std::string& time) {
    return "<Plane TheZ=\"" + std::to_string(z) + "\" TheC=\"" + std::to_string(c) + "\" TheT=\"" +
           std::to_string(t) + "\" " + time + "/>";
  };
  // Back to front, of other channels and positions too; frame 2 says nothing.
  const auto said = times(plane(0, 1, 3, "DeltaT=\"2500\" DeltaTUnit=\"ms\"") +
                          plane(0, 1, 1, "DeltaT=\"0.75\"") + plane(0, 0, 2, "DeltaT=\"7\"") +
                          plane(1, 1, 2, "DeltaT=\"8\"") + plane(0, 1, 2, "ExposureTime=\"9\"") +
                          plane(0, 1, 0, "DeltaT=\"-1e1\" DeltaTUnit=\"\u00b5s\"") +
                          plane(0, 1, 9, "DeltaT=\"1\""));
  REQUIRE(said.size() == 4);
  CHECK(said[0] == Approx(-1e-5));
  CHECK(said[1] == 0.75);
  CHECK(std::isnan(said[2]));
  CHECK(said[3] == Approx(2.5));
  CHECK(times("").empty());
  CHECK(times(plane(0, 1, 1, "DeltaT=\"soon\"") +
              plane(0, 1, 1, "DeltaT=\"1\" DeltaTUnit=\"furlong\"") +
              plane(0, 1, 1, "DeltaT=\"inf\"") + "<Plane DeltaT=\"1\"/>")
            .empty());
}

TEST_CASE("times are kept of the frames that are there, however many the metadata name") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "t.tif");
  settings.allow_truncated = true;
  const Extent said{.t = 1'000'000'000};  // doubles of 8 GB
  const std::string planes =
      "<TiffData/><Plane TheZ=\"0\" TheC=\"0\" TheT=\"2\" DeltaT=\"5\"/>"
      "<Plane TheZ=\"0\" TheC=\"0\" TheT=\"99\" DeltaT=\"7\"/>";
  write_file(settings.path, tiff_bytes(pixels_of(planes_in("XYCZT", {.t = 4})), kWidth, kHeight,
                                       ome(image("", pixels_element("XYCZT", said, planes)))));
  const auto stack = open_stack(settings);
  CHECK(stack->shape().frames == 4);
  REQUIRE(stack->facts().times_s.size() == 4);
  CHECK(stack->facts().times_s[2] == 5);
}

/// A recording of two channels in two files, each with the metadata of both, pages back to front.
struct Split {
  TemporaryFolder folder;
  std::string first = "run_MMStack_Pos0.ome.tif", second = "run_MMStack_Pos0_1.ome.tif";

  explicit Split(int frames = 6) {
    const std::array uuids{std::string("urn:uuid:1111"), std::string("urn:uuid:2222")};
    std::array<std::vector<Plane>, 2> pages;
    std::string blocks = kTwoChannels;
    for (const Plane& plane : planes_in("XYCZT", {.c = 2, .t = 6})) {
      if (plane.t >= frames) continue;
      auto& in = pages[plane.t < 4 ? 0 : 1];
      in.insert(in.begin(), plane);
    }
    for (std::size_t file = 0; file < 2; ++file) {
      for (std::size_t page = 0; page < pages[file].size(); ++page) {
        // A folder of another machine does not matter.
        blocks += tiff_data(pages[file][page], static_cast<int>(page),
                            file == 0 ? first : "D:\\data\\" + second, uuids[file]);
      }
    }
    const std::string series = image("Pos0", pixels_element("XYCZT", {.c = 2, .t = 6}, blocks));
    for (std::size_t file = 0; file < 2; ++file) {
      if (pages[file].empty()) continue;
      write_file(folder / (file == 0 ? first : second),
                 tiff_bytes(pixels_of(pages[file]), kWidth, kHeight, ome(series, uuids[file])));
    }
  }
  StackSettings settings(const std::string& name) const {
    StackSettings settings = at(folder / name);
    settings.channel = 1;
    return settings;
  }
};

TEST_CASE("files that Micro-Manager split are one recording, from whichever is opened") {
  const Split split;
  const std::vector<Plane> movie{{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, 1, 3}, {0, 1, 4}, {0, 1, 5}};
  check_movie(split.settings(split.first), movie);
  check_movie(split.settings(split.second), movie);
  // A file that was renamed is known by its UUID; one that is not there is named.
  std::filesystem::rename(split.folder / split.first, split.folder / "renamed.tif");
  check_movie(split.settings("renamed.tif"), movie);
  CHECK_THAT(complaint(split.settings(split.second)),
             contains("is truncated: 0 of 6 frames are whole (its metadata name " + split.first +
                      ", which is not in its folder)"));
  std::filesystem::remove(split.folder / split.second);
  StackSettings settings = split.settings("renamed.tif");
  CHECK_THAT(complaint(settings), contains("is truncated: 4 of 6 frames are whole (its metadata "
                                           "name " +
                                           split.second) &&
                                      contains("the option allow_truncated"));
  settings.allow_truncated = true;
  check_movie(settings, {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {0, 1, 3}});
  CHECK_THAT(open_stack(settings)->notes().back(), contains("4 of 6 frames"));
}

TEST_CASE("a recording that ended early has fewer planes than its metadata plan") {
  const Split split(3);
  StackSettings settings = split.settings(split.first);
  CHECK_THAT(complaint(settings),
             contains("is truncated: 3 of 6 frames are whole (no page is named, or there, for z 0, "
                      "c 1, t 3)"));
  settings.allow_truncated = true;
  check_movie(settings, {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}});
}

TEST_CASE("a plane that Micro-Manager did not record is another's page, and no measurement") {
  // OMEMetadata.fillInMissingTiffDatas of Micro-Manager links it to an earlier page.
  const TemporaryFolder folder;
  std::string blocks;
  for (int t = 0; t < 5; ++t) {
    blocks += tiff_data({0, 0, t}, t < 3 ? t : 2, "s.tif", "urn:uuid:9");
  }
  write_file(folder / "s.tif",
             tiff_bytes(pixels_of({{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}), kWidth, kHeight,
                        ome(image("", pixels_element("XYCZT", {.t = 5}, blocks)))));
  check_movie(at(folder / "s.tif"), {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 2}, {0, 0, 2}});
  const auto stack = open_stack(at(folder / "s.tif"));
  CHECK_THAT(stack->notes().at(0), contains("2 frames are the page of an earlier one"));
  std::vector<std::int64_t> repeats;
  for (std::int64_t frame = 0; frame < 5; ++frame) {
    if (stack->is_repeat(frame)) repeats.push_back(frame);
  }
  CHECK(repeats == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("pages that the metadata do not name are left out, which is told") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "s.tif");
  const auto write = [&](const std::string& blocks) {
    write_file(settings.path,
               tiff_bytes(pixels_of(planes_in("XYZCT", {.t = 7})), kWidth, kHeight,
                          ome(image("", pixels_element("XYZCT", {.t = 3}, blocks)))));
  };
  const std::vector<Plane> named{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}};
  for (const std::string blocks : {"", "<TiffData/>", "<TiffData PlaneCount=\"3\"/>"}) {
    CAPTURE(blocks);
    write(blocks);
    check_movie(settings, named);
    REQUIRE(open_stack(settings)->notes().size() == 1);
    CHECK_THAT(open_stack(settings)->notes()[0],
               contains("4 of its 7 pages are in no metadata, and left out"));
  }
  write(
      "<TiffData IFD=\"0\"/><TiffData IFD=\"3\" FirstT=\"2\"/><TiffData IFD=\"1\" FirstT=\"1\"/>");
  CHECK_THAT(open_stack(settings)->notes().at(0), contains("4 of its 7 pages"));
  settings.every_page = true;
  CHECK(open_stack(settings)->notes().empty());
  CHECK(open_stack(settings)->shape().frames == 7);
}

TEST_CASE("a page that is named twice for its frame contradicts nothing; another page does") {
  const TemporaryFolder folder;
  const std::vector<Plane> planes = planes_in("XYZCT", {.t = 3});
  const auto notes_of = [&](const std::string& more) {
    const std::string blocks = "<TiffData IFD=\"0\" PlaneCount=\"2\"/>" + more;
    write_file(folder / "s.tif",
               tiff_bytes(pixels_of(planes), kWidth, kHeight,
                          ome(image("", pixels_element("XYZCT", {.t = 3}, blocks)))));
    check_movie(at(folder / "s.tif"), planes);
    return open_stack(at(folder / "s.tif"))->notes();
  };
  const std::string last = "<TiffData IFD=\"2\" FirstT=\"2\"/>";
  CHECK(notes_of("<TiffData IFD=\"1\" FirstT=\"1\" PlaneCount=\"2\"/>").empty());
  CHECK(notes_of(last + last).empty());
  CHECK(notes_of("<TiffData IFD=\"2\" FirstT=\"1\" PlaneCount=\"1\"/>" + last) ==
        std::vector<std::string>{
            "its metadata give 1 page to frames that have one: the first named counts"});
}

TEST_CASE("of several positions in files of their own, the opened file's is taken") {
  const TemporaryFolder folder;
  std::string images;
  for (int series = 0; series < 3; ++series) {
    const std::string name = "p" + std::to_string(series) + ".tif";
    images += image("Pos" + std::to_string(series),
                    pixels_element("XYZCT", {.t = 2},
                                   tiff_data({0, 0, 0}, 0, name, "urn:uuid:" + name) +
                                       tiff_data({0, 0, 1}, 1, name, "urn:uuid:" + name)));
  }
  for (int series = 0; series < 3; ++series) {
    const std::string name = "p" + std::to_string(series) + ".tif";
    write_file(folder / name, tiff_bytes(pixels_of(planes_in("XYZCT", {.t = 2}, series)), kWidth,
                                         kHeight, ome(images, "urn:uuid:" + name)));
  }
  check_movie(at(folder / "p1.tif"), {{0, 0, 0, 1}, {0, 0, 1, 1}});
  CHECK(open_stack(at(folder / "p1.tif"))->notes() == std::vector<std::string>{"series 1 (Pos1)"});
  StackSettings settings = at(folder / "p1.tif");
  settings.series = 2;
  check_movie(settings, {{0, 0, 0, 2}, {0, 0, 1, 2}});
}

TEST_CASE("TiffData with a page and without a number is one plane") {
  const TemporaryFolder folder;
  const std::string blocks =
      "<TiffData IFD=\"0\" FirstT=\"1\"/><TiffData IFD=\"2\" FirstT=\"2\"/>"
      "<TiffData IFD=\"1\" FirstT=\"0\"/>";
  write_file(folder / "s.tif",
             tiff_bytes(pixels_of({{0, 0, 1}, {0, 0, 0}, {0, 0, 2}}), kWidth, kHeight,
                        ome(image("", pixels_element("XYCZT", {.t = 3}, blocks)))));
  check_movie(at(folder / "s.tif"), {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}});
}

TEST_CASE("metadata that cannot be used are refused with a sentence, and every_page does without") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "s.tif");
  const auto planes = planes_in("XYZCT", {.t = 3});
  const auto with = [&](const std::string& xml) {
    write_file(settings.path, tiff_bytes(pixels_of(planes), kWidth, kHeight, xml));
    StackSettings pages = settings;
    pages.every_page = true;
    check_movie(pages, planes);
    return complaint(settings);
  };
  const std::string good = ome(image("", pixels_element("XYZCT", {.t = 3}, "<TiffData/>")));
  REQUIRE(with(good).empty());
  CHECK_THAT(with(good.substr(0, good.size() - 4)),
             contains("its OME-XML is cut off or damaged at byte"));
  CHECK_THAT(with(ome("")), contains("its OME-XML has no Image"));
  CHECK_THAT(with(ome("<Image/>")), contains("has an Image without Pixels"));
  CHECK_THAT(with(ome("<BinaryOnly MetadataFile=\"master.ome.tif\" UUID=\"urn:uuid:1\"/>")),
             contains("their metadata are in master.ome.tif: open that"));
  CHECK_THAT(with(ome(image("", pixels_element("XYZTZ", {.t = 3}, "")))),
             contains("DimensionOrder=\"XYZTZ\"; allowed are XYZCT, "));
  CHECK_THAT(with(ome(image("", "<Pixels DimensionOrder=\"XYZCT\" SizeZ=\"1\" SizeC=\"1\"/>"))),
             contains("has Pixels without SizeT"));
  for (const char* bad : {"0", "-1", "1e3", "", "9999999999999999999999", "2147483648"}) {
    CAPTURE(bad);
    CHECK_THAT(
        with(ome(image("", "<Pixels DimensionOrder=\"XYZCT\" SizeZ=\"1\" SizeC=\"1\" SizeT=\"" +
                               std::string(bad) + "\"/>"))),
        contains("has Pixels SizeT=\"" + std::string(bad) + "\"; allowed are 1 to"));
  }
  CHECK_THAT(with(ome(image("", pixels_element("XYZCT", {.t = 3}, "<TiffData FirstT=\"3\"/>")))),
             contains("has TiffData from z 0, c 0, t 3 on, which is beyond"));
}

TEST_CASE("XML that is no OME's, or none, makes the pages the frames") {
  const TemporaryFolder folder;
  const auto planes = planes_in("XYZCT", {.t = 3});
  for (const char* text : {"", "OME", "<xml/>", "a movie of <OME>", "<OMERO/>", "<a>OME</a>"}) {
    CAPTURE(text);
    write_file(folder / "s.tif", tiff_bytes(pixels_of(planes), kWidth, kHeight, text));
    check_movie(at(folder / "s.tif"), planes);
  }
  // Without TiffData the planes stand as DimensionOrder says; prefixes and byte order marks are
  // allowed.
  const std::string bare = ome(image("", pixels_element("XYZCT", {.t = 3}, "")));
  std::string prefixed = bare;
  for (const char* name : {"OME", "Image", "Pixels"}) {
    for (const char* bracket : {"<", "</"}) {
      for (std::size_t at = 0;
           (at = prefixed.find(std::string(bracket) + name, at)) != std::string::npos; ++at) {
        prefixed.insert(at + std::string(bracket).size(), "ome:");
      }
    }
  }
  for (const std::string& xml : {bare, "\xef\xbb\xbf" + bare, prefixed}) {
    CAPTURE(xml);
    write_file(folder / "s.tif", tiff_bytes(pixels_of(planes), kWidth, kHeight, xml));
    check_movie(at(folder / "s.tif"), planes);
    StackSettings settings = at(folder / "s.tif");
    settings.channel = 1;  // shows that it was understood
    CHECK_THAT(complaint(settings), contains("has 1 channel: 0; the option channel is 1"));
  }
}

TEST_CASE("hostile metadata are refused or read, soon and without leaving the folder") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inner");
  const auto planes = planes_in("XYZCT", {.t = 3});
  write_file(folder / "outside.tif", tiff_bytes(pixels_of(planes), kWidth, kHeight, ""));
  StackSettings settings = at(folder / "inner/s.tif");
  const auto with = [&](const std::string& xml) {
    write_file(settings.path, tiff_bytes(pixels_of(planes), kWidth, kHeight, xml));
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = complaint(settings);
    // Seconds on a slow machine under sanitizers; what is quadratic takes minutes.
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    return text;
  };
  const auto size = [&](const std::string& more, const std::string& blocks) {
    return ome(image("", "<Pixels DimensionOrder=\"XYZCT\" " + more + ">" + blocks + "</Pixels>"));
  };
  // Entities that would grow to gigabytes, or be read from a file, are not expanded.
  std::string bomb = "<?xml version=\"1.0\"?><!DOCTYPE OME [<!ENTITY a \"aaaaaaaaaa\">";
  for (char name = 'b'; name < 'z'; ++name) {
    bomb += std::string("<!ENTITY ") + name + " \"";
    for (int i = 0; i < 10; ++i) bomb += std::string("&") + static_cast<char>(name - 1) + ";";
    bomb += "\">";
  }
  bomb += "<!ENTITY f SYSTEM \"file:///etc/passwd\">]><OME><Image Name=\"&y;&f;\">" +
          pixels_element("XYZCT", {.c = 2, .t = 3}, "<Channel Name=\"&f;\"/>") + "</Image></OME>";
  CHECK_THAT(with(bomb), contains("has 2 channels: 0 (&f;), 1; choose"));
  std::string deep = "<OME>";
  for (int i = 0; i < 200'000; ++i) deep += "<a>";
  CHECK_THAT(with(deep), contains("is cut off or damaged at byte 60"));

  CHECK_THAT(with(size("SizeZ=\"1000000000\" SizeC=\"1000000000\" SizeT=\"1000000000\"", "")),
             contains("more planes than can be counted"));
  CHECK_THAT(with(size("SizeZ=\"1\" SizeC=\"1000000000\" SizeT=\"1\"", "")),
             contains("has 1000000000 channels: 0, 1, 2, ") && contains(" ... 999999999; choose"));
  CHECK_THAT(with(size("SizeZ=\"1\" SizeC=\"1\" SizeT=\"1000000000\"", "<TiffData/>")),
             contains("3 of 1000000000 frames"));
  CHECK_THAT(with(size("SizeZ=\"1\" SizeC=\"1\" SizeT=\"3\"",
                       "<TiffData IFD=\"1000000000\" PlaneCount=\"1000000000\"/>")),
             contains("0 of 3 frames"));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "<TiffData/>";
  CHECK(with(size("SizeZ=\"1\" SizeC=\"1\" SizeT=\"3\"", many)).empty());
  for (const char* name : {"../outside.tif", "..\\outside.tif", "/etc/passwd", "..", ".", "/",
                           "../../../../../../../../etc/passwd"}) {
    CAPTURE(name);
    CHECK_THAT(with(size("SizeZ=\"1\" SizeC=\"1\" SizeT=\"3\"",
                         "<TiffData><UUID FileName=\"" + std::string(name) +
                             "\">urn:uuid:5</UUID></TiffData>")),
               contains("0 of 3 frames"));
  }
}

TEST_CASE("ImageJ's hyperstacks are chosen from alike") {
  const TemporaryFolder folder;
  const Extent size{.z = 2, .c = 2, .t = 3};
  const std::string text =
      "ImageJ=1.54f\nimages=12\nchannels=2\nslices=2\nframes=3\n"
      "hyperstack=true\n";
  const auto pixels = pixels_of(planes_in("XYCZT", size));
  StackSettings settings = at(folder / "s.tif");
  SECTION("pages") {
    write_file(settings.path,
               tiff_bytes(pixels, kWidth, kHeight, text, {.directories_last = true}));
  }
  SECTION("one page with all images behind it") {
    std::string bytes =
        tiff_bytes(pixels_of(Plane{0, 0, 0}), kWidth, kHeight, text, {.directories_last = true});
    for (std::size_t i = kWidth * kHeight; i < pixels.size(); ++i) {
      bytes += {static_cast<char>(pixels[i] & 255), static_cast<char>(pixels[i] >> 8)};
    }
    write_file(settings.path, bytes);
  }
  CHECK_THAT(complaint(settings),
             contains("has 2 channels: 0, 1; choose one by the option channel"));
  settings.channel = 1;
  CHECK_THAT(complaint(settings), contains("choose one by the option slice"));
  settings.slice = 1;
  check_movie(settings, {{1, 1, 0}, {1, 1, 1}, {1, 1, 2}});
  settings.channel = 0;
  check_movie(settings, {{1, 0, 0}, {1, 0, 1}, {1, 0, 2}});
  // Cut in the third time, behind the plane chosen; then before it.
  const std::string whole = read_file(settings.path);
  const std::size_t first = 8 + 6 + 12 * 11 + text.size() + 1;
  constexpr std::size_t kPlane = kWidth * kHeight * 2;
  settings.allow_truncated = true;
  for (const auto& [planes, frames] :
       {std::pair(11, 3), std::pair(10, 2), std::pair(7, 2), std::pair(6, 1), std::pair(3, 1)}) {
    CAPTURE(planes);
    write_file(settings.path,
               whole.substr(0, first + static_cast<std::size_t>(planes) * kPlane + 3));
    CHECK(open_stack(settings)->shape().frames == frames);
  }
}

}  // namespace
}  // namespace driftd::camera
