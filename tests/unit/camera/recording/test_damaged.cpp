// SPDX-License-Identifier: MIT
// Every reader is given truncated, corrupted and hostile files; the sanitizers watch.
#include <algorithm>
#include <random>

#include "camera/recording/image_stack.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"
#include "unit/camera/recording/leaks_allowed.hpp"
#include "unit/camera/recording/tiff_bytes.hpp"

namespace driftd::camera {
namespace {

using namespace driftd::test;

constexpr int kWidth = 21, kHeight = 18, kFrames = 3;

/// Opens and reads a damaged file: it may be refused or read, with whatever pixels. Frames too
/// large for a test are not read.
void try_to_read(const StackSettings& settings) {
  constexpr std::size_t kLargestFrame = std::size_t{1} << 22;
  try {
    const auto stack = open_stack(settings);
    const StackShape& shape = stack->shape();
    REQUIRE(shape.frames >= 1);
    REQUIRE(shape.pixels() >= 1);
    if (shape.frame_bytes() > kLargestFrame) return;
    std::vector<std::byte> frame(shape.frame_bytes());
    const std::int64_t most = std::min<std::int64_t>(shape.frames, 5);
    for (std::int64_t i = 0; i < most; ++i) stack->read(i, 1, frame.data());
    stack->read(shape.frames - 1, 1, frame.data());
  } catch (const RecordingError& error) {
    CHECK_THAT(error.what(), contains(settings.path.filename().string() + ": "));
  }
}

StackSettings truncated(StackSettings settings) {
  settings.allow_truncated = true;
  return settings;
}

/// Every length up to some hundreds of bytes, and then some; and bytes changed one to three at a
/// time, most of them where headers are.
/// @param tender  bytes at the beginning that are changed most
void damage(const StackSettings& settings, int changes, std::size_t tender = 512) {
  const std::string whole = read_file(settings.path);
  for (std::size_t size = 0; size < whole.size(); size += size < 300 ? 7 : 131) {
    CAPTURE(size);
    write_file(settings.path, whole.substr(0, size));
    try_to_read(settings);
    try_to_read(truncated(settings));
  }
  std::mt19937 random(7);
  for (int change = 0; change < changes; ++change) {
    std::string damaged = whole;
    for (unsigned n = 0; n <= random() % 3; ++n) {
      const std::size_t range = random() % 4 != 0 ? std::min(tender, whole.size()) : whole.size();
      damaged[random() % range] = static_cast<char>(random());
    }
    CAPTURE(change);
    write_file(settings.path, damaged);
    try_to_read(change % 2 == 0 ? settings : truncated(settings));
  }
}

TEST_CASE("damaged TIFF files are refused or read, and nothing else happens") {
  const TiffStyle style =
      GENERATE(TiffStyle{"wl", COMPRESSION_NONE, false}, TiffStyle{"wb", COMPRESSION_LZW, false},
               TiffStyle{"wl8", COMPRESSION_LZW, true}, TiffStyle{"wb8", COMPRESSION_NONE, true});
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "stack.tif";
  settings.format = StackFormat::Tiff;
  write_tiff(settings.path, counting<std::uint16_t>(kWidth, kHeight, kFrames), kWidth, kHeight,
             style);
  damage(settings, 300);
}

TEST_CASE("damaged HDF5 files are refused or read, and nothing else happens") {
  const LeaksAllowed leaks;
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "stack.h5";
  settings.format = StackFormat::Hdf5;
  write_hdf5(settings.path, "/run/images", H5T_STD_U16LE, {kFrames, kHeight, kWidth},
             counting<std::uint16_t>(kWidth, kHeight, kFrames));
  damage(settings, 300);
}

TEST_CASE("damaged OME-TIFF files are refused or read, and nothing else happens") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.ome.tif";
  settings.channel = 1;
  const std::string header =
      "<OME UUID=\"urn:uuid:1\"><Image Name=\"a\"><Pixels DimensionOrder=\"XYCZT\" SizeX=\"21\" "
      "SizeY=\"18\" SizeZ=\"1\" SizeC=\"2\" SizeT=\"3\" TimeIncrement=\"0.1\"><Channel "
      "Name=\"b\"/>";
  const std::string block =
      "<TiffData IFD=\"0\" FirstT=\"0\" PlaneCount=\"4\"><UUID FileName=\"s.ome.tif\">urn:uuid:1"
      "</UUID></TiffData><TiffData IFD=\"0\" FirstT=\"2\" PlaneCount=\"2\"><UUID "
      "FileName=\"s_1.tif\">"
      "urn:uuid:2</UUID></TiffData>";
  const std::string xml = header + block + "</Pixels></Image></OME>";
  write_file(folder / "s_1.tif",
             tiff_bytes(counting<std::uint16_t>(kWidth, kHeight, 2), kWidth, kHeight, ""));
  const auto first = counting<std::uint16_t>(kWidth, kHeight, 4);
  SECTION("the metadata first") {
    const std::string bytes = tiff_bytes(first, kWidth, kHeight, xml, {.directories_last = true});
    write_file(settings.path, bytes);
    REQUIRE(open_stack(settings)->shape().frames == 3);
    damage(settings, 2000, 150 + xml.size());
  }
  SECTION("the metadata last, the other file damaged") {
    write_file(settings.path, tiff_bytes(first, kWidth, kHeight, xml, {.big_endian = true}));
    const std::string whole = read_file(folder / "s_1.tif");
    for (std::size_t size = 0; size < whole.size(); size += 131) {
      CAPTURE(size);
      write_file(folder / "s_1.tif", whole.substr(0, size));
      try_to_read(settings);
      try_to_read(truncated(settings));
    }
  }
}

TEST_CASE("damaged plain pixels and sizes that do not fit are refused or read") {
  const TemporaryFolder folder;
  StackSettings settings;
  settings.path = folder / "s.raw";
  write_file(settings.path, std::string(2 * 21 * 18 * 3, 'x'));
  std::mt19937 random(11);
  const auto number = [&random]() -> std::int64_t {
    switch (random() % 4) {
      case 0:
        return static_cast<std::int64_t>(random() % 64);
      case 1:
        return -static_cast<std::int64_t>(random());
      case 2:
        return static_cast<std::int64_t>(random()) << (random() % 32);
      default:
        return static_cast<std::int64_t>(random() % 5000);
    }
  };
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    settings.format = StackFormat::PlainPixels;
    settings.width_px = random() % 2 == 0 ? 21 : number();
    settings.height_px = random() % 2 == 0 ? 18 : number();
    settings.type = static_cast<PixelType>(random() % 3);
    settings.byte_order = static_cast<ByteOrder>(random() % 2);
    settings.frames = std::nullopt;
    if (random() % 3 == 0) settings.frames = number();
    try_to_read(settings);
    try_to_read(truncated(settings));
  }
  settings = {};
  settings.path = folder / "s.raw";
  settings.width_px = 21;
  settings.height_px = 18;
  settings.type = PixelType::U16;
  damage(settings, 20);
}

}  // namespace
}  // namespace driftd::camera
