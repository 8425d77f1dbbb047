// SPDX-License-Identifier: MIT
// What the camera's registers ask of an image, how it is read from the sensor, and how its pixels
// are laid out on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "camera/frame.hpp"

namespace driftd::simulator {

/// Region and offset are in pixels of the image: mirrored first, then binned, then cut out, as the
/// GenICam standard features say (SFNC 2.7, ReverseX and BinningHorizontal).
struct SensorSettings {
  int offset_x_px = 0;
  int offset_y_px = 0;
  int width_px = 0;
  int height_px = 0;
  camera::PixelFormat format = camera::PixelFormat::Mono8;
  double exposure_us = 0;
  double gain_db = 0;
  int binning_x = 1, binning_y = 1;
  bool reverse_x = false, reverse_y = false;
  bool left_aligned = false;  ///< in Mono16

  std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
};

/// The part of a sensor that an image is read from: unbinned and unmirrored.
SensorSettings part_of_sensor(const SensorSettings& image, int sensor_width_px,
                              int sensor_height_px) noexcept;
/// Sums the levels of that part into the image's bins, clipped to the levels there are, and mirrors
/// them.
void read_out(std::span<const std::uint16_t> part, const SensorSettings& image, int bit_depth,
              std::span<std::uint16_t> levels);

/// Lays levels of `bit_depth` out as a pixel format. Formats with fewer bits than the camera drop
/// the lowest ones; those with more carry the levels unshifted, or Mono16 in its upper bits.
void pack_levels(std::span<const std::uint16_t> levels, camera::PixelFormat format, int bit_depth,
                 std::byte* out, bool left_aligned = false);

/// Bytes of an image as pack_levels() lays it out.
std::size_t packed_bytes(camera::PixelFormat format, std::size_t pixels) noexcept;

}  // namespace driftd::simulator
