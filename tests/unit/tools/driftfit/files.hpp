// SPDX-License-Identifier: MIT
// What driftfit's tests are given: files, and frames with known spots.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "support/recording_files.hpp"

namespace driftd::tools {

using namespace driftd::test;

/// Frames of Gaussian spots on a background of 100 with a little fixed texture.
struct Scene {
  struct Spot {
    double x_px, y_px;
  };
  int width_px = 64, height_px = 48;
  double sigma_px = 1.3, amplitude_adu = 800;
  std::vector<Spot> spots;

  std::vector<std::uint16_t> frame(double dx_px, double dy_px) const {
    std::vector<std::uint16_t> pixels;
    for (int y = 0; y < height_px; ++y) {
      for (int x = 0; x < width_px; ++x) {
        double value = 100 + (x * 7 + y * 13) % 5;
        for (const Spot& s : spots) {
          const double u = x - s.x_px - dx_px;
          const double v = y - s.y_px - dy_px;
          value += amplitude_adu * std::exp(-(u * u + v * v) / (2 * sigma_px * sigma_px));
        }
        pixels.push_back(static_cast<std::uint16_t>(std::lround(value)));
      }
    }
    return pixels;
  }
  camera::StackShape shape() const {
    return {
        .width_px = width_px, .height_px = height_px, .frames = 1, .type = camera::PixelType::U16};
  }
};

inline const std::byte* bytes_of(const std::vector<std::uint16_t>& frame) {
  return reinterpret_cast<const std::byte*>(frame.data());
}

}  // namespace driftd::tools
