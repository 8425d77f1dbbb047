// SPDX-License-Identifier: MIT
#include <algorithm>

#include "simulator/sensor_settings.hpp"

namespace driftd::simulator {

std::size_t packed_bytes(camera::PixelFormat format, std::size_t pixels) noexcept {
  using camera::PixelFormat;
  switch (format) {
    case PixelFormat::Mono8:
      return pixels;
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return (pixels * 3 + 1) / 2;
    case PixelFormat::Mono10p:
      return (pixels * 5 + 3) / 4;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      break;
  }
  return pixels * 2;
}

namespace {

int bits_of(camera::PixelFormat format) {
  using camera::PixelFormat;
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
      break;
  }
  return 16;
}

/// GigE Vision packing: the high bytes of two pixels around one byte with both remainders.
void pack_gige(std::span<const std::uint16_t> levels, int shift, int bits, std::byte* out) {
  const int low_bits = bits - 8;
  const unsigned mask = (1U << low_bits) - 1;
  for (std::size_t i = 0; i < levels.size(); i += 2) {
    const unsigned a = static_cast<unsigned>(levels[i]) >> shift;
    *out++ = static_cast<std::byte>(a >> low_bits);
    if (i + 1 == levels.size()) {
      *out++ = static_cast<std::byte>(a & mask);
      break;
    }
    const unsigned b = static_cast<unsigned>(levels[i + 1]) >> shift;
    *out++ = static_cast<std::byte>((a & mask) | ((b & mask) << 4));
    *out++ = static_cast<std::byte>(b >> low_bits);
  }
}

/// PFNC packing: one stream of bits, the lowest first.
void pack_contiguous(std::span<const std::uint16_t> levels, int shift, int bits, std::byte* out) {
  unsigned pending = 0;
  int pending_bits = 0;
  for (const std::uint16_t value : levels) {
    pending |= (static_cast<unsigned>(value) >> shift) << pending_bits;
    pending_bits += bits;
    for (; pending_bits >= 8; pending_bits -= 8, pending >>= 8) {
      *out++ = static_cast<std::byte>(pending & 0xff);
    }
  }
  if (pending_bits > 0) *out = static_cast<std::byte>(pending & 0xff);
}

}  // namespace

void pack_levels(std::span<const std::uint16_t> levels, camera::PixelFormat format, int bit_depth,
                 std::byte* out, bool left_aligned) {
  using camera::PixelFormat;
  const int bits = bits_of(format);
  const int shift = std::max(0, bit_depth - bits);
  const int lift = left_aligned && format == PixelFormat::Mono16 ? bits - bit_depth : 0;
  switch (format) {
    case PixelFormat::Mono8:
      for (std::size_t i = 0; i < levels.size(); ++i) {
        out[i] = static_cast<std::byte>(levels[i] >> shift);
      }
      return;
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono12Packed:
      pack_gige(levels, shift, bits, out);
      return;
    case PixelFormat::Mono10p:
    case PixelFormat::Mono12p:
      pack_contiguous(levels, shift, bits, out);
      return;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      break;
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const unsigned value = static_cast<unsigned>(levels[i]) >> shift << lift;
    out[2 * i] = static_cast<std::byte>(value & 0xff);
    out[2 * i + 1] = static_cast<std::byte>(value >> 8);
  }
}

}  // namespace driftd::simulator
