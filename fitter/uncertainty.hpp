// SPDX-License-Identifier: MIT
// Standard deviations of all parameters at the minimum, amplitude and background included. Host and
// device. With H = J^T J over (shape..., alpha, beta) and pixel variances v_i, unweighted least
// squares has the covariance H^-1 (sum v_i J_i J_i^T) H^-1. Photon noise makes v_i linear in the
// model, v_i = v0 + v1 f_i, so that the sum is v0 H + v1 T with T = sum f J J^T: third-order
// moments of the profile, no pixel. A noise model gives v0 and v1; without one the squares of the
// residuals do. Weighted least squares and the likelihood have the inverse of their normal matrix:
// for the latter the Cramer-Rao bound.
#pragma once

#include <cmath>

#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Pixel variance, adu^2: constant + slope * f.
struct PixelVariance {
  float constant, slope;
};

/// @param background_adu  of the fit, as the camera counts (offset included)
DRIFTD_HD PixelVariance photon_variance(const NoiseModel& noise, float amplitude_adu,
                                        float background_adu) {
  const float read_adu = noise.read_noise_e / noise.gain_e_per_adu;
  const float photons = (background_adu - noise.offset_adu) / noise.gain_e_per_adu;
  return {read_adu * read_adu + (photons > 0 ? photons : 0.0f),
          (amplitude_adu > 0 ? amplitude_adu : 0.0f) / noise.gain_e_per_adu};
}

/// What the residuals of unweighted least squares tell: v0 and v1 by weighted least squares from
/// E r_i^2 = (1 - h_i) v_i. The leverage h_i of a pixel, J_i^T H^-1 J_i, is 1 / N for the
/// background and nearly proportional to f for the others (f^2 (2 + 4 ln^2 f) / (pi sigma^2) far
/// from the edges); all add up to the number of parameters. Where the bright pixels are no noisier
/// than the others, all have the same variance.
/// @param count     of pixels
/// @param profile   sum f
/// @param searched  parameters without the background
/// @param pooled    the residuals' common variance, adu^2
DRIFTD_HD PixelVariance residual_variance(const VarianceSums& sums, float count, float profile,
                                          int searched, float pooled) {
  const PixelVariance common = {pooled, 0};
  const float leverage = profile > static_cast<float>(searched)
                             ? static_cast<float>(searched) / profile
                             : 1.0f;  // of the peak: a pixel cannot tell more than itself
  float kept[3];                      // sum w f^k (1 - h)
  for (int k = 0; k < 3; ++k) kept[k] = (1 - 1 / count) * sums.w[k] - leverage * sums.w[k + 1];
  const float determinant = kept[0] * kept[2] - kept[1] * kept[1];
  if (!(kept[2] > 0 && determinant > 0)) return common;
  const float unit = 1 / pooled;  // in which no product is too large
  const float squares[2] = {sums.squares[0] * unit, sums.squares[1] * unit};
  const float constant = squares[0] * kept[2] - squares[1] * kept[1];
  const float slope = squares[1] * kept[0] - squares[0] * kept[1];
  if (!(slope > 0)) return common;
  if (constant < 0) return {0, pooled * (squares[1] / kept[2])};
  return {pooled * (constant / determinant), pooled * (slope / determinant)};
}

/// Standard deviations in the order (shape..., amplitude, background) where all pixels have the
/// same variance; NaN where H is singular.
/// @param diagonal  of H^-1
template <int n>
DRIFTD_HD Vec<n> standard_deviations(const Vec<n>& diagonal, float variance) {
  Vec<n> sd;
  for (int i = 0; i < n; ++i) sd[i] = std::sqrt(variance * diagonal[i]);
  return sd;
}

/// The same where they have not.
/// @param inverse  H^-1
/// @param cubic    T
template <int n>
DRIFTD_HD Vec<n> standard_deviations(const SymmetricMatrix<n>& inverse,
                                     const SymmetricMatrix<n>& cubic,
                                     const PixelVariance& variance) {
  Vec<n> z[std::size_t{n}];  // H^-1
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k) z[j][k] = z[k][j] = inverse(j, k);
  Vec<n> quadratic = {};
  for (int j = 0; j < n; ++j) {
    Vec<n> row;
    for (int i = 0; i < n; ++i) row[i] = 0.5f * cubic(j, j) * z[j][i];
    for (int k = 0; k < j; ++k)
      for (int i = 0; i < n; ++i) row[i] += cubic(j, k) * z[k][i];
    for (int i = 0; i < n; ++i) quadratic[i] += 2.0f * row[i] * z[j][i];
  }
  Vec<n> sd;
  for (int i = 0; i < n; ++i)
    sd[i] = std::sqrt(variance.constant * z[i][i] + variance.slope * quadratic[i]);
  return sd;
}

}  // namespace driftd::fitter
