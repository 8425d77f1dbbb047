// SPDX-License-Identifier: MIT
// The deviance of Poisson counts, 2 sum [m - q - q ln(m / q)] for counts q and their expectation m:
// Laurence & Chromy 2010, Przybylski et al. 2017, equation 8; with read noise of variance v as
// q + v and m + v: Huang et al. 2013. The weight is its expectation, 1 / m (Fisher's information),
// so that the normal matrix at the minimum is the inverse of the Cramer-Rao bound. See
// pixel_terms.hpp.
//
// The terms of one pixel nearly cancel, which in single precision leaves too few digits to tell
// where the minimum is. With x = (q - m) / m and ln(1 + x) = x + x^2 R(x) half of a pixel's share
// is
//   m - q + q ln(1 + x) = m x^2 [1 + (1 + x) R(x)],
// where nothing cancels, as long as q / m is near 1; elsewhere the logarithm will do, by the same
// R.
#pragma once

#include "fitter/pixel_terms.hpp"
#include "fitter/real.hpp"

namespace driftd::fitter {

template <class Real>
class PoissonLikelihood {
 public:
  static constexpr bool kNeedsMap = false;

  template <class OfRoi>
  DRIFTD_HD explicit PoissonLikelihood(const PixelNoiseOf<OfRoi>& noise)
      : shift_(noise.shift), floor_(noise.floor) {}

  DRIFTD_HD PixelTerm<Real> of(const Real& pixel, const Real& model, const Real& own_shift) const {
    constexpr float kLn2 = 0.693147181f;
    const Real shift = shift_ + own_shift;
    const Real q = larger(pixel + shift, Real(0.0f));
    const Real m = larger(model + shift, floor_);
    const Real weight = reciprocal_of(m);
    const Real rise = m - q;
    const Real x = -rise * weight;
    // q = 0 contributes no logarithm: the parts of 0 are finite.
    const BinaryParts<Real> ratio = binary_parts(q * weight);
    const Mask<Real> near = abs_of(ratio.exponent) < 0.5f;
    const Real y = ratio.rest;  // x, but for rounding, where near
    // R on [sqrt(1/2) - 1, sqrt(2) - 1], with the least relative error of the bracket: 3e-7.
    Real r = 0.0858871848f;
    for (const float c : {-0.140645846f, 0.14858517f, -0.166013818f, 0.199713291f, -0.250007083f,
                          0.333336751f, -0.499999993f})
      r = r * y + c;
    const Real half = where(near, m * (x * x) * ((1.0f + x) * r + 1.0f),
                            rise + q * (ratio.exponent * kLn2 + (y + y * y * r)));
    return {half + half, weight, x};
  }

 private:
  Real shift_, floor_;
};

}  // namespace driftd::fitter
