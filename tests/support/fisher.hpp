// SPDX-License-Identifier: MIT
// The Cramer-Rao bound of a spot under Poisson noise, from its truth, in double precision and
// without the fitter's mathematics: the reference that fits are held against.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "support/spots.hpp"

namespace driftd::test {

/// Standard deviations that no unbiased estimate can fall below.
struct PrecisionBound {
  double x_px, y_px, sigma_x_px, sigma_y_px, amplitude, background;
};

/// The inverse of a symmetric positive definite matrix, by Gauss and Jordan.
template <std::size_t n>
std::array<std::array<double, n>, n> inverse(std::array<std::array<double, n>, n> a) {
  std::array<std::array<double, n>, n> b = {};
  for (std::size_t i = 0; i < n; ++i) b[i][i] = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double pivot = a[i][i];
    for (std::size_t k = 0; k < n; ++k) {
      a[i][k] /= pivot;
      b[i][k] /= pivot;
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (j == i) continue;
      const double factor = a[j][i];
      for (std::size_t k = 0; k < n; ++k) {
        a[j][k] -= factor * a[i][k];
        b[j][k] -= factor * b[i][k];
      }
    }
  }
  return b;
}

/// @param spot  in photons per pixel
/// @param read_variance  of each pixel, electrons squared, taken as Poisson (Huang et al. 2013)
/// @param circular  whether both widths are one parameter
inline PrecisionBound precision_bound(const Spot& spot, int side, bool circular,
                                      double read_variance = 0) {
  const double sx = spot.sigma_px;
  const double sy = spot.sigma_y_px > 0 ? spot.sigma_y_px : sx;
  std::array<std::array<double, 6>, 6> information = {};
  for (int row = 0; row < side; ++row) {
    for (int column = 0; column < side; ++column) {
      const double u = column - spot.x_px;
      const double v = row - spot.y_px;
      const double f = std::exp(-u * u / (2 * sx * sx) - v * v / (2 * sy * sy));
      const double af = spot.amplitude_adu * f;
      std::array<double, 6> d = {af * u / (sx * sx),
                                 af * v / (sy * sy),
                                 af * u * u / (sx * sx * sx),
                                 af * v * v / (sy * sy * sy),
                                 f,
                                 1};
      if (circular) {
        d[2] += d[3];
        d[3] = 0;
      }
      const double expected = af + spot.background_adu + read_variance;
      if (!(expected > 0)) continue;
      for (std::size_t j = 0; j < 6; ++j)
        for (std::size_t k = 0; k < 6; ++k) information[j][k] += d[j] * d[k] / expected;
    }
  }
  if (circular) information[3][3] = 1;
  const auto c = inverse(information);
  const auto sd = [&](std::size_t i) { return std::sqrt(c[i][i]); };
  return {sd(0), sd(1), sd(2), circular ? sd(2) : sd(3), sd(4), sd(5)};
}

}  // namespace driftd::test
