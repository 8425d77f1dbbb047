// SPDX-License-Identifier: MIT
// Pixel layouts, and what follows from one. A value; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace driftd::camera {

/// Named as in the GenICam Pixel Format Naming Convention (PFNC). `*Packed` are the
/// GigE Vision packings (two pixels in three bytes), `*p` the PFNC bit-contiguous ones.
enum class PixelFormat : std::uint8_t {
  Mono8,
  Mono10,
  Mono10Packed,
  Mono10p,
  Mono12,
  Mono12Packed,
  Mono12p,
  Mono16,
};

inline constexpr std::array kPixelFormats{
    PixelFormat::Mono8,  PixelFormat::Mono10,       PixelFormat::Mono10Packed, PixelFormat::Mono10p,
    PixelFormat::Mono12, PixelFormat::Mono12Packed, PixelFormat::Mono12p,      PixelFormat::Mono16};

/// Significant bits of a pixel: 8, 10, 12 or 16.
int bits_per_pixel(PixelFormat format) noexcept;

/// Bytes of one image of `width` x `height` px without row padding.
std::size_t image_bytes(PixelFormat format, int width, int height) noexcept;

/// PFNC name ("Mono12Packed").
const char* name_of(PixelFormat format) noexcept;

/// The format of that PFNC name; nothing when it is none of ours.
std::optional<PixelFormat> pixel_format_named(std::string_view name) noexcept;

}  // namespace driftd::camera
