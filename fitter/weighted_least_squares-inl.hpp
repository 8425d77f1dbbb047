// SPDX-License-Identifier: MIT
// Squared residuals weighted by the inverse of the pixel's variance (Przybylski et al. 2017,
// equation 7). See pixel_terms.hpp.
struct WeightedLeastSquares {
  DRIFTD_HD explicit WeightedLeastSquares(const PixelNoise&) {}

  template <class Math, class Real>
  DRIFTD_HD PixelTerm<Real> of(Real pixel, Real model, Real weight) const {
    const Real r = pixel - model;
    const Real weighted = weight * r;
    return {weighted * r, weight, weighted};
  }
};
