// SPDX-License-Identifier: MIT
// The search over all parameters, amplitude and background included, for every estimator that
// weighs its pixels (pixel_terms.hpp), with parameters held fixed and bounded. Przybylski et al.
// 2017, equations 1 to 8. The counterpart of implicit_least_squares.hpp. Host and device.
//
// A fixed parameter is one whose bounds are both its start value. A parameter at a bound towards
// which the minimum lies further is held for the step: its row of the equations says "0" (projected
// Newton).
#pragma once

#include <cmath>
#include <cstdint>

#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

template <class M>
struct FullSearch {
  using Model = M;
  static constexpr bool kWeighs = true;  ///< needs weighted_moments(), and a map where there is one
  static constexpr int kShape = Model::kShape;
  static constexpr int kAlpha = kShape, kBeta = kShape + 1;
  static constexpr int kSearched = kShape + 2;
  using Parameters = Vec<kSearched>;  ///< the shape's, alpha, beta

  struct Domain {
    int side;
    float pedestal_adu;
    PixelNoise noise;
    Parameters lower, upper;
    std::uint8_t fixed;  ///< bit j: parameter j

    /// False: no parameters are within all limits.
    DRIFTD_HD bool valid() const {
      bool is = true;
      for (int j = 0; j < kSearched; ++j) is = is && lower[j] <= upper[j];
      return is;
    }
    DRIFTD_HD Parameters limited(const Parameters& p) const {
      Parameters r;
      for (int j = 0; j < kSearched; ++j) r[j] = clamped(p[j], lower[j], upper[j]);
      return r;
    }
  };

  struct Evaluation {
    Levels level;
    float chi_square;
    SymmetricMatrix<kSearched> normal;
    Vec<kSearched> gradient;  ///< 0 for what is held
    std::uint8_t held;        ///< bit j: parameter j is fixed, or kept at a bound
  };

  /// The equations of the next step.
  DRIFTD_HD static SymmetricMatrix<kSearched> step_matrix(const Evaluation& e) {
    SymmetricMatrix<kSearched> a = e.normal;
    hold(a, e.held);
    return a;
  }

  DRIFTD_HD static Domain domain(const PixelSummary& summary, const FitInput& input, int side,
                                 const FitOptions& options) {
    Domain d;
    d.side = side;
    d.pedestal_adu = summary.pedestal_adu;
    d.noise = noise_of(summary, input, options);
    const typename Model::Parameters lowest = Model::limited(filled(-kHuge), side);
    const typename Model::Parameters highest = Model::limited(filled(kHuge), side);
    for (int j = 0; j < kShape; ++j) {
      d.lower[j] = lowest[j];
      d.upper[j] = highest[j];
    }
    const bool likelihood = options.estimator == Estimator::PoissonLikelihood;
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
  DRIFTD_HD static Parameters from_start(const FitInput& input, const Domain& d) {
    const typename Model::Parameters shape = Model::from_start(input.start);
    Parameters p;
    for (int j = 0; j < kShape; ++j) p[j] = shape[j];
    p[kAlpha] = input.levels.amplitude_adu;
    p[kBeta] = input.levels.background_adu - d.pedestal_adu;
    return p;
  }

  DRIFTD_HD static typename Model::Parameters shape(const Parameters& p) {
    typename Model::Parameters s;
    for (int j = 0; j < kShape; ++j) s[j] = p[j];
    return s;
  }

  DRIFTD_HD static Profile profile(const Parameters& p) { return Model::profile(shape(p)); }

  /// Both levels count in units of the amplitude.
  DRIFTD_HD static Parameters step_scale(const Parameters& p) {
    const typename Model::Parameters of_shape = Model::step_scale(shape(p));
    Parameters scale;
    for (int j = 0; j < kShape; ++j) scale[j] = of_shape[j];
    scale[kAlpha] = scale[kBeta] = std::fabs(p[kAlpha]);
    return scale;
  }

  DRIFTD_HD static void prepare(const ProfileMoments& m, const PixelSummary& summary,
                                const Domain& d, Parameters& p, Evaluation& e) {
    const bool dark = likelihood(d) && !(p[kAlpha] > 0) && d.upper[kAlpha] > 0;  // see reachable()
    if (dark || std::isnan(p[kAlpha]) || std::isnan(p[kBeta])) {
      typename ImplicitLeastSquares<Model>::Evaluation linear;
      ImplicitLeastSquares<Model>::prepare(m, summary, {d.side, d.lower[kBeta]}, shape(p), linear);
      p[kAlpha] = linear.level.alpha;
      if (likelihood(d)) p[kAlpha] = larger(least_amplitude(summary, d.side), p[kAlpha]);
      p[kBeta] = linear.level.beta;
      p = d.limited(p);
    }
    e.level = {p[kAlpha], p[kBeta]};
    if (!unweighted(d)) return;
    const typename Model::Parameters s = shape(p);
    e.normal = full_matrix<kShape>(Model::products(SeparableMoments{m.x.second, m.y.second}, s),
                                   Model::totals(SeparableMoments{m.x.first, m.y.first}, s),
                                   static_cast<float>(d.side * d.side), e.level.alpha);
  }

  template <class BackEnd>
  DRIFTD_HD static void linearize(BackEnd& pixels, const Domain& d, const Parameters& p,
                                  Evaluation& e) {
    if (unweighted(d)) {
      ResidualTotals total;
      const ResidualMoments r = pixels.residuals(e.level.alpha, e.level.beta, total);
      set_gradient(r, total, p, e);
    } else {
      weigh(pixels, d, p, e);
    }
    e.held = 0;
    for (int j = 0; j < kSearched; ++j) {
      const bool held = !(d.lower[j] < d.upper[j]) || (p[j] <= d.lower[j] && e.gradient[j] < 0) ||
                        (p[j] >= d.upper[j] && e.gradient[j] > 0);
      if (!held) continue;
      e.held = static_cast<std::uint8_t>(e.held | 1u << j);
      e.gradient[j] = 0;
    }
  }

  /// What unweighted least squares would find at the minimum.
  /// @post the profile set last is the minimum's
  template <class BackEnd>
  DRIFTD_HD static PlainSums<kShape> plain_sums(BackEnd& pixels, const Domain& d,
                                                const Parameters& p, const Evaluation& e) {
    const typename Model::Parameters s = shape(p);
    const ProfileMoments m = pixels.set_profile(Model::profile(s));
    return {Model::products(SeparableMoments{m.x.second, m.y.second}, s),
            Model::totals(SeparableMoments{m.x.first, m.y.first}, s),
            pixels.residuals(e.level.alpha, e.level.beta).squares, d.fixed};
  }

 private:
  static constexpr float kHuge = std::numeric_limits<float>::infinity();

  static constexpr float kKeptAmplitude = 0.1f;

  /// Of a spot that makes such pixels: numbers that span A have a standard deviation of A / 2 at
  /// most.
  DRIFTD_HD static float least_amplitude(const PixelSummary& summary, int side) {
    const float count = static_cast<float>(side * side);
    const float mean = summary.sum / count;
    return 2.0f * std::sqrt(summary.sum_squares / count - mean * mean);
  }

  DRIFTD_HD static bool likelihood(const Domain& d) {
    return d.noise.estimator == Estimator::PoissonLikelihood;
  }

  /// All weights are 1: the normal matrix is then made of the profile's moments, without pixels.
  DRIFTD_HD static bool unweighted(const Domain& d) {
    return d.noise.estimator == Estimator::LeastSquares;
  }

  /// @param r  of the weighted residuals, r.squares what is minimized
  DRIFTD_HD static void set_gradient(const ResidualMoments& r, const ResidualTotals& total,
                                     const Parameters& p, Evaluation& e) {
    e.chi_square = r.squares;
    const Vec<kShape> rho = Model::residual_products(r, shape(p));
    for (int j = 0; j < kShape; ++j) e.gradient[j] = e.level.alpha * rho[j];
    e.gradient[kAlpha] = total.f;
    e.gradient[kBeta] = total.sum;
  }

  template <class BackEnd>
  DRIFTD_HD static void weigh(BackEnd& pixels, const Domain& d, const Parameters& p,
                              Evaluation& e) {
    const WeightedMoments m = pixels.weighted_moments(d.noise, e.level.alpha, e.level.beta);
    const typename Model::Parameters s = shape(p);
    const float gain = d.noise.gain;
    set_gradient({m.value, m.ef[1][0], m.ef[0][1], m.ef[2][0], m.ef[0][2]}, {m.e, m.ef[0][0]}, p,
                 e);
    e.chi_square *= gain;
    e.normal = full_matrix<kShape>(Model::products([&](int a, int b) { return m.second[a][b]; }, s),
                                   Model::totals([&](int a, int b) { return m.wf[a][b]; }, s), m.w,
                                   e.level.alpha);
    for (int j = 0; j < kSearched; ++j) {
      e.gradient[j] *= gain;
      for (int k = 0; k <= j; ++k) e.normal(j, k) *= gain;
    }
  }

  DRIFTD_HD static float larger(float a, float b) { return a > b ? a : b; }
  DRIFTD_HD static float smaller(float a, float b) { return a < b ? a : b; }
  DRIFTD_HD static typename Model::Parameters filled(float v) {
    typename Model::Parameters p;
    for (int j = 0; j < kShape; ++j) p[j] = v;
    return p;
  }

  DRIFTD_HD static PixelNoise noise_of(const PixelSummary& summary, const FitInput& input,
                                       const FitOptions& options) {
    // A photon where none is expected has no likelihood; and nearer to 0 the curvature expected of
    // the background is so far from the true one that the search creeps (at 1e-3, 1 in 200 dim
    // spots on no background took more than 20 iterations).
    constexpr float kFloorElectrons = 1e-2f;
    PixelNoise noise = {options.estimator, input.variances != nullptr, 1, 0, 0};
    if (options.estimator != Estimator::PoissonLikelihood) return noise;
    const NoiseModel& given = options.noise;
    if (given.gain_e_per_adu > 0) noise.gain = given.gain_e_per_adu;
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

  DRIFTD_HD static void narrow(Domain& d, const Bounds& bounds) {
    for (int j = 0; j < kSearched; ++j) {
      const float zero = j == kBeta ? d.pedestal_adu : 0.0f;
      d.lower[j] = larger(d.lower[j], bounds.lower[place(j)] - zero);
      d.upper[j] = smaller(d.upper[j], bounds.upper[place(j)] - zero);
    }
  }

  /// A start value that is not finite leaves no parameters within the limits.
  DRIFTD_HD static void fix(Domain& d, const FitInput& input, unsigned fixed) {
    const Parameters start = from_start(input, d);
    for (int j = 0; j < kSearched; ++j) {
      if ((fixed >> place(j) & 1u) == 0) continue;
      d.fixed = static_cast<std::uint8_t>(d.fixed | 1u << j);
      const bool given = std::isfinite(start[j]) && (j >= kShape || input.start.sigma_x_px > 0);
      d.lower[j] = given ? start[j] : kHuge;
      d.upper[j] = given ? start[j] : -kHuge;
    }
  }
};

}  // namespace driftd::fitter
