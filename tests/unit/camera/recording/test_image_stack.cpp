// SPDX-License-Identifier: MIT
// Every format gives the pixels that were written, and bad files say what is wrong with them.
#include <algorithm>

#include "camera/recording/image_stack.hpp"
#include "support/catch.hpp"
#include "support/recording_files.hpp"

namespace driftd::camera {
namespace {

using namespace driftd::test;

constexpr int kWidth = 21, kHeight = 18, kFrames = 3;

/// The text of what opening and reading throws; "" when nothing is thrown.
std::string complaint(const StackSettings& settings) {
  try {
    const auto stack = open_stack(settings);
    std::vector<std::byte> frame(stack->shape().frame_bytes());
    for (std::int64_t i = 0; i < stack->shape().frames; ++i) stack->read(i, 1, frame.data());
  } catch (const RecordingError& error) {
    return error.what();
  }
  return {};
}

StackSettings at(const std::filesystem::path& path) {
  StackSettings settings;
  settings.path = path;
  return settings;
}

template <class Pixel>
void check_stack(const StackSettings& settings, PixelType type,
                 const std::vector<Pixel>& expected) {
  const auto stack = open_stack(settings);
  CHECK(stack->shape().width_px == kWidth);
  CHECK(stack->shape().height_px == kHeight);
  CHECK(stack->shape().frames == kFrames);
  REQUIRE(stack->shape().type == type);
  CHECK(read_all<Pixel>(*stack) == expected);
}

template <class Pixel>
void check_tiff(PixelType type, const TiffStyle& style) {
  const TemporaryFolder folder;
  const auto pixels = counting<Pixel>(kWidth, kHeight, kFrames);
  write_tiff(folder / "stack.tif", pixels, kWidth, kHeight, style);
  check_stack<Pixel>(at(folder / "stack.tif"), type, pixels);
}

TEST_CASE("TIFF pages of each pixel type, byte order, size and layout are read") {
  for (const char* mode : {"wl", "wb", "wl8", "wb8"}) {
    for (const int compression : {COMPRESSION_NONE, COMPRESSION_LZW}) {
      for (const bool tiled : {false, true}) {
        CAPTURE(mode, compression, tiled);
        const TiffStyle style{mode, compression, tiled};
        check_tiff<std::uint8_t>(PixelType::U8, style);
        check_tiff<std::uint16_t>(PixelType::U16, style);
        check_tiff<float>(PixelType::F32, style);
      }
    }
  }
}

TEST_CASE("ImageJ's one-page stacks have all images behind the first strip") {
  const TemporaryFolder folder;
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, kFrames);
  // Built by hand, big-endian as ImageJ's own: header, one directory, description, pixels.
  const std::string description = "ImageJ=1.54f\nimages=3\nslices=3\n";
  std::string file("MM\0*\0\0\0\x08", 8);
  const auto put16 = [&file](unsigned v) {
    file += static_cast<char>(v >> 8);
    file += static_cast<char>(v & 255);
  };
  const auto put32 = [&put16](unsigned v) {
    put16(v >> 16);
    put16(v & 65535);
  };
  constexpr unsigned kEntries = 10, kDescriptionAt = 8 + 2 + kEntries * 12 + 4;
  const unsigned pixels_at = kDescriptionAt + static_cast<unsigned>(description.size()) + 1;
  put16(kEntries);
  const auto entry = [&](unsigned tag, unsigned type, unsigned count, unsigned value) {
    put16(tag);
    put16(type);
    put32(count);
    put32(type == 3 ? value << 16 : value);
  };
  entry(256, 4, 1, kWidth);
  entry(257, 4, 1, kHeight);
  entry(258, 3, 1, 16);
  entry(259, 3, 1, 1);
  entry(262, 3, 1, 1);
  entry(270, 2, static_cast<unsigned>(description.size()) + 1, kDescriptionAt);
  entry(273, 4, 1, pixels_at);
  entry(277, 3, 1, 1);
  entry(278, 4, 1, kHeight);
  entry(279, 4, 1, kWidth * kHeight * 2);
  put32(0);
  file += description + '\0';
  for (const std::uint16_t p : pixels) put16(p);

  write_file(folder / "stack.tif", file);
  check_stack<std::uint16_t>(at(folder / "stack.tif"), PixelType::U16, pixels);
  file.resize(file.size() - 1);
  write_file(folder / "stack.tif", file);
  CHECK_THAT(complaint(at(folder / "stack.tif")), contains("truncated"));
}

TEST_CASE("a TIFF that cannot be used says why") {
  const TemporaryFolder folder;
  const StackSettings settings = at(folder / "stack.tif");
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, kFrames);
  write_tiff(settings.path, pixels, kWidth, kHeight, {});
  const std::string whole = read_file(settings.path);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    write_file(settings.path, whole.substr(0, size));
    CAPTURE(size);
    CHECK_THAT(complaint(settings), contains("stack.tif: "));
  }
  write_tiff(settings.path, counting<std::uint32_t>(4, 4, 1), 4, 4, {});
  CHECK_THAT(complaint(settings), contains("page 0: 32-bit") && contains("8 and 16 bits unsigned"));
  write_tiff(settings.path, counting<std::uint16_t>(8, 8, 1), 8, 8, {});
  write_tiff(settings.path, counting<std::uint16_t>(8, 9, 1), 8, 9, {.mode = "a"});
  CHECK_THAT(complaint(settings), contains("page 1: is 8 x 9 uint16, page 0 is 8 x 8 uint16"));
}

TEST_CASE("a TIFF with fewer pages than ImageJ says is refused, one with more is read") {
  const TemporaryFolder folder;
  const StackSettings settings = at(folder / "stack.tif");
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, kFrames);
  write_tiff(settings.path, pixels, kWidth, kHeight, {.description = "ImageJ=1.54f\nimages=4\n"});
  CHECK_THAT(complaint(settings),
             contains("stack.tif: is truncated: 3 of 4 frames are whole (of 4 images that ImageJ "
                      "wrote there are 3)"));
  for (const char* description :
       {"ImageJ=1.54f\nimages=3\n", "ImageJ=1.54f\nimages=2\n", "images=4\n"}) {
    CAPTURE(description);
    write_tiff(settings.path, pixels, kWidth, kHeight, {.description = description});
    check_stack(settings, PixelType::U16, pixels);
  }
}

TEST_CASE("a file that shrinks while it is read is refused from there on") {
  constexpr int kWide = 96, kHigh = 40,
                kMany = 30;  // many memory pages, which a mapping would lose
  const auto pixels = counting<std::uint16_t>(kWide, kHigh, kMany);
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "stack.tif");
  SECTION("TIFF") {
    write_tiff(settings.path, pixels, kWide, kHigh, {});
  }
  SECTION("TIFF, compressed tiles") {
    write_tiff(settings.path, pixels, kWide, kHigh, {"w", COMPRESSION_LZW, true});
  }
  SECTION("HDF5") {
    write_hdf5(settings.path, "/s", H5T_STD_U16LE, {kMany, kHigh, kWide}, pixels);
  }
  SECTION("plain pixels") {
    settings.path = folder / "movie.raw";
    settings.type = PixelType::U16;
    settings.width_px = kWide;
    settings.height_px = kHigh;
    write_file(settings.path, std::string(pixels.size() * sizeof(pixels[0]), 'x'));
  }
  const auto stack = open_stack(settings);
  REQUIRE(stack->shape().frames == kMany);
  std::vector<std::byte> frame(stack->shape().frame_bytes());
  CHECK_NOTHROW(stack->read(0, 1, frame.data()));
  std::filesystem::resize_file(settings.path, std::filesystem::file_size(settings.path) / 3);
  CHECK_THROWS_WITH(stack->read(kMany - 1, 1, frame.data()),
                    contains(settings.path.filename().string() + ": "));
}

TEST_CASE("plain pixels are what the settings say") {
  const TemporaryFolder folder;
  StackSettings settings = at(folder / "movie.raw");
  const auto pixels = counting<std::uint16_t>(kWidth, kHeight, kFrames);
  std::string little;
  std::string big;
  for (const std::uint16_t p : pixels) {
    little += {static_cast<char>(p & 255), static_cast<char>(p >> 8)};
    big += {static_cast<char>(p >> 8), static_cast<char>(p & 255)};
  }
  write_file(folder / "movie.raw", little);
  CHECK_THAT(complaint(settings),
             contains("movie.raw: plain pixels need the option type; allowed are uint8"));
  settings.type = PixelType::U16;
  CHECK_THAT(complaint(settings), contains("frames of 0 x 0 px"));
  settings.width_px = kWidth;
  settings.height_px = kHeight;
  check_stack(settings, PixelType::U16, pixels);
  write_file(folder / "movie.raw", big);
  settings.byte_order = ByteOrder::Big;
  check_stack(settings, PixelType::U16, pixels);
  settings.height_px = kHeight + 1;
  CHECK_THAT(complaint(settings), contains("not a whole number of frames of 21 x 19 uint16"));
}

TEST_CASE("the only HDF5 dataset of three dimensions is the stack, or the one named") {
  const TemporaryFolder folder;
  const StackSettings settings = at(folder / "stack.h5");
  const auto u16 = counting<std::uint16_t>(kWidth, kHeight, kFrames);
  write_hdf5<std::uint16_t>(settings.path, "/axis", H5T_STD_U16LE, {4}, {1, 2, 3, 4});
  CHECK_THAT(complaint(settings), contains("has no dataset of three dimensions"));
  write_hdf5(settings.path, "/run/deep/images", H5T_STD_U16BE, {kFrames, kHeight, kWidth}, u16);
  check_stack(settings, PixelType::U16, u16);

  const auto f32 = counting<float>(kWidth, kHeight, kFrames);
  write_hdf5(settings.path, "/other", H5T_IEEE_F32LE, {kFrames, kHeight, kWidth}, f32);
  CHECK_THAT(complaint(settings),
             contains("name one by the option dataset: /other, /run/deep/images"));
  StackSettings named = settings;
  named.dataset = "other";
  check_stack(named, PixelType::F32, f32);
  named.dataset = "/nowhere";
  CHECK_THAT(complaint(named), contains("has no dataset '/nowhere'") && contains("/other"));
  named.dataset = "/axis";
  CHECK_THAT(complaint(named), contains("has 1 dimension ("));
}

TEST_CASE("an HDF5 file that cannot be used says why") {
  const TemporaryFolder folder;
  const StackSettings settings = at(folder / "stack.h5");
  const auto u8 = counting<std::uint8_t>(kWidth, kHeight, kFrames);
  write_hdf5(settings.path, "/s", H5T_STD_U8LE, {kFrames, kHeight, kWidth}, u8);
  check_stack(settings, PixelType::U8, u8);
  const std::string whole = read_file(settings.path);
  write_file(settings.path, whole.substr(0, whole.size() / 2));
  CHECK_THAT(complaint(settings), contains("is truncated: 0 of 3 frames are whole"));
  std::filesystem::remove(settings.path);
  const auto one = counting<std::uint8_t>(kWidth, kHeight, 1);
  write_hdf5(settings.path, "/s", H5T_STD_U8LE, {1, kHeight, kWidth}, one);
  const std::string whole_one = read_file(settings.path);
  write_file(settings.path, whole_one.substr(0, whole_one.size() - one.size() / 2));
  CHECK_THAT(complaint(settings), contains("is truncated: 0 of 1 frame is whole"));
  std::filesystem::remove(settings.path);
  write_hdf5(settings.path, "/s", H5T_STD_I32LE, {kFrames, kHeight, kWidth}, u8);
  CHECK_THAT(complaint(settings),
             contains("4-byte integers with a sign; allowed are uint8, uint16, int16 and floats"));
  std::filesystem::remove(settings.path);
  write_hdf5(settings.path, "/s", H5T_STD_U8LE, {kFrames, 0, kWidth}, u8);
  CHECK_THAT(complaint(settings), contains("frames of 21 x 0 px"));
}

TEST_CASE("what is no stack at all is refused") {
  const TemporaryFolder folder;
  CHECK_THAT(complaint(at(folder / "none.tif")), contains("no such file"));
  CHECK_THAT(complaint(at(folder / "")), contains("is a folder without a TIFF file"));
  write_file(folder / "text.tif", "hello, world");
  CHECK_THAT(complaint(at(folder / "text.tif")), contains("neither TIFF nor HDF5"));
}

}  // namespace
}  // namespace driftd::camera
