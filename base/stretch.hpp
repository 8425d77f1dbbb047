// SPDX-License-Identifier: MIT
// How much a 2x2 map stretches what it maps, and what a stage's map may. Pure; any thread.
#pragma once

#include <algorithm>
#include <cmath>

namespace driftd {

/// The singular values of [[a, b], [c, d]]: the stretches along its two main directions.
struct Stretch {
  double smallest = 0, largest = 0;
};

inline Stretch stretch_of(double a, double b, double c, double d) noexcept {
  const double squares = a * a + b * b + c * c + d * d;
  const double determinant = std::abs(a * d - b * c);
  const double spread = std::sqrt(std::max(0.0, squares * squares - 4 * determinant * determinant));
  const double largest = std::sqrt((squares + spread) / 2);
  return {largest > 0 ? determinant / largest : 0, largest};
}

/// From image to stage, both in nm, the true map stretches by about 1; 10 leaves room for a pixel
/// size or a stage's scale that is only roughly known.
inline bool is_of_a_stage(Stretch stretch) noexcept {
  constexpr double kMost = 10;
  return stretch.smallest >= 1 / kMost && stretch.largest <= kMost;
}
inline constexpr const char* kStretchOfAStage =
    "an invertible map that stretches by 0.1 to 10 in every direction";

}  // namespace driftd
