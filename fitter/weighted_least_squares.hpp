// SPDX-License-Identifier: MIT
// Squared residuals weighted by the inverse of the pixel's variance (Przybylski et al. 2017,
// equation 7). See pixel_terms.hpp.
#pragma once

#include "fitter/pixel_terms.hpp"
#include "fitter/real.hpp"

namespace driftd::fitter {

template <class Real>
struct WeightedLeastSquares {
  static constexpr bool kNeedsMap = true;

  template <class OfRoi>
  DRIFTD_HD explicit WeightedLeastSquares(const PixelNoiseOf<OfRoi>&) {}

  DRIFTD_HD PixelTerm<Real> of(const Real& pixel, const Real& model, const Real& weight) const {
    const Real r = pixel - model;
    const Real weighted = weight * r;
    return {weighted * r, weight, weighted};
  }
};

/// Squared residuals of the pixels that the map does not call gone, all with the same weight.
template <class Real>
class PlainSquares {
 public:
  template <class OfRoi>
  DRIFTD_HD explicit PlainSquares(const PixelNoiseOf<OfRoi>& noise) : of_map_(noise.estimator) {}

  DRIFTD_HD PixelTerm<Real> of(const Real& pixel, const Real& model, const Real& map) const {
    const Real zero = 0.0f;
    const Mask<Real> there = is_there(of_map_, map);
    const Real r = where(there, pixel - model, zero);
    return {r * r, where(there, Real(1.0f), zero), r};
  }

 private:
  Estimator of_map_;
};

}  // namespace driftd::fitter
