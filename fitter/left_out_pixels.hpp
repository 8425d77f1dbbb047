// SPDX-License-Identifier: MIT
// Pixels that a map of variances calls gone (of infinite variance) or so noisy that they tell next
// to nothing: they are left out of everything, start value, fit and verdict. A noisy pixel beside a
// weak spot would otherwise be taken for its peak, and its residual for a lack of fit. Host and
// device; what sums over pixels is the back end's.
#pragma once

#include <limits>

#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"

namespace driftd::fitter {

/// How many times as noisy as the fourth noisiest pixel a pixel may be. A bright spot's own peak is
/// noisier than its surroundings, too, but by 14.4 times the fourth brightest pixel at most, from
/// sigma 0.5 px on, wherever in its pixel the spot lies, if it lies well within the ROI. To
/// weighted least squares a pixel left out tells less than a sixteenth of what any but the three
/// noisiest others tell; to the likelihood, less than a sixteenth of what a pixel of mean light
/// does.
constexpr float kMostNoise = 16.0f;
constexpr int kNoisiest = 4;

/// One of four classes of pixels: rows and columns are even or odd. Next to a spot's peak lie
/// pixels of all four.
DRIFTD_HD int class_of(int row, int column) {
  return row % 2 * 2 + column % 2;
}

/// Whether there is surely no pixel to be left out, so that nothing has to be looked for. Each
/// class has a noisiest pixel, and the fourth noisiest of all is at least as noisy as the least of
/// these four, whatever the classes, as long as no pixel is in two of them; light only raises the
/// limit. False does not say that there is one.
/// @param largest  variance of each class, from 0 on
template <class Real>
DRIFTD_HD Mask<Real> none_to_leave_out(const Real (&largest)[kNoisiest]) {
  Real most = largest[0], least = largest[0];
  for (int k = 1; k < kNoisiest; ++k) {
    most = larger(most, largest[k]);
    least = smaller(least, largest[k]);
  }
  return most <= smaller(kMostNoise * least, Real(std::numeric_limits<float>::max()));
}

/// Variance, adu^2, beyond which a pixel is left out: none of finite variance where there are fewer
/// than four.
/// @param sum_of, largest_of  (f): of f(pixel less pedestal, variance), over all pixels
template <class Real, class SumOf, class LargestOf>
DRIFTD_HD Real most_variance(const PixelSummaryOf<Real>& summary, const FitOptions& options,
                             const SumOf& sum_of, const LargestOf& largest_of) {
  constexpr float kMost = std::numeric_limits<float>::max();
  if (options.model == Model::LineGaussian) return kMost;  // has no neighbours in four classes
  const Real one = 1.0f, zero = 0.0f;
  Real fourth = std::numeric_limits<float>::infinity();
  Mask<Real> found = Mask<Real>(false);
  for (int k = 0; k < kNoisiest; ++k) {
    const Real next =
        largest_of([&](const Real&, const Real& v) { return where(v < fourth, v, zero); });
    const Real as_noisy = sum_of(
        [&](const Real&, const Real& v) { return where(v >= next && is_finite(v), one, zero); });
    fourth = where(found, fourth, next);
    found = found || as_noisy > static_cast<float>(kNoisiest) - 0.5f;
  }
  // The likelihood's map is the read noise alone. Light adds its own: that is the mean light of all
  // but the noisiest pixels, because a hot pixel may be bright, too.
  Real light = 0.0f;
  if (is_likelihood(options.estimator)) {
    const Real there =
        sum_of([&](const Real&, const Real& v) { return where(v <= fourth, one, zero); });
    const Real sum =
        sum_of([&](const Real& g, const Real& v) { return where(v <= fourth, g, zero); });
    const Real mean = summary.pedestal_adu + sum / there;
    light = larger(mean - options.noise.offset_adu, zero) / gain_of(options);
  }
  return where(found, smaller(kMostNoise * (fourth + light), Real(kMost)), Real(kMost));
}

/// How many parameters a fit has to find.
DRIFTD_HD int free_parameters(const FitOptions& options) {
  int count = 0;
  for (unsigned bits = bits_of(options.model) & ~unsigned{options.fixed}; bits != 0; bits >>= 1)
    count += static_cast<int>(bits & 1u);
  return count;
}

/// Gives each pixel that is left out the mean of all others, and makes that mean the pedestal.
/// Fewer pixels than a fit has parameters to find, or pixels that are all equal, are bad input.
/// @param count               of all pixels
/// @param sum_of, largest_of  as above; largest_of is 0 where nothing is above 0
/// @param change              (f): makes f(pixel less pedestal, variance) of each pixel
/// @return most_variance()
template <class Real, class SumOf, class LargestOf, class Change>
DRIFTD_HD Real leave_out(PixelSummaryOf<Real>& summary, float count, const FitOptions& options,
                         const SumOf& sum_of, const LargestOf& largest_of, const Change& change) {
  const Real most = most_variance(summary, options, sum_of, largest_of);
  const Real one = 1.0f, zero = 0.0f;
  const Real kept = sum_of([&](const Real&, const Real& v) { return where(v <= most, one, zero); });
  const Real sum = sum_of([&](const Real& g, const Real& v) { return where(v <= most, g, zero); });
  const Mask<Real> all_kept = kept > count - 0.5f;
  const Real mean = where(all_kept || kept < 0.5f, zero, sum / kept);
  change([&](const Real& g, const Real& v) { return where(v <= most, g - mean, zero); });
  const Real rest = sum_of([&](const Real& g, const Real&) { return g; });
  const Real squares = sum_of([&](const Real& g, const Real&) { return g * g; });
  // About their mean some pixels are brighter and some darker, if they are not all equal.
  const Real above = largest_of([&](const Real& g, const Real&) { return g; });
  const Real below = largest_of([&](const Real& g, const Real&) { return -g; });
  const float fewest = static_cast<float>(free_parameters(options));
  summary.usable =
      summary.usable && kept > fewest - 0.5f && (all_kept || (above > 0.0f && below > 0.0f));
  summary.pedestal_adu += mean;
  summary.sum = where(all_kept, summary.sum, rest);
  summary.sum_squares = where(all_kept, summary.sum_squares, squares);
  return most;
}

}  // namespace driftd::fitter
