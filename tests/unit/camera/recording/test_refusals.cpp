// SPDX-License-Identifier: MIT
// The sentences of readers: they name the options of the program that reads, and the file once; and
// what OME metadata that contradict the file, or themselves, come to.
#include <algorithm>

#include "camera/recording/image_stack.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"
#include "unit/camera/recording/ome_files.hpp"
#include "unit/camera/recording/tiff_bytes.hpp"

namespace driftd::camera {
namespace {

using namespace driftd::test;
using namespace ome_files;

constexpr StackOptionNames kNames{.width = "--w",
                                  .height = "--h",
                                  .type = "--t",
                                  .byte_order = "--b",
                                  .dataset = "--d",
                                  .series = "--se",
                                  .channel = "--ch",
                                  .slice = "--sl",
                                  .every_page = "--ev",
                                  .allow_truncated = "--al"};

/// What opening says: the refusal, or the notes on lines of their own.
std::string said(const StackSettings& settings) {
  std::string text;
  try {
    const auto stack = open_stack(settings);
    for (const std::string& note : stack->notes()) text += note + "\n";
  } catch (const RecordingError& error) {
    text = error.what();
  }
  return text;
}

StackSettings at(const std::filesystem::path& path) {
  StackSettings settings;
  settings.path = path;
  settings.names = kNames;
  return settings;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

struct OmeFile {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "s.tif";

  /// Three pages under metadata. @return what opening them says
  std::string with(const std::string& xml) const {
    write_file(path, tiff_bytes(pixels_of(planes_in("XYZCT", {.t = 3})), kWidth, kHeight, xml));
    return said(at(path));
  }
  std::string with_pixels(const std::string& pixels) const { return with(ome(image("", pixels))); }
};

TEST_CASE("refusals name the options of the program that reads") {
  const OmeFile file;
  const auto element = [](Extent size) { return pixels_element("XYCZT", size, "<TiffData/>"); };
  CHECK_THAT(file.with_pixels(element({.c = 3})), contains("choose one by the option --ch"));
  CHECK_THAT(file.with_pixels(element({.z = 3, .t = 2})),
             contains("choose one by the option --sl"));
  const std::string two = image("a", element({})) + image("b", element({}));
  CHECK_THAT(file.with(ome(two)), contains("choose one by the option --se"));
  CHECK_THAT(file.with_pixels(element({.t = 2})), contains("the option --ev takes all"));
  CHECK_THAT(file.with_pixels(element({.t = 4})), contains("the option --al takes what"));
  CHECK_THAT(file.with(ome("<BinaryOnly MetadataFile=\"m.tif\"/>")), contains("the option --ev"));
  CHECK_THAT(file.with(ome("")), contains("the option --ev takes its pages without it"));
  file.with("");
  StackSettings settings = at(file.path);
  settings.series = 1;
  CHECK_THAT(said(settings), contains("has 1 series: 0; the option --se is 1"));
  write_file(file.folder / "s.txt", "text");
  CHECK_THAT(said(at(file.folder / "s.txt")), contains("the options --w, --h and --t"));
  write_file(file.folder / "s.raw", "text");
  CHECK_THAT(said(at(file.folder / "s.raw")), contains("need the option --t;"));
  for (const char* name : {"/a", "/b"}) {
    write_hdf5<std::uint16_t>(file.folder / "s.h5", name, H5T_STD_U16LE, {1, 1, 2}, {1, 2});
  }
  CHECK_THAT(said(at(file.folder / "s.h5")), contains("by the option --d: /a, /b"));
}

TEST_CASE("a setting that has no meaning for the file is refused by the option's name") {
  const TemporaryFolder folder;
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, 2);
  write_file(folder / "s.tif", tiff_bytes(pixels, kWidth, kHeight, ""));
  write_hdf5(folder / "s.h5", "/a", H5T_STD_U16LE, {2, kHeight, kWidth}, pixels);
  write_file(folder / "s.raw", std::string(pixels.size() * 2, 'x'));
  struct Case {
    const char* option;
    StackFormat of;
    void (*give)(StackSettings&);
  };
  using enum StackFormat;
  const std::vector<Case> cases{
      {"--w", PlainPixels, [](StackSettings& s) { s.width_px = kWidth; }},
      {"--h", PlainPixels, [](StackSettings& s) { s.height_px = kHeight; }},
      {"--t", PlainPixels, [](StackSettings& s) { s.type = PixelType::U16; }},
      {"--b", PlainPixels, [](StackSettings& s) { s.byte_order = ByteOrder::Little; }},
      {"--d", Hdf5, [](StackSettings& s) { s.dataset = "/a"; }},
      {"--ev", Tiff, [](StackSettings& s) { s.every_page = true; }},
      {"--se", Tiff, [](StackSettings& s) { s.series = 0; }},
      {"--ch", Tiff, [](StackSettings& s) { s.channel = 0; }},
      {"--sl", Tiff, [](StackSettings& s) { s.slice = 0; }}};
  for (const auto& [name, format, in_words] :
       {std::tuple("s.tif", Tiff, "TIFF"), std::tuple("s.h5", Hdf5, "HDF5"),
        std::tuple("s.raw", PlainPixels, "plain pixels")}) {
    for (const Case& one : cases) {
      CAPTURE(name, one.option);
      StackSettings settings = at(folder / name);
      if (format == PlainPixels) {
        settings.width_px = kWidth;
        settings.height_px = kHeight;
        settings.type = PixelType::U16;
      }
      REQUIRE(said(settings).empty());
      one.give(settings);
      if (one.of == format) {
        CHECK(said(settings).empty());
      } else {
        CHECK_THAT(said(settings), contains(std::string("the option ") + one.option + " is for ") &&
                                       contains(std::string("; this is ") + in_words));
      }
    }
  }
}

TEST_CASE("a refusal names the file once") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, 9);
  write_file(folder / "s.tif", tiff_bytes(pixels, kWidth, kHeight, ""));
  write_hdf5(folder / "s.h5", "/run/images", H5T_STD_U16LE, {9, kHeight, kWidth}, pixels);
  for (const char* name : {"s.tif", "s.h5"}) {
    const StackSettings settings = at(folder / name);
    const std::string whole = read_file(settings.path);
    for (std::size_t size = whole.size() - 1; size > 60; size -= 53) {
      CAPTURE(name, size);
      write_file(settings.path, whole.substr(0, size));
      const std::string text = said(settings);
      CAPTURE(text);
      CHECK(times(text, settings.path.string()) == 1);
      if (size < 60 + 53) break;
    }
  }
}

TEST_CASE("metadata that contradict the pages are told, or refused where pages are missing") {
  const OmeFile file;
  struct Case {
    const char* what;
    std::string pixels;
    const char* said;  ///< "": nothing
  };
  const auto pixels = [](const std::string& attributes, const std::string& inside) {
    return "<Pixels " + attributes + ">" + inside + "</Pixels>";
  };
  const std::string sizes = "DimensionOrder=\"XYZCT\" SizeZ=\"1\" SizeC=\"1\" SizeT=\"3\"";
  const auto with_t = [](int frames, const std::string& inside) {
    return pixels_element("XYZCT", {.t = frames}, inside);
  };
  const auto uuid = [](const std::string& attributes) {
    return "<TiffData IFD=\"0\"><UUID" + attributes + ">urn:uuid:5</UUID></TiffData>";
  };
  for (const Case& one : std::vector<Case>{
           {"all agrees", with_t(3, "<TiffData/>"), ""},
           {"fewer planes than pages", with_t(2, "<TiffData/>"), "1 of its 3 pages is in no"},
           {"more planes than pages", with_t(4, ""),
            "3 of 4 frames are whole (no page is named, or there, for z 0, c 0, t 3)"},
           {"SizeX", pixels(sizes + " SizeX=\"512\" SizeY=\"5\"", ""),
            "its OME-XML says frames of 512 x 5 uint16 (SizeX, SizeY, Type), page 0 is 7 x 5 "
            "uint16: the page counts"},
           {"SizeY", pixels(sizes + " SizeY=\"x\"", ""), "says frames of 7 x 0 uint16"},
           {"Type", pixels(sizes + " Type=\"int16\"", ""), "says frames of 7 x 5 int16"},
           {"no Type, no sizes", pixels(sizes, ""), ""},
           {"SignificantBits", pixels(sizes + " SignificantBits=\"99\"", ""), ""},
           {"no order", pixels("SizeZ=\"1\" SizeC=\"1\" SizeT=\"3\"", ""),
            "has Pixels without DimensionOrder; the option --ev"},
           {"an IFD behind the file", with_t(3, "<TiffData IFD=\"7\"/>"),
            "0 of 3 frames are whole (its metadata name page 7 of s.tif, which has pages 0 to 2)"},
           {"a PlaneCount behind it", with_t(5, "<TiffData IFD=\"0\" PlaneCount=\"5\"/>"),
            "3 of 5 frames are whole (its metadata name page 4 of s.tif, which has pages 0 to 2)"},
           {"more planes than frames", with_t(3, "<TiffData PlaneCount=\"1000\"/>"), ""},
           {"two pages for a frame",
            with_t(2,
                   "<TiffData IFD=\"0\"/><TiffData IFD=\"2\"/><TiffData IFD=\"1\" "
                   "FirstT=\"1\"/>"),
            "its metadata give 1 page to frames that have one: the first named counts"},
           {"every page for the first", with_t(3, "<TiffData IFD=\"0\"/><TiffData IFD=\"1\"/>"),
            "1 of 3 frames is whole (no page is named, or there, for z 0, c 0, t 1; its metadata "
            "give 1 page to frames that have one"},
           {"another file by its UUID alone", with_t(3, uuid("")),
            "0 of 3 frames are whole (it names a file by urn:uuid:5 alone)"},
           {"a file that is not there", with_t(3, uuid(" FileName=\"../t.tif\"")),
            "(its metadata name t.tif, which is not in its folder)"}}) {
    CAPTURE(one.what);
    const std::string text = file.with_pixels(one.pixels);
    if (one.said[0] == '\0') {
      CHECK(text.empty());
    } else {
      CHECK_THAT(text, contains(one.said));
    }
  }
}

TEST_CASE("OME's float is a page's 32 bits float") {
  const TemporaryFolder folder;
  const std::string xml =
      ome(image("",
                "<Pixels Type=\"float\" DimensionOrder=\"XYZCT\" SizeX=\"7\" SizeY=\"5\" "
                "SizeZ=\"1\" SizeC=\"1\" SizeT=\"1\"/>"));
  write_tiff(folder / "s.tif", counting<float>(kWidth, kHeight, 1), kWidth, kHeight,
             {.description = xml.c_str()});
  CHECK(said(at(folder / "s.tif")).empty());
}

TEST_CASE("series of different sizes are read each by its own") {
  const TemporaryFolder folder;
  const std::string xml =
      ome(image("a", pixels_element("XYZCT", {}, "<TiffData IFD=\"0\"/>")) +
          image("b",
                "<Pixels Type=\"uint16\" DimensionOrder=\"XYZCT\" SizeX=\"5\" SizeY=\"7\" "
                "SizeZ=\"1\" SizeC=\"1\" SizeT=\"1\"><TiffData IFD=\"1\"/></Pixels>"));
  std::string bytes = tiff_bytes(counting<std::uint16_t>(kWidth, kHeight, 2), kWidth, kHeight, xml);
  // The second directory is the last 126 bytes; its first two entries are the size.
  const std::size_t directory = bytes.size() - (6 + 12 * 10);
  bytes[directory + 2 + 8] = 5;
  bytes[directory + 2 + 12 + 8] = 7;
  bytes[directory + 2 + 12 * 7 + 8] = 7;  // rows of its strip
  write_file(folder / "s.tif", bytes);
  for (const int series : {0, 1}) {
    StackSettings settings = at(folder / "s.tif");
    settings.series = series;
    const auto stack = open_stack(settings);
    CHECK(stack->shape().width_px == (series == 0 ? 7 : 5));
    CHECK(read_all<std::uint16_t>(*stack).size() == 35);
    CHECK(stack->notes().size() == 1);
  }
}

}  // namespace
}  // namespace driftd::camera
