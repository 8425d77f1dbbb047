// SPDX-License-Identifier: MIT
// The search over all parameters, amplitude and background included, for every estimator that
// weighs its pixels (pixel_terms.hpp), with parameters held fixed and bounded. Przybylski et al.
// 2017, equations 1 to 8. The counterpart of implicit_least_squares.hpp. Host and device.
//
// A fixed parameter is one whose bounds are both its start value. A parameter at a bound towards
// which the minimum lies further is held for the step: its row of the equations says "0" (projected
// Newton).
#pragma once

#include <cstdint>
#include <limits>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/small_matrix.hpp"
#include "fitter/spot_model.hpp"

namespace driftd::fitter {

template <SpotModel M, class R = float>
struct FullSearch {
  using Model = M;
  using Real = R;
  static constexpr bool kSearchesLevels = true;
  static constexpr int kShape = Model::kShape;
  static constexpr int kAlpha = kShape, kBeta = kShape + 1;
  static constexpr int kSearched = kShape + 2;
  using Parameters = Vec<kSearched, Real>;  ///< the shape's, alpha, beta
  using Shape = Vec<kShape, Real>;

  struct Domain {
    int side;
    Real pedestal_adu;
    PixelNoiseOf<Real> noise;
    Parameters lower, upper;
    std::uint8_t fixed;  ///< bit j: parameter j

    /// False: no parameters are within all limits.
    DRIFTD_HD Mask<Real> valid() const {
      Mask<Real> is = Mask<Real>(true);
      for (int j = 0; j < kSearched; ++j) is = is && lower[j] <= upper[j];
      return is;
    }
    DRIFTD_HD Parameters limited(const Parameters& p) const {
      Parameters r;
      for (int j = 0; j < kSearched; ++j) r[j] = clamped(p[j], lower[j], upper[j]);
      return r;
    }
  };

  /// Between the two halves of an evaluation.
  struct Prepared {
    LevelsOf<Real> level;
    SymmetricMatrix<kSearched, Real> normal;  ///< only where no pixel has a weight of its own
  };

  using Evaluation = EvaluationOf<kSearched, Real>;

  DRIFTD_HD static Domain domain(const PixelSummaryOf<Real>& summary, const FitInputOf<Real>& input,
                                 int side, const FitOptions& options) {
    Domain d;
    d.side = side;
    d.pedestal_adu = summary.pedestal_adu;
    d.noise = noise_of(summary, input, options);
    const Vec<kShape> lowest = Model::lowest(side), highest = Model::highest(side);
    for (int j = 0; j < kShape; ++j) {
      d.lower[j] = lowest[j];
      d.upper[j] = highest[j];
    }
    const bool likelihood = is_likelihood(options.estimator);
    d.lower[kAlpha] = likelihood ? 0.0f : -kHuge;
    d.lower[kBeta] = options.min_background_adu - d.pedestal_adu;
    if (likelihood) d.lower[kBeta] = larger(d.lower[kBeta], d.noise.floor - d.noise.shift);
    d.upper[kAlpha] = d.upper[kBeta] = kHuge;
    narrow(d, options.bounds);
    if (input.bounds != nullptr) narrow(d, *input.bounds);
    d.fixed = 0;
    if (options.fixed != 0) fix(d, input, options.fixed);
    return d;
  }

  /// The parameters of a step from `from` to `to`, as far as the limits let it go. Without
  /// amplitude nothing depends on the place any more: a likelihood, whose amplitude is not
  /// negative, keeps a share of it in each step.
  DRIFTD_HD static Parameters reachable(const Domain& d, const Parameters& from, Parameters to) {
    if (likelihood(d)) to[kAlpha] = larger(to[kAlpha], kKeptAmplitude * from[kAlpha]);
    return d.limited(to);
  }

  /// Levels that are not given are NaN until prepare().
  DRIFTD_HD static Parameters from_start(const FitInputOf<Real>& input, const Domain& d) {
    const Shape shape = Model::from_start(input.start);
    Parameters p;
    for (int j = 0; j < kShape; ++j) p[j] = shape[j];
    p[kAlpha] = input.levels.amplitude_adu;
    p[kBeta] = input.levels.background_adu - d.pedestal_adu;
    return p;
  }

  DRIFTD_HD static Shape shape(const Parameters& p) {
    Shape s;
    for (int j = 0; j < kShape; ++j) s[j] = p[j];
    return s;
  }

  DRIFTD_HD static ProfileOf<Real> profile(const Parameters& p) { return Model::profile(shape(p)); }

  /// Both levels count in units of the amplitude.
  DRIFTD_HD static Parameters step_scale(const Parameters& p) {
    const Shape of_shape = Model::step_scale(shape(p));
    Parameters scale;
    for (int j = 0; j < kShape; ++j) scale[j] = of_shape[j];
    scale[kAlpha] = scale[kBeta] = abs_of(p[kAlpha]);
    return scale;
  }

  /// Sets levels that are missing in `p`, or dark.
  DRIFTD_HD static Prepared prepare(const ProfileMomentsOf<Real>& m,
                                    const PixelSummaryOf<Real>& summary, const Domain& d,
                                    Parameters& p) {
    Mask<Real> missing = is_nan(p[kAlpha]) || is_nan(p[kBeta]);
    if (likelihood(d))  // dark: see reachable()
      missing = missing || (!(p[kAlpha] > 0.0f) && d.upper[kAlpha] > 0.0f);
    if (any(missing)) {
      using Implicit = ImplicitLeastSquares<Model, Real>;
      const LevelsOf<Real> best =
          Implicit::prepare(m, summary, {d.side, d.lower[kBeta]}, shape(p)).level;
      Parameters with = p;
      with[kAlpha] = best.alpha;
      if (likelihood(d)) with[kAlpha] = larger(least_amplitude(summary, d.side), best.alpha);
      with[kBeta] = best.beta;
      p = where(missing, d.limited(with), p);
    }
    Prepared e;
    e.level = {p[kAlpha], p[kBeta]};
    if (unweighted(d)) {
      const Shape s = shape(p);
      e.normal = full_matrix<kShape>(Model::products(m.second(), s), Model::totals(m.first(), s),
                                     Real(static_cast<float>(d.side * d.side)), e.level.alpha);
    }
    return e;
  }

  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static Evaluation linearize(BackEnd& pixels, const Domain& d, const Parameters& p,
                                        const Prepared& at) {
    Evaluation e;
    e.level = at.level;
    if (unweighted(d)) {
      ResidualTotalsOf<Real> total;
      const ResidualMomentsOf<Real> r = pixels.residuals(e.level.alpha, e.level.beta, total);
      e.normal = at.normal;
      set_gradient(r, total, p, e);
    } else {
      weigh(pixels, d, p, e);
    }
    e.held = hold_at_limits(p, d.lower, d.upper, e.gradient);
    return e;
  }

  /// What unweighted least squares would find at the minimum, of the pixels that a map does not
  /// call gone.
  /// @post the profile set last is that of `p`. Set anew even where it is: to keep its moments
  /// during the search takes more than it gives where registers are short.
  template <WeightedSumsOverPixels BackEnd>
  DRIFTD_HD static PlainSums<kShape, Real> plain_sums(BackEnd& pixels, const Domain& d,
                                                      const Parameters& p, const Evaluation& e,
                                                      const Mask<Real>&) {
    const Shape s = shape(p);
    const ProfileMomentsOf<Real> m = pixels.set_profile(Model::profile(s));
    if (d.noise.mapped) {
      const WeightedSums<Real> there = pixels.plain_moments(d.noise, e.level.alpha, e.level.beta);
      return {products(there, s), totals(there, s), there.value, there.w, d.fixed};
    }
    return {Model::products(m.second(), s), Model::totals(m.first(), s),
            pixels.residuals(e.level.alpha, e.level.beta).squares,
            Real(static_cast<float>(d.side * d.side)), d.fixed};
  }

 private:
  static constexpr float kHuge = std::numeric_limits<float>::infinity();

  static constexpr float kKeptAmplitude = 0.1f;

  /// Of a spot that makes such pixels: numbers that span A have a standard deviation of A / 2 at
  /// most.
  DRIFTD_HD static Real least_amplitude(const PixelSummaryOf<Real>& summary, int side) {
    const float count = static_cast<float>(side * side);
    const Real mean = summary.sum / count;
    return 2.0f * sqrt_of(summary.sum_squares / count - mean * mean);
  }

  DRIFTD_HD static bool likelihood(const Domain& d) { return is_likelihood(d.noise.estimator); }

  /// All weights are 1: the normal matrix is then made of the profile's moments, without pixels.
  DRIFTD_HD static bool unweighted(const Domain& d) {
    return d.noise.estimator == Estimator::LeastSquares;
  }

  /// @param r  of the weighted residuals, r.squares what is minimized
  DRIFTD_HD static void set_gradient(const ResidualMomentsOf<Real>& r,
                                     const ResidualTotalsOf<Real>& total, const Parameters& p,
                                     Evaluation& e) {
    e.chi_square = r.squares;
    const Shape rho = Model::residual_products(r, shape(p));
    for (int j = 0; j < kShape; ++j) e.gradient[j] = e.level.alpha * rho[j];
    e.gradient[kAlpha] = total.f;
    e.gradient[kBeta] = total.sum;
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
    set_gradient({m.value, m.ef[1][0], m.ef[0][1], m.ef[2][0], m.ef[0][2]}, {m.e, m.ef[0][0]}, p,
                 e);
    e.chi_square *= gain;
    e.normal = full_matrix<kShape>(products(m, s), totals(m, s), m.w, e.level.alpha);
    for (int j = 0; j < kSearched; ++j) {
      e.gradient[j] *= gain;
      for (int k = 0; k <= j; ++k) e.normal(j, k) *= gain;
    }
  }

  DRIFTD_HD static PixelNoiseOf<Real> noise_of(const PixelSummaryOf<Real>& summary,
                                               const FitInputOf<Real>& input,
                                               const FitOptions& options) {
    // A photon where none is expected has no likelihood; and nearer to 0 the curvature expected of
    // the background is so far from the true one that the search creeps (at 1e-3, 1 in 200 dim
    // spots on no background took more than 20 iterations).
    constexpr float kFloorElectrons = 1e-2f;
    const bool mapped = input.variances != nullptr && knows_its_variances(options.estimator);
    PixelNoiseOf<Real> noise = {options.estimator, mapped, gain_of(options), 0.0f, 0};
    if (!is_likelihood(options.estimator)) return noise;
    const NoiseModel& given = options.noise;
    const float read_e2 = noise.mapped ? 0.0f : given.read_noise_e * given.read_noise_e;
    noise.shift = summary.pedestal_adu - given.offset_adu + read_e2 / noise.gain;
    noise.floor = kFloorElectrons / noise.gain;
    return noise;
  }

  /// Which of Bounds' limits is that of parameter j.
  DRIFTD_HD static int place(int j) {
    if (j < kShape) return j;
    return j == kAlpha ? static_cast<int>(Parameter::Amplitude)
                       : static_cast<int>(Parameter::Background);
  }

  template <class OfFits>
  DRIFTD_HD static void narrow(Domain& d, const BoundsOf<OfFits>& bounds) {
    for (int j = 0; j < kSearched; ++j) {
      const Real zero = j == kBeta ? d.pedestal_adu : Real(0.0f);
      d.lower[j] = larger(d.lower[j], bounds.lower[place(j)] - zero);
      d.upper[j] = smaller(d.upper[j], bounds.upper[place(j)] - zero);
    }
  }

  /// A start value that is not finite leaves no parameters within the limits.
  DRIFTD_HD static void fix(Domain& d, const FitInputOf<Real>& input, unsigned fixed) {
    const Parameters start = from_start(input, d);
    for (int j = 0; j < kSearched; ++j) {
      if ((fixed >> place(j) & 1u) == 0) continue;
      d.fixed = static_cast<std::uint8_t>(d.fixed | 1u << j);
      Mask<Real> given = is_finite(start[j]);
      if (j < kShape) given = given && input.start.sigma_x_px > 0.0f;
      d.lower[j] = where(given, start[j], Real(kHuge));
      d.upper[j] = where(given, start[j], Real(-kHuge));
    }
  }
};

}  // namespace driftd::fitter
