// SPDX-License-Identifier: MIT
// What driftfit and the library agree on of every spot that is found and fitted. Pure.
#pragma once

#include <algorithm>

namespace driftd::fitter {

/// Side of the box that spots are sought in, for ROIs of a side.
constexpr int box_of(int roi_px) noexcept {
  return roi_px % 2 == 1 ? roi_px : roi_px - 1;
}

/// Where the ROI of a spot begins that was found in a pixel: the whole ROI lies in the frame.
constexpr int roi_origin(int centre_px, int roi_px, int size_px) noexcept {
  return std::clamp(centre_px - roi_px / 2, 0, size_px - roi_px);
}

/// A fit that ends further from the pixel where its spot was found has found another spot: a
/// quarter of the ROI, two pixels at least.
constexpr double reach_px(int roi_px) noexcept {
  return std::max(2.0, 0.25 * roi_px);
}

}  // namespace driftd::fitter
