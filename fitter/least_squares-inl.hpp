// SPDX-License-Identifier: MIT
// Squared residuals, each pixel alike or weighted by the inverse of its variance (Przybylski et al.
// 2017, equation 7). See pixel_terms.hpp.
struct LeastSquares {
  DRIFTD_HD explicit LeastSquares(const PixelNoise&) {}

  template <class Math, class Real>
  DRIFTD_HD PixelTerm<Real> of(Real pixel, Real model, Real) const {
    const Real r = pixel - model;
    return {r * r, Math::set(1.0f), r};
  }
};

struct WeightedLeastSquares {
  DRIFTD_HD explicit WeightedLeastSquares(const PixelNoise&) {}

  template <class Math, class Real>
  DRIFTD_HD PixelTerm<Real> of(Real pixel, Real model, Real weight) const {
    const Real r = pixel - model;
    const Real weighted = weight * r;
    return {weighted * r, weight, weighted};
  }
};
