// SPDX-License-Identifier: MIT
// What the camera's registers ask of an image, and how its pixels are laid out on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "camera/frame.hpp"

namespace driftd::simulator {

struct SensorSettings {
  int offset_x_px = 0;
  int offset_y_px = 0;
  int width_px = 0;
  int height_px = 0;
  camera::PixelFormat format = camera::PixelFormat::Mono8;
  double exposure_us = 0;
  double gain_db = 0;

  std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
};

/// Lays levels of `bit_depth` out as a pixel format. Formats with fewer bits than the camera drop
/// the lowest ones; those with more carry the levels unshifted.
void pack_levels(std::span<const std::uint16_t> levels, camera::PixelFormat format, int bit_depth,
                 std::byte* out);

/// Bytes of an image as pack_levels() lays it out.
std::size_t packed_bytes(camera::PixelFormat format, std::size_t pixels) noexcept;

}  // namespace driftd::simulator
