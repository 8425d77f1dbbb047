// SPDX-License-Identifier: MIT
// Every pixel format against an encoder that places one bit after the other, as the GigE Vision and
// PFNC documents draw them; ROI borders.
#include <algorithm>
#include <climits>
#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "camera/frame.hpp"
#include "support/catch.hpp"

using namespace driftd::camera;

namespace {

/// Where bit `bit` (0 = least significant) of pixel `pixel` lies in memory, as a bit number counted
/// from the least significant bit of the first byte.
std::size_t bit_place(PixelFormat format, std::size_t pixel, int bit) {
  const auto b = static_cast<std::size_t>(bit);
  const std::size_t pair = pixel / 2 * 24;
  switch (format) {
    case PixelFormat::Mono8:
      return pixel * 8 + b;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      return pixel * 16 + b;
    case PixelFormat::Mono10p:
      return pixel * 10 + b;
    case PixelFormat::Mono12p:
      return pixel * 12 + b;
    case PixelFormat::Mono10Packed:  // A9..A2 | A1A0 in bits 1:0, B1B0 in bits 5:4 | B9..B2
      if (b >= 2) return pair + (pixel % 2 == 0 ? 0 : 16) + b - 2;
      return pair + 8 + (pixel % 2 == 0 ? 0 : 4) + b;
    case PixelFormat::Mono12Packed:  // A11..A4 | A3..A0 in bits 3:0, B3..B0 in bits 7:4 | B11..B4
      if (b >= 4) return pair + (pixel % 2 == 0 ? 0 : 16) + b - 4;
      return pair + 8 + (pixel % 2 == 0 ? 0 : 4) + b;
  }
  return 0;
}

std::vector<std::byte> encode(PixelFormat format, int width, int height,
                              const std::vector<std::uint16_t>& pixels) {
  std::vector<std::byte> bytes(image_bytes(format, width, height));
  for (std::size_t pixel = 0; pixel < pixels.size(); ++pixel) {
    for (int bit = 0; bit < bits_per_pixel(format); ++bit) {
      if ((pixels[pixel] >> bit & 1) == 0) continue;
      const std::size_t place = bit_place(format, pixel, bit);
      bytes.at(place / 8) |= static_cast<std::byte>(1U << (place % 8));
    }
  }
  return bytes;
}

std::vector<std::uint16_t> random_pixels(PixelFormat format, int width, int height,
                                         std::mt19937& random) {
  std::uniform_int_distribution<unsigned> level(0, (1U << bits_per_pixel(format)) - 1);
  std::vector<std::uint16_t> pixels(static_cast<std::size_t>(width) *
                                    static_cast<std::size_t>(height));
  for (auto& pixel : pixels) pixel = static_cast<std::uint16_t>(level(random));
  return pixels;
}

Frame frame_of(PixelFormat format, int width, int height, const std::vector<std::byte>& bytes) {
  Frame frame;
  frame.pixels = bytes.data();
  frame.format = format;
  frame.width_px = width;
  frame.height_px = height;
  return frame;
}

}  // namespace

TEST_CASE("every format unpacks to the levels that were packed") {
  std::mt19937 random(1);
  for (const PixelFormat format : kPixelFormats) {
    INFO(name_of(format));
    // Odd widths put the rows of packed formats anywhere in a byte.
    for (const auto& [width, height] : {std::pair{1, 1}, {2, 3}, {7, 5}, {13, 13}, {64, 9}}) {
      const auto pixels = random_pixels(format, width, height, random);
      const auto bytes = encode(format, width, height, pixels);
      std::vector<std::uint16_t> out(pixels.size());
      unpack(frame_of(format, width, height, bytes), out.data());
      CHECK(out == pixels);
    }
  }
}

TEST_CASE("a cut ROI holds the pixels of its place, up to the borders") {
  std::mt19937 random(2);
  constexpr int kWidth = 23;
  constexpr int kHeight = 17;
  for (const PixelFormat format : kPixelFormats) {
    INFO(name_of(format));
    const auto pixels = random_pixels(format, kWidth, kHeight, random);
    const auto bytes = encode(format, kWidth, kHeight, pixels);
    const Frame frame = frame_of(format, kWidth, kHeight, bytes);
    std::size_t next = 0;
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x) REQUIRE(level_at(frame, x, y) == pixels[next++]);
    for (const int side : {1, 4, 9, kHeight}) {
      for (const int y : {0, 1, kHeight - side}) {
        for (const int x : {0, 3, kWidth - side}) {
          if (y + side > kHeight) continue;
          std::vector<std::uint16_t> roi(static_cast<std::size_t>(side * side));
          REQUIRE(cut_roi(frame, x, y, side, roi.data()));
          bool same = true;
          for (int row = 0; row < side; ++row) {
            for (int column = 0; column < side; ++column) {
              same = same && roi[static_cast<std::size_t>(row * side + column)] ==
                                 pixels[static_cast<std::size_t>((y + row) * kWidth + x + column)];
            }
          }
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("no frame is so large that few bytes hold it") {
  Frame frame;
  frame.format = PixelFormat::Mono12p;
  frame.width_px = 1537228694;
  frame.height_px = 1999999973;  // the bits are 10518799912 more than a multiple of 2^64
  CHECK_FALSE(is_held_by(frame, std::size_t{1} << 45));
}

TEST_CASE("a frame is held by as many bytes as it says, whatever it says") {
  std::mt19937 random(3);
  const auto number = [&random] {
    const int any = static_cast<int>(random());
    return random() % 3 == 0 ? any : static_cast<int>(random() % 9) - (random() % 8 == 0 ? 9 : 0);
  };
  for (int i = 0; i < 20000; ++i) {
    Frame frame;
    frame.format = kPixelFormats[random() % std::size(kPixelFormats)];
    frame.width_px = i == 0 ? INT_MAX : number();
    frame.height_px = i == 0 ? INT_MAX : number();
    frame.line_padding_bytes = i == 0 ? INT_MAX : random() % 2 == 0 ? 0 : number();
    INFO(name_of(frame.format) << " " << frame.width_px << " x " << frame.height_px << " + "
                               << frame.line_padding_bytes);
    if (frame.width_px < 1 || frame.height_px < 1 || frame.line_padding_bytes < 0) {
      REQUIRE_FALSE(is_held_by(frame, SIZE_MAX));
      continue;
    }
    // In long double, whose 64 bits of mantissa hold every size but those beyond any memory.
    const auto width = static_cast<long double>(frame.width_px);
    const auto height = static_cast<long double>(frame.height_px);
    const long double bits = image_bytes(frame.format, 8, 1);  // of a pixel
    const long double padding = frame.line_padding_bytes;
    const long double needed = padding > 0
                                   ? height * std::ceil(width * bits / 8) + (height - 1) * padding
                                   : std::ceil(width * height * bits / 8);
    if (needed > 1e6L) {
      REQUIRE_FALSE(is_held_by(frame, 1'000'000));
      continue;
    }
    const auto bytes = static_cast<std::size_t>(needed);
    REQUIRE(is_held_by(frame, bytes));
    REQUIRE_FALSE(is_held_by(frame, bytes - 1));
    // No byte behind these is read: AddressSanitizer watches.
    const std::vector<std::byte> memory(bytes);
    frame.pixels = memory.data();
    std::vector<std::uint16_t> out(static_cast<std::size_t>(width * height));
    unpack(frame, out.data());
  }
}

TEST_CASE("lines with bytes behind them are read without these, in every format") {
  std::mt19937 random(3);
  constexpr int kWidth = 23, kHeight = 17, kSide = 5;
  for (const PixelFormat format : kPixelFormats) {
    for (const int padding : {1, 6}) {
      INFO(name_of(format) << ", " << padding);
      const auto pixels = random_pixels(format, kWidth, kHeight, random);
      std::vector<std::byte> bytes;
      for (int y = 0; y < kHeight; ++y) {
        const auto line = encode(format, kWidth, 1,
                                 {pixels.begin() + y * kWidth, pixels.begin() + (y + 1) * kWidth});
        bytes.insert(bytes.end(), line.begin(), line.end());
        // None behind the last, of which a byte read too many would show under a sanitizer.
        if (y < kHeight - 1)
          bytes.insert(bytes.end(), static_cast<std::size_t>(padding), std::byte{0xa5});
      }
      Frame frame = frame_of(format, kWidth, kHeight, bytes);
      frame.line_padding_bytes = padding;
      std::vector<std::uint16_t> all(pixels.size());
      unpack(frame, all.data());
      CHECK(all == pixels);
      for (const auto& [x, y] : {std::pair{0, 0}, {18, 12}, {4, 11}, {17, 3}}) {
        std::vector<std::uint16_t> roi(kSide * kSide);
        REQUIRE(cut_roi(frame, x, y, kSide, roi.data()));
        for (int row = 0; row < kSide; ++row)
          CHECK(std::equal(roi.begin() + row * kSide, roi.begin() + (row + 1) * kSide,
                           pixels.begin() + (y + row) * kWidth + x));
      }
    }
  }
}

TEST_CASE("a frame unpacked some lines at a time is the frame, and no other line is written") {
  std::mt19937 random(4);
  constexpr int kWidth = 23, kHeight = 17;  // packed lines begin within bytes
  for (const PixelFormat format : kPixelFormats) {
    INFO(name_of(format));
    const auto pixels = random_pixels(format, kWidth, kHeight, random);
    const auto bytes = encode(format, kWidth, kHeight, pixels);
    const Frame frame = frame_of(format, kWidth, kHeight, bytes);
    std::vector<std::uint16_t> parts(pixels.size(), 0xABCD);
    for (int y = 0; y < kHeight; y += 5) {
      const auto rest = std::vector(parts.begin() + y * kWidth, parts.end());
      REQUIRE(rest == std::vector<std::uint16_t>(rest.size(), 0xABCD));
      unpack_lines(frame, y, std::min(y + 5, kHeight), parts.data());
    }
    CHECK(parts == pixels);
  }
}

TEST_CASE("a ROI that leaves the frame is refused and writes nothing") {
  const std::vector<std::byte> bytes(image_bytes(PixelFormat::Mono8, 20, 10));
  const Frame frame = frame_of(PixelFormat::Mono8, 20, 10, bytes);
  struct Case {
    int x, y, side;
  };
  const auto [x, y, side] =
      GENERATE(Case{-1, 0, 4}, Case{0, -1, 4}, Case{17, 0, 4}, Case{0, 7, 4}, Case{0, 0, 11},
               Case{0, 0, 0}, Case{0, 0, -3}, Case{INT_MAX, 0, 4}, Case{0, INT_MAX, 4},
               Case{INT_MIN, INT_MIN, 4}, Case{0, 0, INT_MAX}, Case{INT_MAX, INT_MAX, INT_MAX});
  std::vector<std::uint16_t> out(121, 0xABCD);
  CHECK_FALSE(cut_roi(frame, x, y, side, out.data()));
  CHECK(out == std::vector<std::uint16_t>(121, 0xABCD));
}

TEST_CASE("a pixel outside the frame has no level") {
  const std::vector<std::byte> bytes(image_bytes(PixelFormat::Mono8, 20, 10));
  const Frame frame = frame_of(PixelFormat::Mono8, 20, 10, bytes);
  CHECK(level_at(frame, 19, 9) == 0);
  for (const auto& [x, y] :
       {std::pair{-1, 0}, {0, -1}, {20, 0}, {0, 10}, {INT_MAX, INT_MAX}, {INT_MIN, 0}})
    CHECK(level_at(frame, x, y) == -1);
}

TEST_CASE("image sizes are those of the standards") {
  CHECK(image_bytes(PixelFormat::Mono8, 640, 480) == 307200);
  CHECK(image_bytes(PixelFormat::Mono10, 640, 480) == 614400);
  CHECK(image_bytes(PixelFormat::Mono10Packed, 640, 480) == 460800);  // 3 bytes a pair
  CHECK(image_bytes(PixelFormat::Mono10p, 640, 480) == 384000);       // 5 bytes a four
  CHECK(image_bytes(PixelFormat::Mono12p, 641, 3) == 2885);           // 23076 bits, rounded up
  CHECK(image_bytes(PixelFormat::Mono16, 30000, 30000) == 1800000000);
}

TEST_CASE("names and formats belong together") {
  for (const PixelFormat format : kPixelFormats) {
    CHECK(pixel_format_named(name_of(format)) == format);
  }
  CHECK_FALSE(pixel_format_named("RGB8"));
  CHECK_FALSE(pixel_format_named(""));
}
