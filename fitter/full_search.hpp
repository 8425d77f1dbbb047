// SPDX-License-Identifier: MIT
// The search over all parameters, amplitude and background included, for every estimator that
// weighs its pixels (pixel_terms.hpp), with parameters held fixed and bounded. Przybylski et al.
// 2017, equations 1 to 8. The counterpart of implicit_least_squares.hpp. Host and device.
#pragma once

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/searched_levels.hpp"
#include "fitter/small_matrix.hpp"
#include "fitter/spot_model.hpp"

namespace driftd::fitter {

template <SpotModel M, class R = float>
struct FullSearch : SearchedLevels<M, R> {
  using Base = SearchedLevels<M, R>;
  using Model = M;
  using Real = R;
  using Base::kAlpha, Base::kBeta, Base::kSearched, Base::kShape;
  using Base::shape;
  using typename Base::Domain;
  using typename Base::Parameters;
  using typename Base::Shape;

  using Evaluation = EvaluationOf<kSearched, Real>;
  /// What an evaluation has without pixels: the levels. Where no pixel has a weight of its own that
  /// is all of it, with chi-square as unexplained_squares().
  using Prepared = Evaluation;

  DRIFTD_HD static ProfileOf<Real> profile(const Parameters& p) { return Model::profile(shape(p)); }

  /// Values of a likelihood do not tell their order here: an evaluation has only something of their
  /// size (pixel_terms.hpp).
  DRIFTD_HD static Real least_told(const Domain& d, const Evaluation& from, const Evaluation& to) {
    if (likelihood(d)) return Base::kHuge;
    if (!unweighted(d)) return 0.0f;
    return fitter::least_told(d.sum_squares, d.side, from.level.beta, to.level.beta);
  }

  /// Where the search ended.
  template <class Minimum, class Matrix>
  DRIFTD_HD static LevelsOf<Real> levels(const Domain&, const Minimum& minimum, const Matrix&) {
    const Parameters found = minimum.found();
    return {found[kAlpha], found[kBeta]};
  }

  /// Whether prepare() reads the profile's moments.
  DRIFTD_HD static bool wants_moments(const Domain& d, const Parameters& p) {
    return unweighted(d) || any(lacks_levels(d, p));
  }

  /// Sets levels that are missing in `p`, or dark.
  DRIFTD_HD static Prepared prepare(const ProfileMomentsOf<Real>& m,
                                    const PixelSummaryOf<Real>& summary, const Domain& d,
                                    Parameters& p) {
    const Mask<Real> missing = lacks_levels(d, p);
    if (any(missing)) {
      using Implicit = ImplicitLeastSquares<Model, Real>;
      const LevelsOf<Real> best =
          Implicit::prepare(m, summary, {d.side, d.lower[kBeta], {}}, shape(p)).level;
      Parameters with = p;
      with[kAlpha] = best.alpha;
      if (likelihood(d)) with[kAlpha] = larger(least_amplitude(summary, d.side), best.alpha);
      with[kBeta] = best.beta;
      p = where(missing, d.limited(with), p);
    }
    Evaluation e;
    e.level = {p[kAlpha], p[kBeta]};
    if (unweighted(d)) {
      const Shape s = shape(p);
      const float count = static_cast<float>(d.side * d.side);
      const ProfileTotals<kShape, Real> total = Model::totals(m.first(), s);
      e.normal =
          full_matrix<kShape>(Model::products(m.second(), s), total, Real(count), e.level.alpha);
      e.gradient = gradient(m.residuals(e.level.alpha, e.level.beta),
                            summary.sum - e.level.alpha * total.f - count * e.level.beta, p);
      e.chi_square = unexplained_squares(m, summary, count, e.level.alpha, e.level.beta);
    }
    return e;
  }

  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static Evaluation linearize(BackEnd& pixels, const Domain& d, const Parameters& p,
                                        Evaluation e) {
    if (unweighted(d))
      e.chi_square = squares_of_residuals(pixels, e.chi_square, e.level.alpha, e.level.beta);
    else
      weigh(pixels, d, p, e);
    e.held = hold_at_limits(p, d.lower, d.upper, e.gradient);
    return e;
  }

  /// What is minimized, at an evaluation whose profile is the one set last.
  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static Real value(BackEnd& pixels, const Domain& d, const Evaluation& e) {
    if (!likelihood(d)) return e.chi_square;
    return d.noise.gain * pixels.values(d.noise, e.level.alpha, e.level.beta);
  }

  /// What unweighted least squares would find at the minimum, from the pixels that a map does not
  /// call gone.
  /// @post the profile set last is that of `p`. It is set anew even where it is already: to keep
  /// its moments during the search takes more than it gives where registers are short.
  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static PlainSums<kShape, Real> plain_sums(BackEnd& pixels, const Domain& d,
                                                      const Parameters& p, const Evaluation& e,
                                                      const Mask<Real>&) {
    const Shape s = shape(p);
    const ProfileMomentsOf<Real>& m = pixels.set_profile(Model::profile(s), true);
    if constexpr (BackEnd::kTakesMaps) {
      if (d.noise.mapped) {
        const WeightedSums<Real> there = pixels.plain_moments(d.noise, e.level.alpha, e.level.beta);
        return {products(there, s), totals(there, s), there.value, there.w, d.fixed};
      }
    }
    return {Model::products(m.second(), s), Model::totals(m.first(), s),
            pixels.squares(e.level.alpha, e.level.beta), Real(static_cast<float>(d.side * d.side)),
            d.fixed};
  }

 private:
  using Base::least_amplitude, Base::likelihood, Base::unweighted;

  DRIFTD_HD static Mask<Real> lacks_levels(const Domain& d, const Parameters& p) {
    Mask<Real> missing = is_nan(p[kAlpha]) || is_nan(p[kBeta]);
    if (likelihood(d))  // dark: see reachable()
      missing = missing || (!(p[kAlpha] > 0.0f) && d.upper[kAlpha] > 0.0f);
    return missing;
  }

  /// @param r    of the residuals, weighted where they have weights
  /// @param sum  of the same
  DRIFTD_HD static Parameters gradient(const ResidualMomentsOf<Real>& r, const Real& sum,
                                       const Parameters& p) {
    Parameters g;
    const Shape rho = Model::residual_products(r, shape(p));
    for (int j = 0; j < kShape; ++j) g[j] = p[kAlpha] * rho[j];
    g[kAlpha] = r.f;
    g[kBeta] = sum;
    return g;
  }

  DRIFTD_HD static ProfileProducts<kShape, Real> products(const WeightedSums<Real>& m,
                                                          const Shape& s) {
    return Model::products([&](int a, int b) { return m.second[a][b]; }, s);
  }
  DRIFTD_HD static ProfileTotals<kShape, Real> totals(const WeightedSums<Real>& m, const Shape& s) {
    return Model::totals([&](int a, int b) { return m.wf[a][b]; }, s);
  }

  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static void weigh(BackEnd& pixels, const Domain& d, const Parameters& p,
                              Evaluation& e) {
    const WeightedSums<Real> m = pixels.weighted_moments(d.noise, e.level.alpha, e.level.beta);
    const Shape s = shape(p);
    const float gain = d.noise.gain;
    e.gradient = gradient({m.ef[0][0], m.ef[1][0], m.ef[0][1], m.ef[2][0], m.ef[0][2]}, m.e, p);
    e.chi_square = gain * m.value;
    e.normal = full_matrix<kShape>(products(m, s), totals(m, s), m.w, e.level.alpha);
    for (int j = 0; j < kSearched; ++j) {
      e.gradient[j] *= gain;
      for (int k = 0; k <= j; ++k) e.normal(j, k) *= gain;
    }
  }
};

}  // namespace driftd::fitter
