// SPDX-License-Identifier: MIT
#include <algorithm>

#include "simulator/sensor_settings.hpp"

namespace driftd::simulator {
namespace {

/// First unbinned pixel of an axis.
int first_of(int offset, int size, int binning, bool reverse, int sensor_size) noexcept {
  const int bins = sensor_size / binning;
  return (reverse ? bins - offset - size : offset) * binning;
}

}  // namespace

SensorSettings part_of_sensor(const SensorSettings& image, int sensor_width_px,
                              int sensor_height_px) noexcept {
  SensorSettings part = image;
  part.offset_x_px = first_of(image.offset_x_px, image.width_px, image.binning_x, image.reverse_x,
                              sensor_width_px);
  part.offset_y_px = first_of(image.offset_y_px, image.height_px, image.binning_y, image.reverse_y,
                              sensor_height_px);
  part.width_px = image.width_px * image.binning_x;
  part.height_px = image.height_px * image.binning_y;
  part.binning_x = part.binning_y = 1;
  part.reverse_x = part.reverse_y = false;
  return part;
}

void read_out(std::span<const std::uint16_t> part, const SensorSettings& image, int bit_depth,
              std::span<std::uint16_t> levels) {
  const auto width = static_cast<std::size_t>(image.width_px);
  const auto height = static_cast<std::size_t>(image.height_px);
  const auto across = static_cast<std::size_t>(image.binning_x);
  const auto down = static_cast<std::size_t>(image.binning_y);
  const unsigned top = (1U << bit_depth) - 1;
  for (std::size_t y = 0; y < height; ++y) {
    const auto row = levels.subspan((image.reverse_y ? height - 1 - y : y) * width, width);
    if (across == 1 && down == 1) {
      std::copy_n(&part[y * width], width, row.begin());
    } else {
      for (std::size_t x = 0; x < width; ++x) {
        unsigned sum = 0;
        for (std::size_t j = 0; j < down; ++j) {
          for (std::size_t i = 0; i < across; ++i) {
            sum += part[(y * down + j) * width * across + x * across + i];
          }
        }
        row[x] = static_cast<std::uint16_t>(std::min(sum, top));
      }
    }
    if (image.reverse_x) std::reverse(row.begin(), row.end());
  }
}

}  // namespace driftd::simulator
