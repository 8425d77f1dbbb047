// SPDX-License-Identifier: MIT
// Cubic splines through points. Pure; any thread.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace driftd::control {

/// One piece, by the distance from the point that it begins at: c[0] + c[1] t + c[2] t^2 + c[3]
/// t^3.
using CubicPiece = std::array<double, 4>;

inline double value_of(const CubicPiece& c, double t) noexcept {
  return c[0] + t * (c[1] + t * (c[2] + t * c[3]));
}
inline double slope_of(const CubicPiece& c, double t) noexcept {
  return c[1] + t * (2 * c[2] + t * (3 * c[3]));
}

/// The pieces between the points, one fewer than these; first and second derivatives have no jump,
/// and neither has the third at the points next to the ends (de Boor, A Practical Guide to Splines,
/// ch. IV: not-a-knot): of any cubic it is the cubic. Three points make a parabola, two a line.
/// @param x  ascending, at least two
std::vector<CubicPiece> cubic_spline(std::span<const double> x, std::span<const double> y);

}  // namespace driftd::control
