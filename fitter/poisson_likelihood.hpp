// SPDX-License-Identifier: MIT
// The deviance of Poisson counts, 2 sum [m - q - q ln(m / q)] for counts q and their expectation m:
// Laurence & Chromy 2010, Przybylski et al. 2017, equation 8. Read noise of variance v makes them q
// + v and m + v: Huang et al. 2013. The weight is its expectation, 1 / m (Fisher's information), so
// that the normal matrix at the minimum is the inverse of the Cramer-Rao bound. See
// pixel_terms.hpp.
//
// The terms of one pixel nearly cancel, which in single precision leaves too few digits to tell
// where the minimum is. With x = (q - m) / m and ln(1 + x) = x + x^2 R(x), half of a pixel's share
// is
//   m - q + q ln(1 + x) = m x^2 [1 + (1 + x) R(x)],
// where nothing cancels, as long as q / m is near 1. Elsewhere the logarithm will do, by the same
// R.
#pragma once

#include <type_traits>

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

  /// The value is Pearson's chi-square, excess^2 / m, in which a photon where hardly any is
  /// expected counts about as in the deviance.
  DRIFTD_HD PixelTerm<Real> of(const Real& pixel, const Real& model, const Real& own_shift) const {
    constexpr float kMostCounted = 4;
    const Counts here = counts(pixel, model, own_shift);
    return {here.excess * at_most(here.x, Real(kMostCounted)), here.weight, here.x};
  }

  DRIFTD_HD Real value(const Real& pixel, const Real& model, const Real& own_shift) const {
    constexpr float kLn2 = 0.693147181f;
    constexpr float kNear = 0.29f;  // within which R holds
    constexpr float kLeastRatio = 1e-30f;
    const Counts here = counts(pixel, model, own_shift);
    const Real& x = here.x;
    // R on [sqrt(1/2) - 1, sqrt(2) - 1], with the least relative error of the bracket: 3e-7.
    const auto bracket_part = [](const Real& y) {
      Real r = 0.0858871848f;
      for (const float c : {-0.140645846f, 0.14858517f, -0.166013818f, 0.199713291f, -0.250007083f,
                            0.333336751f, -0.499999993f})
        r = r * y + c;
      return r;
    };
    // q = 0 contributes no logarithm: what is taken for that of 0 is a number.
    const Real ratio = 1.0f + x;
    Mask<Real> near;
    Real r, log_ratio;
    // A GPU has a logarithm of its own.
    if constexpr (std::is_same_v<Real, float>) {
      near = abs_of(x) < kNear;
      r = bracket_part(x);
      log_ratio = kLn2 * log2_of(at_least(ratio, kLeastRatio));
    } else {
      const BinaryParts<Real> parts = binary_parts(here.q * here.weight);
      const Real& y = parts.rest;  // x, but for rounding, where near
      near = abs_of(parts.exponent) < 0.5f;
      r = bracket_part(y);
      log_ratio = parts.exponent * kLn2 + (y + y * y * r);
    }
    const Real half =
        where(near, here.excess * x * (ratio * r + 1.0f), here.q * log_ratio - here.excess);
    return half + half;
  }

 private:
  struct Counts {
    Real q, weight, excess, x;
  };
  DRIFTD_HD Counts counts(const Real& pixel, const Real& model, const Real& own_shift) const {
    const Real shift = shift_ + own_shift;
    const Real q = at_least(pixel + shift, Real(0.0f));
    const Real m = at_least(model + shift, floor_);
    const Real weight = reciprocal_of(m);
    const Real excess = q - m;
    return {q, weight, excess, excess * weight};
  }

  Real shift_, floor_;
};

}  // namespace driftd::fitter
