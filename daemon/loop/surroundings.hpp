// SPDX-License-Identifier: MIT
// What a frame shows around a ROI. Pure; noexcept; no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "camera/frame.hpp"

namespace driftd::daemon {

/// The median of 16 pixels on the edge of a square of three times the ROI's side about it, which
/// holds most of a marker's rings even far out of focus; NaN where fewer than half of them lie in
/// the frame.
/// @param x_px, y_px  the ROI's first pixel, in the frame
inline float surroundings_adu(const camera::Frame& frame, int x_px, int y_px,
                              int side_px) noexcept {
  constexpr int kSteps = 4;  // along each edge
  std::array<std::uint16_t, 4 * static_cast<std::size_t>(kSteps)> pixels{};
  std::size_t count = 0;
  const int reach = 3 * side_px / 2, x = x_px + side_px / 2, y = y_px + side_px / 2;
  for (int i = 0; i < kSteps; ++i) {
    const int along = -reach + 2 * reach * i / kSteps;
    for (const auto& [dx, dy] : {std::array{along, -reach}, std::array{reach, along},
                                 std::array{-along, reach}, std::array{-reach, -along}})
      if (camera::cut_roi(frame, x + dx, y + dy, 1, &pixels[count])) ++count;
  }
  if (2 * count < pixels.size()) return std::numeric_limits<float>::quiet_NaN();
  const auto end = pixels.begin() + static_cast<std::ptrdiff_t>(count);
  const auto middle = pixels.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(pixels.begin(), middle, end);
  return static_cast<float>(*middle);
}

}  // namespace driftd::daemon
