// SPDX-License-Identifier: MIT
// A camera frame as the tracking loop sees it: a view of pixels that a FrameSource owns, with its
// identity and times. Valid until the next call of pop() or stop() on the source that gave it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace driftd::camera {

/// Pixel layouts, named as in the GenICam Pixel Format Naming Convention (PFNC). `*Packed` are the
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

struct Frame {
  const std::byte* pixels = nullptr;
  PixelFormat format = PixelFormat::Mono8;
  int width_px = 0;
  int height_px = 0;
  int offset_x_px = 0;  ///< the region's place on the full sensor
  int offset_y_px = 0;
  /// Counts from the source; gaps are lost or superseded frames. A camera's own block id with its
  /// 16-bit wrap removed (after a reconnection it goes on from the last one); a recording's 0-based
  /// index in the file, which goes on growing when it loops.
  std::uint64_t id = 0;
  std::int64_t camera_time_ns = 0;  ///< the camera's own clock; 0 when it has none
  std::int64_t arrival_ns = 0;      ///< CLOCK_MONOTONIC when the host had all of it
};

/// Copies a square ROI out of a frame into row-major u16, unpacking as the format asks.
/// @param x_px, y_px  top-left pixel of the ROI inside the frame (region coordinates, not sensor)
/// @param out  side_px * side_px values, the camera's integer levels (Mono10 0..1023, not shifted)
/// @return false, with `out` untouched, when the ROI does not lie wholly inside the frame
bool cut_roi(const Frame& frame, int x_px, int y_px, int side_px, std::uint16_t* out) noexcept;

/// Unpacks a whole frame into row-major u16 (width_px * height_px values).
void unpack(const Frame& frame, std::uint16_t* out) noexcept;

}  // namespace driftd::camera
