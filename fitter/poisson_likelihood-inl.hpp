// SPDX-License-Identifier: MIT
// The deviance of Poisson counts, 2 sum [m - q - q ln(m / q)] for counts q and their expectation m:
// Laurence & Chromy 2010, Przybylski et al. 2017, equation 8; with read noise of variance v as
// q + v and m + v: Huang et al. 2013. The weight is its expectation, 1 / m (Fisher's information),
// so that the normal matrix at the minimum is the inverse of the Cramer-Rao bound. See
// pixel_terms.hpp.
//
// The four terms of one pixel nearly cancel, which in single precision leaves too few digits to
// tell where the minimum is. With t = (m - q) / (m + q) they are
//   2 (m + q) [t - (1 - t) artanh t],    artanh t = t + t^3 (1/3 + t^2/5 + t^4/7 + ...),
// where nothing cancels as long as t is small; where it is not, the logarithm will do.
class PoissonLikelihood {
 public:
  DRIFTD_HD explicit PoissonLikelihood(const PixelNoise& noise)
      : shift_(noise.shift), floor_(noise.floor) {}

  template <class Math, class Real>
  DRIFTD_HD PixelTerm<Real> of(Real pixel, Real model, Real own_shift) const {
    constexpr float kSeriesUpTo = 0.0625f;  // of t^2: the terms left out are below 1e-7 of the rest
    const Real shift = Math::set(shift_) + own_shift;
    const Real q = Math::largest(pixel + shift, Math::set(0.0f));
    const Real m = Math::largest(model + shift, Math::set(floor_));
    const Real weight = Math::set(1.0f) / m;
    const Real total = m + q;
    const Real rise = m - q;
    const Real t = rise / total;
    const Real tt = t * t;
    const Real series =
        (((Math::set(1.0f / 11) * tt + Math::set(1.0f / 9)) * tt + Math::set(1.0f / 7)) * tt +
         Math::set(1.0f / 5)) *
            tt +
        Math::set(1.0f / 3);
    const Real near = total * tt * (Math::set(1.0f) - (Math::set(1.0f) - t) * t * series);
    const Real tiny = Math::set(1e-30f);  // q = 0 contributes no logarithm
    const Real far = rise + q * Math::log(Math::largest(q, tiny) * weight);
    const Real half = Math::where_below(tt, Math::set(kSeriesUpTo), near, far);
    return {half + half, weight, (q - m) * weight};
  }

 private:
  float shift_, floor_;
};
