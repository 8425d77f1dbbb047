// SPDX-License-Identifier: MIT
// What an estimator that weighs its pixels makes of each of them. An estimator is a file with a
// struct like `WeightedLeastSquares` in weighted_least_squares-inl.hpp: it says from a pixel and
// its model what is minimized, with which weight the pixel enters the normal equations, and its
// weighted residual, for numbers of any type: `Math` has the few functions that have no operator.
// Such a file has no namespace and no includes of its own: it is included in that of a back end,
// once for each instruction set, because functions of vectors inline only into those compiled for
// the same.
#pragma once

#include "fitter/fitter.hpp"
#include "fitter/host_device.hpp"

namespace driftd::fitter {

/// With value = sum of `value` over the pixels and h the model: `residual` is minus half the
/// derivative of `value` by h, and `weight` (close to) half the second.
template <class Real>
struct PixelTerm {
  Real value, weight, residual;
};

/// What the pixels' noise is to the estimators, for one ROI.
struct PixelNoise {
  Estimator estimator;
  bool mapped;  ///< each pixel has a map value
  float gain;   ///< electrons per adu; the likelihood's scale, 1 for squares
  float shift;  ///< adu; likelihood: pixel plus shift is its variance in units of the gain
  float floor;  ///< adu; likelihood: a model plus shift below this counts as this
};

/// Map value of a pixel with this variance: squares take its weight, the likelihood its own shift.
DRIFTD_HD float map_value(const PixelNoise& noise, float variance_adu2) {
  return noise.estimator == Estimator::PoissonLikelihood ? variance_adu2 * noise.gain
                                                         : 1.0f / variance_adu2;
}

}  // namespace driftd::fitter
