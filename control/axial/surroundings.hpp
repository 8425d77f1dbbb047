// SPDX-License-Identifier: MIT
// What a frame shows around a ROI: in the daemon's frames as in those of a recording. Pure;
// noexcept; no allocation.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace driftd::control {

/// The median of 16 pixels on the edge of a square of three times the ROI's side about it, which
/// holds most of a marker's rings even far out of focus; NaN where fewer than half of them lie in
/// the frame.
/// @param pixel_at  (x, y) -> float of a frame's pixel; NaN outside
/// @param x_px, y_px  the ROI's first pixel, in the frame
template <typename PixelAt>
float surroundings_adu(const PixelAt& pixel_at, int x_px, int y_px, int side_px) noexcept {
  constexpr int kSteps = 4;  // along each edge
  std::array<float, 4 * static_cast<std::size_t>(kSteps)> pixels;
  pixels.fill(std::numeric_limits<float>::infinity());
  std::size_t count = 0;
  const int reach = 3 * side_px / 2, x = x_px + side_px / 2, y = y_px + side_px / 2;
  for (int i = 0; i < kSteps; ++i) {
    const int along = -reach + 2 * reach * i / kSteps;
    for (const auto& [dx, dy] : {std::array{along, -reach}, std::array{reach, along},
                                 std::array{-along, reach}, std::array{-reach, -along}}) {
      const float pixel = pixel_at(x + dx, y + dy);
      if (std::isfinite(pixel)) pixels[count++] = pixel;
    }
  }
  if (2 * count < pixels.size()) return std::numeric_limits<float>::quiet_NaN();
  // By rank: of so few it is sooner found without a branch for each comparison.
  const std::size_t middle = count / 2;
  for (const float pixel : pixels) {
    std::size_t below = 0, up_to = 0;
    for (const float other : pixels) {
      below += other < pixel ? 1 : 0;
      up_to += other <= pixel ? 1 : 0;
    }
    if (below <= middle && middle < up_to) return pixel;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

}  // namespace driftd::control
