// SPDX-License-Identifier: MIT
#include "camera/frame.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace driftd::camera {
namespace {

static_assert(std::endian::native == std::endian::little,
              "PFNC pixels are little-endian; rows are copied as they are");

unsigned byte_at(const std::byte* data, std::size_t i) noexcept {
  return std::to_integer<unsigned>(data[i]);
}

/// Two GigE Vision packed pixels lie in three bytes: the high 8 bits of the even pixel, the low
/// bits of both (the even one's in the lower nibble), the high 8 bits of the odd pixel.
template <unsigned kBits>
std::uint16_t gige_packed_pixel(const std::byte* data, std::size_t pixel) noexcept {
  constexpr unsigned kLowBits = kBits - 8;
  constexpr unsigned kLowMask = (1U << kLowBits) - 1;
  const std::byte* pair = data + pixel / 2 * 3;
  const bool odd = pixel % 2 != 0;
  const unsigned high = byte_at(pair, odd ? 2 : 0);
  const unsigned low = byte_at(pair, 1) >> (odd ? 4U : 0U) & kLowMask;
  return static_cast<std::uint16_t>(high << kLowBits | low);
}

/// PFNC `p` pixels follow one another without gaps, least significant bit first. A pixel of 10 or
/// 12 bits always spans exactly two bytes.
template <unsigned kBits>
std::uint16_t pfnc_packed_pixel(const std::byte* data, std::size_t pixel) noexcept {
  const std::size_t first_bit = pixel * kBits;
  const std::size_t byte = first_bit / 8;
  const unsigned window = byte_at(data, byte) | byte_at(data, byte + 1) << 8U;
  return static_cast<std::uint16_t>(window >> (first_bit % 8) & ((1U << kBits) - 1));
}

template <typename Pixel>
void unpack_each(Pixel pixel, const std::byte* data, std::size_t first, std::size_t count,
                 std::uint16_t* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = pixel(data, first + i);
}

/// Unpacks `count` pixels from the `first` one behind `data` on.
void unpack_run(PixelFormat format, const std::byte* data, std::size_t first, std::size_t count,
                std::uint16_t* out) noexcept {
  switch (format) {
    case PixelFormat::Mono8:
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = std::to_integer<std::uint16_t>(data[first + i]);
      }
      return;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      std::memcpy(out, data + first * sizeof(*out), count * sizeof(*out));
      return;
    case PixelFormat::Mono10Packed:
      return unpack_each(gige_packed_pixel<10>, data, first, count, out);
    case PixelFormat::Mono12Packed:
      return unpack_each(gige_packed_pixel<12>, data, first, count, out);
    case PixelFormat::Mono10p:
      return unpack_each(pfnc_packed_pixel<10>, data, first, count, out);
    case PixelFormat::Mono12p:
      return unpack_each(pfnc_packed_pixel<12>, data, first, count, out);
  }
}

/// Bits a pixel takes up in memory.
std::size_t stored_bits(PixelFormat format) noexcept {
  switch (format) {
    case PixelFormat::Mono8:
      return 8;
    case PixelFormat::Mono10p:
      return 10;
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return 12;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      return 16;
  }
  return 0;
}

/// Where a line's pixels are: behind `data`, from the `first` on.
struct Line {
  const std::byte* data;
  std::size_t first;
};

/// Packed lines without padding are not aligned to bytes: their pixels are numbered over the image.
Line line_of(const Frame& frame, std::size_t y) noexcept {
  const auto width = static_cast<std::size_t>(frame.width_px);
  if (frame.line_padding_bytes == 0) return {frame.pixels, y * width};
  const std::size_t bytes = image_bytes(frame.format, frame.width_px, 1) +
                            static_cast<std::size_t>(frame.line_padding_bytes);
  return {frame.pixels + y * bytes, 0};
}

}  // namespace

int bits_per_pixel(PixelFormat format) noexcept {
  switch (format) {
    case PixelFormat::Mono8:
      return 8;
    case PixelFormat::Mono10:
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono10p:
      return 10;
    case PixelFormat::Mono12:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return 12;
    case PixelFormat::Mono16:
      return 16;
  }
  return 0;
}

std::size_t image_bytes(PixelFormat format, int width, int height) noexcept {
  const std::size_t pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  return (pixels * stored_bits(format) + 7) / 8;
}

const char* name_of(PixelFormat format) noexcept {
  switch (format) {
    case PixelFormat::Mono8:
      return "Mono8";
    case PixelFormat::Mono10:
      return "Mono10";
    case PixelFormat::Mono10Packed:
      return "Mono10Packed";
    case PixelFormat::Mono10p:
      return "Mono10p";
    case PixelFormat::Mono12:
      return "Mono12";
    case PixelFormat::Mono12Packed:
      return "Mono12Packed";
    case PixelFormat::Mono12p:
      return "Mono12p";
    case PixelFormat::Mono16:
      return "Mono16";
  }
  return "";
}

std::optional<PixelFormat> pixel_format_named(std::string_view name) noexcept {
  for (const PixelFormat format : kPixelFormats) {
    if (name == name_of(format)) return format;
  }
  return std::nullopt;
}

bool is_held_by(const Frame& frame, std::size_t bytes) noexcept {
  if (frame.width_px < 1 || frame.height_px < 1 || frame.line_padding_bytes < 0) return false;
  const auto height = static_cast<std::size_t>(frame.height_px);
  // Written so that no product can overflow: lines fit one by one, a packed one up to a byte more.
  const std::size_t line = image_bytes(frame.format, frame.width_px, 1);
  const auto padding = static_cast<std::size_t>(frame.line_padding_bytes);
  if (padding > 0) return bytes >= line && (bytes - line) / (line + padding) >= height - 1;
  return bytes >= (line - 1) * height &&
         bytes >= image_bytes(frame.format, frame.width_px, frame.height_px);
}

std::size_t held_bytes(const Frame& frame) noexcept {
  const auto height = static_cast<std::size_t>(frame.height_px);
  const std::size_t line = image_bytes(frame.format, frame.width_px, 1);
  const auto padding = static_cast<std::size_t>(frame.line_padding_bytes);
  if (padding > 0) return (line + padding) * height - padding;
  return std::max((line - 1) * height, image_bytes(frame.format, frame.width_px, frame.height_px));
}

bool cut_roi(const Frame& frame, int x_px, int y_px, int side_px, std::uint16_t* out) noexcept {
  // Written so that no sum can overflow, whatever the caller passes.
  if (side_px <= 0 || x_px < 0 || y_px < 0 || side_px > frame.width_px ||
      side_px > frame.height_px || x_px > frame.width_px - side_px ||
      y_px > frame.height_px - side_px) {
    return false;
  }
  const auto side = static_cast<std::size_t>(side_px);
  for (std::size_t row = 0; row < side; ++row, out += side) {
    const Line line = line_of(frame, static_cast<std::size_t>(y_px) + row);
    unpack_run(frame.format, line.data, line.first + static_cast<std::size_t>(x_px), side, out);
  }
  return true;
}

int level_at(const Frame& frame, int x_px, int y_px) noexcept {
  if (x_px < 0 || y_px < 0 || x_px >= frame.width_px || y_px >= frame.height_px) return -1;
  const Line line = line_of(frame, static_cast<std::size_t>(y_px));
  std::uint16_t level = 0;
  unpack_run(frame.format, line.data, line.first + static_cast<std::size_t>(x_px), 1, &level);
  return level;
}

void unpack(const Frame& frame, std::uint16_t* out) noexcept {
  unpack_lines(frame, 0, frame.height_px, out);
}

void unpack_lines(const Frame& frame, int first, int end, std::uint16_t* out) noexcept {
  const auto width = static_cast<std::size_t>(frame.width_px);
  const auto from = static_cast<std::size_t>(first), to = static_cast<std::size_t>(end);
  out += from * width;
  if (frame.line_padding_bytes == 0)
    return unpack_run(frame.format, frame.pixels, from * width, (to - from) * width, out);
  for (std::size_t y = from; y < to; ++y, out += width) {
    const Line line = line_of(frame, y);
    unpack_run(frame.format, line.data, line.first, width, out);
  }
}

}  // namespace driftd::camera
