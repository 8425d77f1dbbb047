// SPDX-License-Identifier: MIT
// What a camera's frame shows around a ROI. Pure; noexcept; no allocation.
#pragma once

#include <cstdint>
#include <limits>

#include "camera/frame.hpp"
#include "control/axial/surroundings.hpp"

namespace driftd::daemon {

/// As control::surroundings_adu().
inline float surroundings_adu(const camera::Frame& frame, int x_px, int y_px,
                              int side_px) noexcept {
  const auto pixel_at = [&](int x, int y) {
    std::uint16_t pixel = 0;
    return camera::cut_roi(frame, x, y, 1, &pixel) ? static_cast<float>(pixel)
                                                   : std::numeric_limits<float>::quiet_NaN();
  };
  return control::surroundings_adu(pixel_at, x_px, y_px, side_px);
}

}  // namespace driftd::daemon
