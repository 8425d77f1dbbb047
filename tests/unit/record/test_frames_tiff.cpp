// SPDX-License-Identifier: MIT
// Raw frames in a TIFF file: what was written is read back by the reader of recordings, whatever
// ended the writer.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "camera/recording/image_stack.hpp"
#include "record/file_writer.hpp"
#include "record/frames_tiff.hpp"
#include "support/catch.hpp"

using namespace driftd::record;
using driftd::camera::Frame;
using driftd::camera::PixelFormat;
namespace camera = driftd::camera;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("driftd-tiff-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

/// A frame whose pixels tell its number.
struct Picture {
  std::vector<std::byte> bytes;
  Frame frame;
  Picture(std::uint64_t id, PixelFormat format, int padding = 0) {
    frame = {
        .format = format, .width_px = 7, .height_px = 5, .line_padding_bytes = padding, .id = id};
    bytes.assign(camera::held_bytes(frame), std::byte{0xee});
    frame.pixels = bytes.data();
    const bool wide = camera::bits_per_pixel(format) > 8;
    for (std::size_t y = 0; y < 5; ++y) {
      for (std::size_t x = 0; x < 7; ++x) {
        const std::size_t at = y * (7 * (wide ? 2U : 1U) + static_cast<std::size_t>(padding));
        if (wide) bytes[at + 2 * x + 1] = std::byte(id % 16);
        bytes[at + (wide ? 2 : 1) * x] = std::byte(y * 7 + x);
      }
    }
  }
};

std::vector<std::uint16_t> expected(std::uint64_t id, bool wide) {
  std::vector<std::uint16_t> values;
  for (std::uint16_t i = 0; i < 35; ++i)
    values.push_back(static_cast<std::uint16_t>(i + (wide ? (id % 16) * 256 : 0)));
  return values;
}

std::vector<std::uint16_t> read(camera::ImageStack& stack, std::int64_t frame) {
  std::vector<std::byte> bytes(stack.shape().frame_bytes());
  stack.read(frame, 1, bytes.data());
  std::vector<std::uint16_t> values;
  const bool wide = stack.shape().type == camera::PixelType::U16;
  for (std::size_t i = 0; i < stack.shape().pixels(); ++i) {
    values.push_back(wide ? static_cast<std::uint16_t>(std::to_integer<int>(bytes[2 * i]) |
                                                       std::to_integer<int>(bytes[2 * i + 1]) << 8)
                          : std::to_integer<std::uint16_t>(bytes[i]));
  }
  return values;
}

void check(const fs::path& file, std::int64_t frames, bool wide, bool truncated = false) {
  const auto stack =
      camera::open_stack({.path = file, .format = {}, .dataset = {}, .allow_truncated = truncated});
  REQUIRE(stack->shape().frames == frames);
  CHECK(stack->shape().type == (wide ? camera::PixelType::U16 : camera::PixelType::U8));
  for (std::int64_t i = 0; i < frames; ++i)
    CHECK(read(*stack, i) == expected(static_cast<std::uint64_t>(i) + 3, wide));
  CHECK(stack->recorded_rate_hz().value_or(0) == Approx(500));
}

void append(FramesTiff& tiff, PixelFormat format, std::uint64_t count, int padding = 0) {
  for (std::uint64_t id = tiff.frames() + 3; count > 0; --count, ++id)
    tiff.append(Picture(id, format, padding).frame,
                "driftd\nfinterval=0.002\nframe_id=" + std::to_string(id));
}

}  // namespace

TEST_CASE("frames of all depths come back as the camera's integer levels") {
  const Folder folder;
  const auto write = [&](const char* name, PixelFormat format, int padding, std::uint64_t most) {
    const fs::path file = folder.path / name;
    FramesTiff tiff(file, Picture(0, format, padding).frame, most);
    append(tiff, format, 20, padding);
    CHECK(tiff.frames() == 20);
    CHECK(tiff.lost().empty());
    tiff.close();
    CHECK(fs::file_size(file) == static_cast<std::uintmax_t>(tiff.bytes()));
    return file;
  };
  check(write("8.tif", PixelFormat::Mono8, 0, 20), 20, false);
  check(write("padded.tif", PixelFormat::Mono8, 3, 20), 20, false);
  check(write("12.tif", PixelFormat::Mono12, 0, 20), 20, true);
  check(write("16.tif", PixelFormat::Mono16, 2, 20), 20, true);
  check(write("big.tif", PixelFormat::Mono12, 0, 100'000'000), 20, true);  // a BigTIFF
  std::ifstream big(folder.path / "big.tif");
  std::string head(3, ' ');
  CHECK(big.read(head.data(), 3));
  CHECK(head == "II+");
}

TEST_CASE("a file whose writer was killed has all pages; without a page it goes") {
  const Folder folder;
  const fs::path whole = folder.path / "a.tif", killed = folder.path / "b.tif";
  {
    FramesTiff tiff(whole, Picture(0, PixelFormat::Mono8).frame, 9);
    append(tiff, PixelFormat::Mono8, 9);
    fs::copy_file(whole, killed);
    CHECK_THROWS_AS(FramesTiff(whole, Picture(0, PixelFormat::Mono8).frame, 9), RecordError);
  }
  check(whole, 9, false);
  check(killed, 9, false, true);
  fs::resize_file(killed, fs::file_size(killed) - FramesTiff::kDescriptionBytes - 256);
  check(killed, 8, false, true);
  { const FramesTiff nothing(folder.path / "c.tif", Picture(0, PixelFormat::Mono8).frame, 9); }
  CHECK_FALSE(fs::exists(folder.path / "c.tif"));
}

TEST_CASE("a file that cannot grow any more is whole as far as it goes") {
  const Folder folder;
  const fs::path file = folder.path / "a.tif";
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  FramesTiff tiff(file, Picture(0, PixelFormat::Mono12).frame, 9);
  append(tiff, PixelFormat::Mono12, 4);
  const rlimit tight{static_cast<rlim_t>(tiff.bytes()) + 300, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  CHECK_THROWS_WITH(append(tiff, PixelFormat::Mono12, 1), contains("cannot be written"));
  tiff.close();
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(fs::file_size(file) == static_cast<std::uintmax_t>(tiff.bytes()));  // no half page
  check(file, 4, true);
  const FramesTiff other(folder.path / "b.tif", Picture(0, PixelFormat::Mono12).frame, 9);
  fs::remove(other.path());
  CHECK_THAT(other.lost(), contains("No such file"));
}

TEST_CASE("a page has frames of one size and depth") {
  const Folder folder;
  const Picture first(0, PixelFormat::Mono12);
  const FramesTiff tiff(folder.path / "a.tif", first.frame, 1);
  Frame other = first.frame;
  CHECK(tiff.takes(other));
  other.height_px = 6;
  CHECK_FALSE(tiff.takes(other));
  CHECK_FALSE(tiff.takes(Picture(0, PixelFormat::Mono8).frame));
}
