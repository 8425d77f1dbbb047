// SPDX-License-Identifier: MIT
// What a replay hands out: the pixels, their numbers and times, and what it leaves out.
#include <tiffio.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/recording/image_stack.hpp"
#include "camera/recording/replay_images.hpp"
#include "camera/sources.hpp"
#include "replay_recordings.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"
#include "support/test_data.hpp"
#include "unit/camera/recording/tiff_bytes.hpp"

using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::camera::test;
using namespace std::chrono_literals;

TEST_CASE("a TIFF stack replays pixel for pixel, whatever its layout") {
  const auto options = GENERATE(
      TiffOptions{.mode = "wb", .bits = 16}, TiffOptions{.mode = "wl", .bits = 16},
      TiffOptions{.mode = "wb", .bits = 8}, TiffOptions{.mode = "wl", .bits = 8},
      TiffOptions{.mode = "wb", .bits = 16, .compression = COMPRESSION_LZW},
      TiffOptions{.mode = "w8", .bits = 16}, TiffOptions{.mode = "wb", .bits = 16, .tiled = true},
      TiffOptions{.bits = 8, .tiled = true});
  const TempFile file("stack.tif");
  write_tiff(file.path(), options);
  const auto source = make_replay_source(fast(file.path()));
  source->start();
  Frame frame;
  for (int number = 0; number < options.frames; ++number) {
    REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
    CHECK(frame.id == static_cast<std::uint64_t>(number));
    CHECK(holds_frame(frame, number, options.bits));
  }
  CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
  CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
  CHECK(source->counters().frames == static_cast<std::uint64_t>(options.frames));
  CHECK_FALSE(source->counters().connected);
}

TEST_CASE("words with a sign replay where none is below 0") {
  constexpr int kSide = 4;
  const TempFile file("signed.tif");
  std::vector<std::uint16_t> pixels(2 * kSide * kSide);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint16_t>(32868 + i);
  const std::string said = "ImageJ=1.54f\nimages=2\ncf=0\nc0=-32768.0\nc1=1.0\n";
  driftd::test::write_file(file.path(), driftd::test::tiff_bytes(pixels, kSide, kSide, said));
  const auto source = make_replay_source(fast(file.path()));
  source->start();
  Frame frame;
  for (std::size_t number = 0; number < 2; ++number) {
    REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
    CHECK(frame.format == PixelFormat::Mono16);
    const auto* words = reinterpret_cast<const std::uint16_t*>(frame.pixels);
    for (std::size_t i = 0; i < kSide * kSide; ++i)
      CHECK(words[i] == 100 + number * kSide * kSide + i);
  }
  pixels[17] = 32765;
  driftd::test::write_file(file.path(), driftd::test::tiff_bytes(pixels, kSide, kSide, said));
  CHECK_THROWS_WITH(make_replay_source(fast(file.path())),
                    contains("frame 1 has a pixel of -3; a camera's"));
}

TEST_CASE("raw pixels replay") {
  const auto bits = GENERATE(8, 16);
  const TempFile file("pixels.raw");
  write_raw(file.path(), bits, 4);
  const auto source = make_replay_source(
      fast_raw(file.path(), bits == 8 ? ReplayFormat::RawU8 : ReplayFormat::RawU16));
  source->start();
  Frame frame;
  for (int number = 0; number < 4; ++number) {
    REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
    CHECK(holds_frame(frame, number, bits));
  }
  CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
}

TEST_CASE("a range replays with the file's own frame numbers, and loops with growing ones") {
  const TempFile file("range.tif");
  write_tiff(file.path(), {});
  ReplaySettings settings = fast(file.path());
  settings.first_frame = 1;
  settings.last_frame = 3;
  settings.on_end = ReplayEnd::Loop;
  const auto source = make_replay_source(settings);
  source->start();
  Frame frame;
  for (int k = 0; k < 8; ++k) {
    REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
    CHECK(frame.id == static_cast<std::uint64_t>(1 + k));
    CHECK(holds_frame(frame, 1 + k % 3, 16));
  }
}

TEST_CASE("a paced replay hands out no frame before its time, and none is skipped") {
  const TempFile file("paced.tif");
  write_tiff(file.path(), {.description = "ImageJ=1.53t\nimages=5\nfinterval=0.004\nloop=false\n"});
  ReplaySettings settings = fast(file.path());
  settings.pace = ReplayPace::Recorded;
  const auto source = make_replay_source(settings);
  CHECK(source->info().frame_rate_hz == Approx(250));
  const std::int64_t before_start_ns = monotonic_ns();
  source->start();
  Frame frame;
  for (int number = 0; number < 5; ++number) {
    REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
    CHECK(frame.id == static_cast<std::uint64_t>(number));
    CHECK(frame.arrival_ns - before_start_ns >= number * 4'000'000);
    CHECK(frame.camera_time_ns == number * 4'000'000);
  }
  CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
}

TEST_CASE("however long the first frame is kept, those after it come at their pace") {
  const TempFile file("kept.tif");
  write_tiff(file.path(), {.description = "ImageJ=1.53t\nimages=5\nfinterval=0.004\nloop=false\n"});
  ReplaySettings settings = fast(file.path());
  settings.pace = ReplayPace::Recorded;
  const auto source = make_replay_source(settings);
  source->start();
  Frame frame;
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  std::this_thread::sleep_for(20ms);  // all the others would have been due
  const std::int64_t asked_ns = monotonic_ns();
  for (int number = 1; number < 5; ++number) {
    while (source->pop(1ms, frame) == PopStatus::Timeout) {
    }
    CHECK(frame.id == static_cast<std::uint64_t>(number));
    CHECK(frame.arrival_ns - asked_ns >= number * 4'000'000);
  }
}

TEST_CASE("a frame that is not due yet is a time-out, not a wait") {
  const TempFile file("slow.tif");
  write_tiff(file.path(), {});
  ReplaySettings settings = fast(file.path());
  settings.pace = ReplayPace::Rate;
  settings.rate_hz = 0.001;  // the second frame comes after 1000 s
  const auto source = make_replay_source(settings);
  source->start();
  Frame frame;
  CHECK(source->pop(1ms, frame) == PopStatus::Frame);
  CHECK(source->pop(1ms, frame) == PopStatus::Timeout);
  CHECK(source->counters().connected);
  source->stop();
  CHECK(source->pop(1ms, frame) == PopStatus::EndOfStream);
}

TEST_CASE("ImageJ's frames per second are a recorded rate") {
  const TempFile file("fps.tif");
  write_tiff(file.path(), {.description = "ImageJ=1.53t\nimages=5\nfps=12.5\n"});
  ReplaySettings settings = fast(file.path());
  settings.pace = ReplayPace::Recorded;
  CHECK(make_replay_source(settings)->info().frame_rate_hz == Approx(12.5));
}

TEST_CASE("one channel of an OME-TIFF is replayed, at the rate that it says") {
  const TempFile file("ome.tif");
  const std::string xml =
      "<OME><Image><Pixels DimensionOrder=\"XYCZT\" SizeX=\"20\" SizeY=\"12\" SizeZ=\"1\" "
      "SizeC=\"2\" "
      "SizeT=\"3\" TimeIncrement=\"5\" TimeIncrementUnit=\"ms\"><TiffData/></Pixels></Image></OME>";
  write_tiff(file.path(), {.frames = 6, .description = xml});
  ReplaySettings settings = fast(file.path());
  CHECK(contains(error_of(settings),
                 "has 2 channels: 0, 1; choose one by the option replay.channel"));
  settings.channel = 1;
  {
    const auto source = make_replay_source(settings);
    source->start();
    Frame frame;
    for (const int page : {1, 3, 5}) {
      REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
      CHECK(holds_frame(frame, page, 16));
    }
    CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
    CHECK(source->info().notes.at(0) == "channel 1");
  }
  settings.pace = ReplayPace::Recorded;
  CHECK(make_replay_source(settings)->info().frame_rate_hz == Approx(200));
  settings.every_page = true;
  settings.channel = -1;
  settings.pace = ReplayPace::Fast;
  CHECK(contains(make_replay_source(settings)->info().notes.at(0), "frames 0 to 5"));
}

TEST_CASE("a frame whose page is an earlier one's is left out, as one that a camera lost") {
  const TempFile file("s.tif");
  write_tiff(file.path(),
             {.description = R"(<OME><Image><Pixels DimensionOrder="XYCZT" SizeZ="1" SizeC="1"
    SizeT="7"><TiffData IFD="0"/><TiffData IFD="0" FirstT="1"/><TiffData IFD="2" FirstT="2"/><TiffData
    IFD="3" FirstT="3"/><TiffData IFD="3" FirstT="4"/><TiffData IFD="4" FirstT="5"/><TiffData IFD="1"
    FirstT="6"/></Pixels></Image></OME>)"});
  const auto ids = [&](ReplaySettings settings, std::size_t most) {
    const auto source = make_replay_source(settings);
    source->start();
    std::vector<std::uint64_t> all;
    Frame frame;
    while (all.size() < most && source->pop(1s, frame) == PopStatus::Frame) all.push_back(frame.id);
    return all;
  };
  ReplaySettings settings = fast(file.path());
  CHECK(ids(settings, 9) == std::vector<std::uint64_t>{0, 2, 3, 5, 6});
  settings.on_end = ReplayEnd::Loop;
  settings.last_frame = 4;
  CHECK(ids(settings, 5) == std::vector<std::uint64_t>{0, 2, 3, 5, 7});
  settings.first_frame = 2;
  settings.last_frame = 6;
  CHECK(ids(settings, 6) == std::vector<std::uint64_t>{2, 3, 5, 6, 7, 8});
  settings.first_frame = 1;  // the first of all has no earlier one
  settings.last_frame = 1;
  CHECK(ids(settings, 2) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("an HDF5 dataset replays, the only one or the one named") {
  const driftd::test::TemporaryFolder folder;
  std::vector<std::uint16_t> pixels;
  for (int frame = 0; frame < 3; ++frame) {
    for (int i = 0; i < kWidth * kHeight; ++i) {
      pixels.push_back(level(frame, i % kWidth, i / kWidth, 16));
    }
  }
  ReplaySettings settings = fast(folder / "movie.h5");
  settings.format = ReplayFormat::Hdf5;
  const std::vector<hsize_t> size{3, kHeight, kWidth};
  driftd::test::write_hdf5(settings.path, "/run/frames", H5T_STD_U16BE, size, pixels);
  settings.first_frame = 1;
  const auto check = [&] {
    const auto source = make_replay_source(settings);
    source->start();
    Frame frame;
    for (int number = 1; number < 3; ++number) {
      REQUIRE(source->pop(0us, frame) == PopStatus::Frame);
      CHECK(frame.id == static_cast<std::uint64_t>(number));
      CHECK(holds_frame(frame, number, 16));
    }
    CHECK(source->pop(0us, frame) == PopStatus::EndOfStream);
  };
  check();
  const std::vector<std::uint16_t> others(pixels.size(), 7);
  driftd::test::write_hdf5(settings.path, "/others", H5T_STD_U16LE, size, others);
  CHECK(
      contains(error_of(settings), "name one by the option replay.dataset: /others, /run/frames"));
  settings.dataset = "/run/frames";
  check();
  settings.pace = ReplayPace::Recorded;
  CHECK(contains(error_of(settings), "no recorded frame rate"));
  // The last frame looks as if it was never written: told to those who play it.
  std::fill(pixels.end() - kWidth * kHeight, pixels.end(), std::uint16_t{0});
  settings.dataset = "/dark";
  driftd::test::write_hdf5(settings.path, settings.dataset, H5T_STD_U16BE, size, pixels);
  REQUIRE(read_recording(settings).notes.size() == 1);
  CHECK(contains(read_recording(settings).notes[0], "its last frame holds the fill value alone"));
  settings.last_frame = 1;
  CHECK(read_recording(settings).notes.empty());
}

TEST_CASE("an ImageJ stack above 4 GB, which has one page, replays as driftfit reads it") {
  constexpr int kSide = 1024;
  constexpr std::size_t kFrameBytes = std::size_t{kSide} * kSide * 2;
  constexpr int kFrames = 2051;  // 4 GiB are 2048
  const driftd::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "large.tif";
  TIFF* tiff = TIFFOpen(path.c_str(), "wb");
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kSide);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kSide);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 16);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, kSide);
  TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, "ImageJ=1.54f\nimages=2051\nfinterval=0.02\n");
  std::vector<std::uint16_t> page(kFrameBytes / 2, 100);
  TIFFWriteEncodedStrip(tiff, 0, page.data(), static_cast<tmsize_t>(kFrameBytes));
  TIFFClose(tiff);
  tiff = TIFFOpen(path.c_str(), "r");
  const std::uint64_t begin = TIFFGetStrileOffset(tiff, 0);
  TIFFClose(tiff);
  // The other images follow the first one's pixels; all but the last are holes in the file.
  std::error_code error;
  std::filesystem::resize_file(path, begin + std::uint64_t{kFrames} * kFrameBytes, error);
  if (error) {
    std::cout << "SKIPPED: the file system makes no sparse file of 4 GiB: " << error.message()
              << "\n";
    return;
  }
  std::vector<std::uint16_t> last(page.size());
  std::string bytes;
  for (std::size_t i = 0; i < last.size(); ++i) {
    last[i] = static_cast<std::uint16_t>(i * 31 + i / kSide);
    bytes += {static_cast<char>(last[i] >> 8), static_cast<char>(last[i] & 255)};
  }
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(begin + std::uint64_t{kFrames - 1} * kFrameBytes));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();

  ReplaySettings settings = fast(path);
  settings.first_frame = kFrames - 2;
  settings.pace = ReplayPace::Recorded;
  const auto source = make_replay_source(settings);
  CHECK(source->info().frame_rate_hz == Approx(50));
  source->start();
  Frame frame;
  std::vector<std::uint16_t> replayed(last.size());
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  unpack(frame, replayed.data());
  CHECK(replayed == std::vector<std::uint16_t>(last.size(), 0));
  REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
  CHECK(frame.id == kFrames - 1);
  unpack(frame, replayed.data());
  CHECK(replayed == last);
  CHECK(source->pop(10s, frame) == PopStatus::EndOfStream);

  StackSettings stack_settings;  // as driftfit has them
  stack_settings.path = path;
  const auto stack = open_stack(stack_settings);
  CHECK(stack->shape().frames == kFrames);
  std::vector<std::uint16_t> read(last.size());
  stack->read(kFrames - 1, 1, reinterpret_cast<std::byte*>(read.data()));
  CHECK(read == replayed);
}

TEST_CASE("recordings of others replay as documented") {
  const auto data = driftd::test::test_data();
  if (!data) return;
  Frame frame;
  std::vector<std::uint16_t> pixels(512 * 512);

  const auto stuck = make_replay_source(fast(*data / "trackpy_stuck/stuck.tif"));  // big-endian u16
  stuck->start();
  int frames = 0;
  while (stuck->pop(0us, frame) == PopStatus::Frame) {
    ++frames;
    REQUIRE(frame.format == PixelFormat::Mono16);
    unpack(frame, pixels.data());
    double sum = 0;
    for (const std::uint16_t pixel : pixels) sum += pixel;
    // Background of about 500 (its README); swapped bytes would make it about 62,000.
    CHECK(sum / static_cast<double>(pixels.size()) == Approx(500).margin(20));
  }
  CHECK(frames == 5);

  ReplaySettings settings = fast(*data / "psfextractor_zstack/zstack_34x512x512_u8.tif");
  settings.first_frame = 15;
  settings.last_frame = 19;
  const auto beads = make_replay_source(settings);
  beads->start();
  for (std::uint64_t id = 15; id <= 19; ++id) {
    REQUIRE(beads->pop(0us, frame) == PopStatus::Frame);
    CHECK(frame.id == id);
    CHECK(frame.format == PixelFormat::Mono8);
    CHECK(frame.width_px == 512);
  }
  CHECK(beads->pop(0us, frame) == PopStatus::EndOfStream);

  settings = fast(*data / "picasso/testdata.raw");
  settings.format = ReplayFormat::RawU16;
  settings.width_px = settings.height_px = 32;
  const auto picasso = make_replay_source(settings);
  picasso->start();
  while (picasso->pop(0us, frame) == PopStatus::Frame) {
  }
  CHECK(picasso->counters().frames == 1000);
}
