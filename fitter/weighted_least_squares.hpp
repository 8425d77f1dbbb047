// SPDX-License-Identifier: MIT
// Squared residuals weighted by the inverse of the pixel's variance (Przybylski et al. 2017,
// equation 7). See pixel_terms.hpp.
#pragma once

#include "fitter/pixel_terms.hpp"
#include "fitter/real.hpp"

namespace driftd::fitter {

template <class Real>
struct WeightedLeastSquares {
  template <class OfRoi>
  DRIFTD_HD explicit WeightedLeastSquares(const PixelNoiseOf<OfRoi>&) {}

  DRIFTD_HD PixelTerm<Real> of(const Real& pixel, const Real& model, const Real& weight) const {
    const Real r = pixel - model;
    const Real weighted = weight * r;
    return {weighted * r, weight, weighted};
  }
};

}  // namespace driftd::fitter
