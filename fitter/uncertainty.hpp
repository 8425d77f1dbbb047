// SPDX-License-Identifier: MIT
// Standard deviations of all parameters at the minimum, amplitude and background included. Host and
// device. With H = J^T J over (shape..., alpha, beta) and pixel variances v_i, unweighted least
// squares has the covariance H^-1 (sum v_i J_i J_i^T) H^-1. Photon noise makes v_i linear in the
// model, v_i = v0 + v1 f_i, so that the sum is v0 H + v1 T with T = sum f J J^T: third-order
// moments of the profile, no pixel. A noise model gives v0 and v1; without one they are estimated
// from the squares of the residuals. Weighted least squares and the likelihood have the inverse of
// their normal matrix as covariance: for the latter that is the Cramer-Rao bound.
#pragma once

#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Pixel variance, adu^2: constant + slope * f.
template <class Real>
struct PixelVarianceOf {
  Real constant, slope;
};
using PixelVariance = PixelVarianceOf<float>;

/// @param background_adu  of the fit, as the camera counts (offset included)
template <class Real>
DRIFTD_HD PixelVarianceOf<Real> photon_variance(const NoiseModel& noise, const Real& amplitude_adu,
                                                const Real& background_adu) {
  const float per_electron = 1.0f / noise.gain_e_per_adu;
  const float read_adu = noise.read_noise_e * per_electron;
  const Real photons = (background_adu - noise.offset_adu) * per_electron;
  return {read_adu * read_adu + larger(photons, Real(0.0f)),
          larger(amplitude_adu, Real(0.0f)) * per_electron};
}

/// Variance of a pixel at a spot's peak, adu^2, for the verdict: what the residuals have in common
/// and, where the gain is known, at least what the light there makes. A wide, dim spot stands in a
/// ROI that is dark for the most part.
/// @param pooled  the residuals' common variance
template <class Real>
DRIFTD_HD Real variance_at_peak(const NoiseModel& noise, const Real& amplitude_adu,
                                const Real& background_adu, const Real& pooled) {
  if (!(noise.gain_e_per_adu > 0)) return pooled;
  const PixelVarianceOf<Real> light = photon_variance(noise, amplitude_adu, background_adu);
  return larger(pooled, light.constant + light.slope);
}

/// Sums over the residuals r with the weight w = (c / (c + f))^2, c = kVarianceRatio:
/// w[k] = sum w f^k, squares[k] = sum w f^k r^2.
template <class Real>
struct VarianceSumsOf {
  Real w[4];
  Real squares[2];
};
using VarianceSums = VarianceSumsOf<float>;

/// @param count    of pixels
/// @param profile  sum f
/// @param squares  sum r^2
template <class Real>
DRIFTD_HD VarianceSumsOf<Real> variance_sums(const QuotientSumsOf<Real>& s, float count,
                                             const Real& profile, const Real& squares) {
  constexpr float c = kVarianceRatio;  // a pixel has w = (1 - q)^2, w f = c (q - q^2)
  return {{count - 2.0f * s.q + s.qq, c * (s.q - s.qq), c * c * s.qq,
           c * c * (profile - c * (s.q + s.qq))},
          {squares - 2.0f * s.q_rr + s.qq_rr, c * (s.q_rr - s.qq_rr)}};
}

/// What the residuals of unweighted least squares tell: v0 and v1 by weighted least squares from E
/// r_i^2 = (1 - h_i) v_i. The leverage h_i of a pixel, J_i^T H^-1 J_i, is 1 / N for the background,
/// and nearly proportional to f for the other parameters (f^2 (2 + 4 ln^2 f) / (pi sigma^2) far
/// from the edges); all add up to the number of parameters. Where the bright pixels are no noisier
/// than the others, all pixels have the same variance.
/// @param count     of pixels
/// @param profile   sum f
/// @param searched  parameters without the background
/// @param pooled    the residuals' common variance, adu^2
template <class Real>
DRIFTD_HD PixelVarianceOf<Real> residual_variance(const VarianceSumsOf<Real>& sums, float count,
                                                  const Real& profile, int searched,
                                                  const Real& pooled) {
  const float parameters = static_cast<float>(searched);
  // The peak's leverage is 1 at most: a pixel cannot tell more than itself.
  const Real leverage = where(profile > parameters, parameters / profile, Real(1.0f));
  Real kept[3];  // sum w f^k (1 - h)
  for (int k = 0; k < 3; ++k)
    kept[k] = (1.0f - 1.0f / count) * sums.w[k] - leverage * sums.w[k + 1];
  const Real determinant = kept[0] * kept[2] - kept[1] * kept[1];
  const Real unit = 1.0f / pooled;  // in which no product is too large
  const Real squares[2] = {sums.squares[0] * unit, sums.squares[1] * unit};
  const Real constant = squares[0] * kept[2] - squares[1] * kept[1];
  const Real slope = squares[1] * kept[0] - squares[0] * kept[1];
  const Mask<Real> tell = kept[2] > 0.0f && determinant > 0.0f && slope > 0.0f;
  const Mask<Real> dark = constant < 0.0f;  // no noise but the peak's
  const Real dark_slope = squares[1] / kept[2];
  return {where(tell, where(dark, Real(0.0f), pooled * (constant / determinant)), pooled),
          where(tell, pooled * where(dark, dark_slope, slope / determinant), Real(0.0f))};
}

/// Standard deviations in the order (shape..., amplitude, background) where all pixels have the
/// same variance; NaN where H is singular.
/// @param diagonal  of H^-1
template <int n, class Real>
DRIFTD_HD Vec<n, Real> standard_deviations(const Vec<n, Real>& diagonal, const Real& variance) {
  Vec<n, Real> sd;
  for (int i = 0; i < n; ++i) sd[i] = sqrt_of(variance * diagonal[i]);
  return sd;
}

/// The same where pixels differ in variance.
/// @param inverse  H^-1
/// @param cubic    T
template <int n, class Real>
DRIFTD_HD Vec<n, Real> standard_deviations(const SymmetricMatrix<n, Real>& inverse,
                                           const SymmetricMatrix<n, Real>& cubic,
                                           const PixelVarianceOf<Real>& variance) {
  Vec<n, Real> z[std::size_t{n}];  // H^-1
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k) z[j][k] = z[k][j] = inverse(j, k);
  Vec<n, Real> quadratic = {};
  for (int j = 0; j < n; ++j) {
    Vec<n, Real> row;
    for (int i = 0; i < n; ++i) row[i] = 0.5f * cubic(j, j) * z[j][i];
    for (int k = 0; k < j; ++k)
      for (int i = 0; i < n; ++i) row[i] += cubic(j, k) * z[k][i];
    for (int i = 0; i < n; ++i) quadratic[i] += 2.0f * row[i] * z[j][i];
  }
  Vec<n, Real> sd;
  for (int i = 0; i < n; ++i)
    sd[i] = sqrt_of(variance.constant * z[i][i] + variance.slope * quadratic[i]);
  return sd;
}

/// The whole covariance then: H^-1 (v0 H + v1 T) H^-1.
/// @param inverse  H^-1
/// @param cubic    T
template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n, Real> sandwich(const SymmetricMatrix<n, Real>& inverse,
                                            const SymmetricMatrix<n, Real>& cubic,
                                            const PixelVarianceOf<Real>& variance) {
  const auto of = [](const SymmetricMatrix<n, Real>& m, int j, int k) {
    return j < k ? m(k, j) : m(j, k);
  };
  SymmetricMatrix<n, Real> result;
  for (int a = 0; a < n; ++a) {
    Vec<n, Real> row;  // of H^-1 T
    for (int j = 0; j < n; ++j) {
      row[j] = Real(0.0f);
      for (int k = 0; k < n; ++k) row[j] += of(inverse, a, k) * of(cubic, k, j);
    }
    for (int b = 0; b <= a; ++b) {
      Real sum = Real(0.0f);
      for (int j = 0; j < n; ++j) sum += row[j] * of(inverse, j, b);
      result(a, b) = variance.constant * inverse(a, b) + variance.slope * sum;
    }
  }
  return result;
}

/// Makes variances and covariances 0 of what is fixed. @param fixed  bit j: parameter j
template <int n, class Real>
DRIFTD_HD void forget(SymmetricMatrix<n, Real>& covariance, unsigned fixed) {
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k)
      if (((fixed >> j | fixed >> k) & 1u) != 0) covariance(j, k) = Real(0.0f);
}

}  // namespace driftd::fitter
