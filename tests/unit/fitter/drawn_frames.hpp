// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "fitter/spots/frame_shape.hpp"

namespace driftd::test {

using fitter::FrameShape, fitter::PixelType;

template <class Pixel>
constexpr PixelType type_of() {
  if constexpr (std::is_same_v<Pixel, std::uint8_t>) return PixelType::U8;
  return std::is_same_v<Pixel, std::uint16_t> ? PixelType::U16 : PixelType::F32;
}

/// Spots in noise, some at the borders; as whole numbers where pixels are.
template <class Pixel>
std::vector<Pixel> drawn(const FrameShape& shape, int frames, double background, double noise,
                         unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> x_of(-1, shape.width_px), y_of(-1, shape.height_px);
  constexpr double kMost = std::is_same_v<Pixel, std::uint8_t> ? 255 : 65535;
  std::vector<Pixel> made;
  for (int frame = 0; frame < frames; ++frame) {
    std::vector<std::pair<double, double>> spots(6);
    for (auto& [x, y] : spots) x = x_of(random), y = y_of(random);
    for (int y = 0; y < shape.height_px; ++y)
      for (int x = 0; x < shape.width_px; ++x) {
        double light = background + noise * normal(random);
        for (const auto& [u, v] : spots)
          light += 60 * std::exp(-0.4 * ((x - u) * (x - u) + (y - v) * (y - v)));
        if (std::numeric_limits<Pixel>::is_integer)
          light = std::clamp(std::round(light), 0.0, kMost);
        made.push_back(static_cast<Pixel>(light));
      }
  }
  return made;
}

}  // namespace driftd::test
