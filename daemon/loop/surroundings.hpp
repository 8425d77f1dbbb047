// SPDX-License-Identifier: MIT
// What a camera's frame shows around a ROI. Pure; noexcept; no allocation.
#pragma once

#include <limits>

#include "camera/frame.hpp"
#include "control/axial/surroundings.hpp"

namespace driftd::daemon {

/// As control::surroundings_adu().
inline float surroundings_adu(const camera::Frame& frame, int x_px, int y_px,
                              int side_px) noexcept {
  const auto pixel_at = [&](int x, int y) {
    const int level = camera::level_at(frame, x, y);
    return level < 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(level);
  };
  return control::surroundings_adu(pixel_at, x_px, y_px, side_px);
}

}  // namespace driftd::daemon
