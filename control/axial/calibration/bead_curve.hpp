// SPDX-License-Identifier: MIT
// The curve that beads of unknown heights share, and their heights. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace driftd::control {

/// One bead in one plane.
struct BeadWidths {
  std::size_t bead = 0;
  double z_nm = 0;                ///< of the plane
  std::array<double, 2> px = {};  ///< along x and y
  std::array<double, 2> sd_px = {};
};

struct BeadCurve {
  double low_nm = 0, piece_nm = 0;
  std::array<std::vector<double>, 2> coefficients;  ///< of a uniform cubic B-spline
  std::vector<double> heights_nm;                   ///< of each bead; their mean is 0
  double depth_nm = 0;  ///< from the focus to where the square of the width has doubled

  [[nodiscard]] double width_px(int axis, double z_nm) const;
  [[nodiscard]] double slope_px_per_nm(int axis, double z_nm) const;
};

/// @param widths  of at least three planes
/// @param axes    2, or 1: the second width is not looked at
BeadCurve fit_bead_curve(const std::vector<BeadWidths>& widths, std::size_t beads, int axes);

}  // namespace driftd::control
