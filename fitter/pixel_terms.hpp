// SPDX-License-Identifier: MIT
// What an estimator that weighs its pixels makes of each of them. An estimator is a file with a
// struct like `WeightedLeastSquares` in weighted_least_squares.hpp: it says from a pixel and its
// model what is minimized, with which weight the pixel enters the normal equations, and its
// weighted residual, for a Real of real.hpp. Host and device.
#pragma once

#include <concepts>
#include <limits>

#include "fitter/fitter.hpp"
#include "fitter/real.hpp"

namespace driftd::fitter {

/// With h the model: `residual` is minus half the derivative by h of what is minimized, and
/// `weight` (close to) half the second derivative. `value` is what is minimized. For a likelihood
/// it is only something of that size, because its value() costs as much as all else: the search
/// goes by the residuals, and value() is asked for once, at the minimum.
template <class Real>
struct PixelTerm {
  Real value, weight, residual;
};

/// What the pixels' noise is to the estimators, for one ROI.
template <class Real>
struct PixelNoiseOf {
  Estimator estimator;
  bool mapped;  ///< each pixel has a map value
  float gain;   ///< electrons per adu; the likelihood's scale, 1 for squares
  Real shift;   ///< adu; likelihood: pixel plus shift is its variance in units of the gain
  float floor;  ///< adu; likelihood: a model plus shift below this counts as this
};
using PixelNoise = PixelNoiseOf<float>;

/// An estimator that weighs its pixels. One that needs a map knows its variances (below).
template <class E, class Real>
concept WeighingEstimator = requires(const E& estimator, const Real& value,
                                     const PixelNoiseOf<Real>& noise, const PixelNoise& of_float) {
  E(noise);
  E(of_float);  // across the lanes, whose pixels are vectors
  { E::kNeedsMap } -> std::convertible_to<bool>;
  { estimator.of(value, value, value) } -> std::same_as<PixelTerm<Real>>;
};

/// An estimator that says by value() what is minimized: a likelihood.
template <class E, class Real>
concept HasValueApart = requires(const E& estimator, const Real& value) {
  { estimator.value(value, value, value) } -> std::same_as<Real>;
};

/// The value() of an estimator that has one, else 0: it is not asked for.
template <class Real, class E>
DRIFTD_HD Real value_apart(const E& estimator, const Real& pixel, const Real& model,
                           const Real& map) {
  if constexpr (HasValueApart<E, Real>) return estimator.value(pixel, model, map);
  return Real(0.0f);
}

/// Whether the estimator takes pixels for counts whose gain, offset and read noise it knows: what
/// it expects of a pixel is above 0, and so are its amplitudes.
DRIFTD_HD constexpr bool is_likelihood(Estimator estimator) {
  return estimator == Estimator::PoissonLikelihood;
}

/// Whether the estimator takes a map: the normal matrix is then the inverse of the covariance.
DRIFTD_HD bool knows_its_variances(Estimator estimator) {
  return estimator == Estimator::WeightedLeastSquares || is_likelihood(estimator);
}

/// The likelihood's scale, 1 for squares.
DRIFTD_HD float gain_of(const FitOptions& options) {
  const bool known = options.noise.gain_e_per_adu > 0;
  return is_likelihood(options.estimator) && known ? options.noise.gain_e_per_adu : 1.0f;
}

/// So large that no pixel counts beside it; 1 over it is a normal number.
constexpr float kMostShift = 1e30f;

/// Map value of a pixel with this variance: squares take its weight, the likelihood its own shift.
/// A pixel of infinite variance says nothing.
template <class Real>
DRIFTD_HD Real map_value(Estimator estimator, float gain, const Real& variance_adu2) {
  return is_likelihood(estimator) ? smaller(variance_adu2 * gain, Real(kMostShift))
                                  : 1.0f / variance_adu2;
}

/// Whether a pixel of this map value is one that says something.
template <class Real>
DRIFTD_HD Mask<Real> is_there(Estimator estimator, const Real& map) {
  return is_likelihood(estimator) ? map < kMostShift : map > 0.0f;
}

/// Smallest variance that makes sense.
DRIFTD_HD float least_variance(Estimator estimator) {
  return is_likelihood(estimator) ? 0.0f : std::numeric_limits<float>::min();
}

}  // namespace driftd::fitter
