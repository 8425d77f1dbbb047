// SPDX-License-Identifier: MIT
// Standard deviations of all parameters at the minimum, amplitude and background included. Host and
// device. With H = J^T J over (shape..., alpha, beta) and pixel variances v_i, unweighted least
// squares has the covariance H^-1 (sum v_i J_i J_i^T) H^-1. Photon noise makes v_i linear in the
// model, v_i = v0 + v1 f_i, so that the sum is v0 H + v1 T with T = sum f J J^T: third-order
// moments of the profile, no pixel. Without a noise model v0 is the residuals' variance and v1 = 0.
// Weighted least squares and the likelihood have the inverse of their normal matrix: for the latter
// the Cramer-Rao bound.
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
  Vec<n> sd;
  for (int i = 0; i < n; ++i) {
    Vec<n> z;  // row i of H^-1
    for (int j = 0; j < n; ++j) z[j] = j <= i ? inverse(i, j) : inverse(j, i);
    float quadratic = 0;
    for (int j = 0; j < n; ++j) {
      float row = 0.5f * cubic(j, j) * z[j];
      for (int k = 0; k < j; ++k) row += cubic(j, k) * z[k];
      quadratic += 2.0f * row * z[j];
    }
    sd[i] = std::sqrt(variance.constant * inverse(i, i) + variance.slope * quadratic);
  }
  return sd;
}

}  // namespace driftd::fitter
