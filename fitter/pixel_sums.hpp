// SPDX-License-Identifier: MIT
// What a back end has to sum over the pixels of one ROI, and nothing else. Both Gaussian models are
// separable, f(x, y) = X(x) Y(y) with X = exp(-u^2 / 2 sigma_x^2), u = x - x0, and Y likewise with
// v = y - y0. So every sum over f and its derivatives alone is a product of two one-dimensional
// moments (2 side exponentials instead of side^2), and only four sums need the residuals' pixels.
// Where pixels have weights of their own, nothing factorizes, and all sums run over pixels.
// Plain values, host and device.
#pragma once

#include <cstdint>

#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// The separable profile: centre and widths, ROI coordinates.
template <class Real>
struct ProfileOf {
  Real x_px, y_px;
  Real sigma_x_px, sigma_y_px;
};
using Profile = ProfileOf<float>;

/// Sums over one axis: first[k] = sum u^k X, second[k] = sum u^k X^2.
template <class Real>
struct AxisMomentsOf {
  Real first[3];
  Real second[5];
};

/// Moments of the profile as a model reads them: of order a in u and b in v.
template <class Real>
struct SeparableMoments {
  const Real* x;
  const Real* y;
  DRIFTD_HD Real operator()(int a, int b) const { return x[a] * y[b]; }
};

/// After a back end's `set_profile`: g are the pixels less the pedestal.
template <class Real>
struct ProfileMomentsOf {
  AxisMomentsOf<Real> x, y;
  Real profile_pixels;  ///< sum f g

  DRIFTD_HD SeparableMoments<Real> first() const { return {x.first, y.first}; }
  DRIFTD_HD SeparableMoments<Real> second() const { return {x.second, y.second}; }
};
using ProfileMoments = ProfileMomentsOf<float>;

/// third[k] = sum u^k X^3; only the variance under Poisson noise needs them.
template <class Real>
struct CubicMomentsOf {
  Real x[5], y[5];
};
using CubicMoments = CubicMomentsOf<float>;

/// Sums from which the pixels' variance is estimated, over the residuals r with the weight
/// w = (c / (c + f))^2, c = kVarianceRatio: w[k] = sum w f^k, squares[k] = sum w f^k r^2.
template <class Real>
struct VarianceSumsOf {
  Real w[4];
  Real squares[2];
};
using VarianceSums = VarianceSumsOf<float>;
constexpr int kVarianceSums = 6;

/// Background's variance over what the peak adds: where it is this, the estimate is the most
/// precise there can be; it is right wherever.
constexpr float kVarianceRatio = 0.1f;

/// Sums over the residuals r = g - (alpha f + beta).
template <class Real>
struct ResidualMomentsOf {
  Real squares;       ///< sum r^2
  Real u, v, uu, vv;  ///< sum r u f, sum r v f, sum r u^2 f, sum r v^2 f
};
using ResidualMoments = ResidualMomentsOf<float>;

/// What ResidualMoments leaves out, because it is 0 with the best levels.
template <class Real>
struct ResidualTotalsOf {
  Real sum;  ///< sum r
  Real f;    ///< sum r f
};
using ResidualTotals = ResidualTotalsOf<float>;

/// Sums with a weight w and a weighted residual e of each pixel (see pixel_terms.hpp), of the order
/// a in u and b in v at [a][b], where a + b is at most 2 (4 in `second`), but for the odd orders in
/// both, which no model reads.
template <class Real>
struct WeightedSums {
  Real value;         ///< what is minimized
  Real e, ef[3][3];   ///< sum e, sum e f u^a v^b
  Real w, wf[3][3];   ///< sum w, sum w f u^a v^b
  Real second[5][5];  ///< sum w f^2 u^a v^b
};
using WeightedMoments = WeightedSums<float>;

/// Calls action(sum) for each that a model reads, kWeightedSums in all.
constexpr int kWeightedSums = 26;
template <class Real, class Action>
DRIFTD_HD void for_each_sum(WeightedSums<Real>& m, Action&& action) {
  action(m.value);
  action(m.e);
  action(m.w);
  for (int a = 0; a < 5; ++a) {
    for (int b = 0; a + b < 5; ++b) {
      if (a * b != 3) action(m.second[a][b]);
      if (a + b >= 3 || a * b == 1) continue;
      action(m.ef[a][b]);
      action(m.wf[a][b]);
    }
  }
}

/// What a back end knows of a loaded ROI before the first iteration.
template <class Real>
struct PixelSummaryOf {
  Real pedestal_adu;  ///< subtracted from every pixel: near their mean
  Real sum;           ///< of the pixels less the pedestal
  Real sum_squares;
  Mask<Real> usable;  ///< finite, not all equal, below saturation
};
using PixelSummary = PixelSummaryOf<float>;

/// Extremes of the 3x3 moving average over windows that lie within the ROI; `x_px, y_px`: centre of
/// the window with the highest (of equals the first in row-major order).
template <class Real>
struct SmoothedExtremesOf {
  Real highest, lowest;
  Real x_px, y_px;
};
using SmoothedExtremes = SmoothedExtremesOf<float>;

/// Sums of products of the profile and its derivatives with some weight w:
/// ff = sum w f f, fd[j] = sum w f d_j f, dd(j, k) = sum w d_j f d_k f.
template <int n, class Real = float>
struct ProfileProducts {
  Real ff;
  Vec<n, Real> fd;
  SymmetricMatrix<n, Real> dd;
};

/// Sums over the profile (f) and its derivatives (d) themselves.
template <int n, class Real = float>
struct ProfileTotals {
  Real f;
  Vec<n, Real> d;
};

/// What the verdict on a minimum rests on, whatever its estimator.
template <int n, class Real = float>
struct PlainSums {
  ProfileProducts<n, Real> product;
  ProfileTotals<n, Real> total;
  Real squares;        ///< sum r^2
  Real count;          ///< of pixels
  std::uint8_t fixed;  ///< bit j: parameter j (shape, amplitude, background)
};

/// sum w J J^T over the shape, amplitude and background, from the sums of one weight.
template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n + 2, Real> full_matrix(const ProfileProducts<n, Real>& product,
                                                   const ProfileTotals<n, Real>& total,
                                                   const Real& weight_sum, const Real& alpha) {
  SymmetricMatrix<n + 2, Real> h;
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k <= j; ++k) h(j, k) = alpha * alpha * product.dd(j, k);
    h(n, j) = alpha * product.fd[j];
    h(n + 1, j) = alpha * total.d[j];
  }
  h(n, n) = product.ff;
  h(n + 1, n) = total.f;
  h(n + 1, n + 1) = weight_sum;
  return h;
}

/// @return moments with the profile set; not set again where it is already and the back end keeps
/// them
/// @param is_set  the profile set last
template <class Real, class BackEnd>
DRIFTD_HD ProfileMomentsOf<Real> moments_at(BackEnd& pixels, const ProfileOf<Real>& profile,
                                            const Mask<Real>& is_set) {
  if constexpr (BackEnd::kKeepsMoments)
    if (all(is_set)) return pixels.moments();
  return pixels.set_profile(profile);
}

// A back end is a type with these members (duck-typed, so that it inlines on host and device):
//   int side() const;
//   Real                                                   float, or a fit in every lane
//   const PixelSummaryOf<Real>& summary() const;
//   SmoothedExtremes smoothed_pixels();
//   float count_above(float level);                        pixels (less the pedestal) above a level
//   ProfileMoments set_profile(const Profile&);
//   static constexpr bool kKeepsMoments;
//   const ProfileMoments& moments();                       what it was, if they are kept
//   ResidualMoments residuals(float alpha, float beta);    for the profile set last
//   ResidualMoments residuals(float alpha, float beta, ResidualTotals&);   likewise
//   CubicMoments cubic_moments();                          for the profile set last
//   WeightedMoments weighted_moments(const PixelNoise&, float alpha, float beta); likewise
//   WeightedMoments plain_moments(const PixelNoise&, float alpha, float beta);    with the weight 1
//                                                          of each pixel that the map does not
//                                                          call gone; only where there is a map
//   VarianceSums variance_sums(float alpha, float beta);   likewise
//   SmoothedExtremes smoothed_residuals(float alpha, float beta);  0 of pixels that are gone

}  // namespace driftd::fitter
