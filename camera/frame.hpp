// SPDX-License-Identifier: MIT
// A camera frame as the tracking loop sees it: a view of pixels that a FrameSource owns, with its
// identity and times. Valid until the next call of pop() or stop() on the source that gave it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "camera/pixel_format.hpp"

namespace driftd::camera {

struct Frame {
  const std::byte* pixels = nullptr;
  PixelFormat format = PixelFormat::Mono8;
  int width_px = 0;
  int height_px = 0;
  int line_padding_bytes = 0;  ///< behind each line; lines then begin at whole bytes
  int offset_x_px = 0;         ///< the region's place on the full sensor
  int offset_y_px = 0;
  /// Counts from the source; gaps are lost or superseded frames. A camera's own block id with its
  /// 16-bit wrap removed (after a reconnection it goes on from the last one); a recording's 0-based
  /// index in the file, which goes on growing when it loops.
  std::uint64_t id = 0;
  std::int64_t camera_time_ns = 0;  ///< the camera's own clock; 0 when it has none
  std::int64_t arrival_ns = 0;      ///< CLOCK_MONOTONIC when the host had all of it
};

/// Whether so many bytes hold the frame: all lines, and what is behind each but the last. False
/// where its sides are not above 0 or its padding is below.
bool is_held_by(const Frame& frame, std::size_t bytes) noexcept;

/// The fewest that hold it, of a frame that is held.
std::size_t held_bytes(const Frame& frame) noexcept;

/// Copies a square ROI out of a frame into row-major u16, unpacking as the format asks.
/// @param x_px, y_px  top-left pixel of the ROI inside the frame (region coordinates, not sensor)
/// @param out  side_px * side_px values, the camera's integer levels (Mono10 0..1023, not shifted)
/// @return false, with `out` untouched, when the ROI does not lie wholly inside the frame
bool cut_roi(const Frame& frame, int x_px, int y_px, int side_px, std::uint16_t* out) noexcept;

/// A pixel's level, as cut_roi() copies it; -1 outside the frame.
int level_at(const Frame& frame, int x_px, int y_px) noexcept;

/// Unpacks a whole frame into row-major u16 (width_px * height_px values).
void unpack(const Frame& frame, std::uint16_t* out) noexcept;
/// Unpacks the lines from `first` up to `end` alone, into their places.
/// @param out  of the whole frame
void unpack_lines(const Frame& frame, int first, int end, std::uint16_t* out) noexcept;

}  // namespace driftd::camera
