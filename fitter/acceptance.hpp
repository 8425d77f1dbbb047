// SPDX-License-Identifier: MIT
// When a minimum of chi-square is a spot: the rule that fitter.hpp states under "NotConverged", and
// the reasons for its figures. It is one rule for all models and estimators. It rests on the plain
// residuals whatever the estimator and the noise model say, so that a wrong gain cannot turn noise
// into spots or spots into noise; only the peak's noise is taken from a known gain
// (variance_at_peak()). Host and device; plain functions, callable from any thread.
#pragma once

#include <type_traits>

#include "fitter/fit_values.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/uncertainty.hpp"

namespace driftd::fitter {

/// (N - 5) ln(chi-square of a constant / chi-square of the fit): with Gaussian noise alone, of ROIs
/// from 4x4 to 64x64, fewer than 1 in 1,000 reach 25.
constexpr float kMinLogLikelihoodGain = 25.0f;
/// Amplitude and width over their standard deviations (from the residuals). A spot fitted to a
/// gradient or an edge is broad, and its amplitude and width are hardly determined. With the gain
/// above, about 1 in 10,000 ROIs of Gaussian noise pass, and 2 in 1,000 of gradients; of noise with
/// long tails, as of few photons, many more (docs/internals/fitter.md).
constexpr float kMinSignificance = 4.0f;
/// Residuals, averaged over 3x3 pixels, over the amplitude: beads out of focus reach 0.32, a second
/// spot as bright as the first more than 0.4.
constexpr float kMaxStructure = 1.0f / 3.0f;
/// The same over the noise expected of such an average: keeps weak spots from failing by noise.
/// Where the gain is known, the noise of a peak of 25 electrons or less is expected, because only
/// there it counts (above, a third of the amplitude is more). Without it, one in six to nine in ten
/// of wide, dim spots, as of 3,000 photons with a sigma of 8 px, failed by the noise of a ROI that
/// is dark for the most part. The line v0 + v1 f that residuals tell without a gain is no use here:
/// rings raise it, and pass.
constexpr float kMinStructureSignificance = 5.0f;

template <class Real>
DRIFTD_HD Mask<Real> inside_limits(const ProfileOf<Real>& f, int side) {
  constexpr float kMargin = 1e-3f;
  const float first = -0.5f + kMargin;
  const float last = static_cast<float>(side) - 0.5f - kMargin;
  const float narrowest = kMinSigmaPx * (1.0f + kMargin);
  const float widest = max_sigma_px(side) * (1.0f - kMargin);
  return f.x_px > first && f.x_px < last && f.y_px > first && f.y_px < last &&
         f.sigma_x_px > narrowest && f.sigma_x_px < widest && f.sigma_y_px > narrowest &&
         f.sigma_y_px < widest;
}

/// @param l         a fit whose standard deviations come from its residuals
/// @param squares   sum of its squared residuals
/// @param constant  the same of a constant: the squares about the mean
/// @param freedom   pixels less parameters
template <class Real>
DRIFTD_HD Mask<Real> significant(const LocalizationOf<Real>& l, const Real& squares,
                                 const Real& constant, const std::type_identity_t<Real>& freedom) {
  return freedom * log_of(constant / squares) > kMinLogLikelihoodGain &&
         l.amplitude_adu > kMinSignificance * l.amplitude_sd_adu &&
         l.sigma_x_px > kMinSignificance * l.sigma_x_sd_px &&
         l.sigma_y_px > kMinSignificance * l.sigma_y_sd_px;
}

/// @param residuals  their smoothed extremes
template <class Real>
DRIFTD_HD Mask<Real> structureless(const SmoothedExtremesOf<Real>& residuals, const Real& amplitude,
                                   const Real& residual_sd) {
  constexpr float kPerAverage = 1.0f / 3.0f;  // of 9 pixels
  const Real largest = larger(residuals.highest, -residuals.lowest);
  return largest < kMaxStructure * amplitude ||
         largest < kMinStructureSignificance * kPerAverage * residual_sd;
}

/// What the verdict is given. Residuals are those of the last evaluation, less than a hundredth of
/// a width from where the search ended.
template <class Real>
struct EvidenceOf {
  /// Where the search ended: both levels and widths, narrowest and widest if there are such, with
  /// their standard deviations from the residuals.
  LocalizationOf<Real> found;
  ProfileOf<Real> profile;  ///< there, too
  Mask<Real> determined;    ///< the normal matrix is positive definite
  Real amplitude_adu;       ///< of the fit that has these residuals
  Real squares;             ///< sum of the squared residuals
  Real freedom;             ///< pixels less parameters
  SmoothedExtremesOf<Real> smoothed;
};

template <class Real>
DRIFTD_HD Mask<Real> is_spot(const EvidenceOf<Real>& e, const PixelSummaryOf<Real>& summary,
                             int side, const NoiseModel& noise) {
  const float count = static_cast<float>(side * side);
  const Real constant = summary.sum_squares - summary.sum * summary.sum / count;
  const Real at_peak =
      variance_at_peak(noise, e.amplitude_adu, e.found.background_adu, Real(e.squares / e.freedom));
  return e.determined && inside_limits(e.profile, side) &&
         significant(e.found, e.squares, constant, e.freedom) &&
         structureless(e.smoothed, e.amplitude_adu, sqrt_of(at_peak));
}

}  // namespace driftd::fitter
