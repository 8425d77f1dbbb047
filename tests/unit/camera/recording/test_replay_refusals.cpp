// SPDX-License-Identifier: MIT
// What cannot be replayed, and why, in the sentence that the user gets.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "camera/sources.hpp"
#include "replay_recordings.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"

using namespace driftd::camera;
using namespace driftd::camera::test;

TEST_CASE("what cannot be replayed says why, with the file's name") {
  const TempFile file("bad.tif");
  SECTION("missing") {
    const std::string error = error_of(fast("/nowhere/drift.tif"));
    CHECK(contains(error, "/nowhere/drift.tif"));
    CHECK(contains(error, "no such file"));
  }
  SECTION("a folder") {
    const driftd::test::TemporaryFolder folder;
    CHECK(contains(error_of(fast(folder / "")), "is a folder without a TIFF file"));
  }
  SECTION("no TIFF") {
    std::ofstream(file.path()) << "frame,x,y\n";
    CHECK(contains(error_of(fast(file.path())), "cannot be read as TIFF"));
  }
  SECTION("truncated within the pixels or the list of pages") {
    write_tiff(file.path(), {});
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) * 2 / 3);
    const std::string error = error_of(fast(file.path()));
    INFO(error);
    CHECK(contains(error, "is truncated: 3 whole frames"));
    ReplaySettings settings = fast(file.path());
    settings.allow_truncated = true;
    const auto source = make_replay_source(settings);
    CHECK(contains(source->info().notes.at(0), "is truncated: 3 whole frames"));
    CHECK(contains(source->info().notes.at(1), "frames 0 to 2 of the recording"));
  }
  SECTION("pages of different size") {
    write_tiff(file.path(), {.differing_page = 3});
    CHECK(contains(error_of(fast(file.path())),
                   "page 3: is 21 x 12 uint16, page 0 is 20 x 12 uint16"));
  }
  SECTION("a range beyond the end") {
    write_tiff(file.path(), {});
    ReplaySettings settings = fast(file.path());
    settings.last_frame = 5;
    CHECK(contains(error_of(settings), "it has 5 (0 to 4)"));
    settings.last_frame = -1;
    settings.first_frame = 5;
    CHECK(contains(error_of(settings), "it has 5 (0 to 4)"));
  }
  SECTION("an empty range") {
    write_tiff(file.path(), {});
    ReplaySettings settings = fast(file.path());
    settings.first_frame = 3;
    settings.last_frame = 2;
    CHECK(contains(error_of(settings),
                   "range of frames is empty: replay.first_frame 3, replay.last_frame 2"));
  }
  SECTION("no recorded rate") {
    write_tiff(file.path(), {});
    ReplaySettings settings = fast(file.path());
    settings.pace = ReplayPace::Recorded;
    CHECK(contains(error_of(settings), "no recorded frame rate"));
  }
  SECTION("a rate that is none") {
    write_tiff(file.path(), {});
    ReplaySettings settings = fast(file.path());
    settings.pace = ReplayPace::Rate;
    settings.rate_hz = 0;
    CHECK(contains(error_of(settings), "cannot be used"));
  }
  SECTION("an ImageJ stack with one page for all images, of which most are missing") {
    write_tiff(file.path(), {.frames = 1, .description = "ImageJ=1.53t\nimages=5000\n"});
    CHECK(contains(error_of(fast(file.path())), "is truncated: 1 of 5000 frames is whole"));
  }
  SECTION("pixels that no camera has") {
    const std::vector<float> pixels(std::size_t{kWidth} * kHeight, 1.5F);
    driftd::test::write_tiff(file.path(), pixels, kWidth, kHeight, {});
    CHECK(contains(error_of(fast(file.path())), "pixels are float32"));
  }
}

TEST_CASE("raw files must fit the size given") {
  const TempFile file("bad.raw");
  write_raw(file.path(), 16, 3, 7);
  ReplaySettings settings = fast_raw(file.path(), ReplayFormat::RawU16);
  CHECK(contains(error_of(settings), "20 x 12 uint16 (480 bytes each)"));
  settings.width_px = 0;
  CHECK(contains(error_of(settings), "frames of 0 x 12 px; allowed are 1 to"));
  std::filesystem::resize_file(file.path(), 0);
  CHECK(contains(error_of(fast_raw(file.path(), ReplayFormat::RawU16)), "0 bytes"));
}

TEST_CASE("a recording larger than the memory is refused before it is read") {
  const TempFile file("huge.raw");
  { const std::ofstream made(file.path()); }
  std::error_code error;
  // 1 PiB of holes: more than any machine's memory, no disk space.
  constexpr std::uintmax_t kHugeBytes = std::uintmax_t{1} << 50U;
  std::filesystem::resize_file(file.path(), kHugeBytes, error);
  if (error) {
    std::filesystem::resize_file(file.path(), kHugeBytes >> 8U, error);  // ext4: 4 TiB
  }
  if (error) {
    std::cout << "SKIPPED: the file system makes no sparse file of 4 TiB: " << error.message()
              << "\n";
    return;
  }
  ReplaySettings settings = fast_raw(file.path(), ReplayFormat::RawU8);
  settings.width_px = settings.height_px = 4096;
  CHECK(contains(error_of(settings), "MiB are available"));
}
