// SPDX-License-Identifier: MIT
// Fits of models that are not separable: all sums run over the pixels, with the model's value and
// derivatives at each. The counterpart of pixel_sums.hpp and fit_spot.hpp, from which it has the
// iteration. Host and device.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "fitter/acceptance.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/searched_levels.hpp"
#include "fitter/small_matrix.hpp"
#include "fitter/uncertainty.hpp"

namespace driftd::fitter {

/// A model's value at a place and its derivatives by the shape's parameters.
template <int n, class Real>
struct ShapeAt {
  static constexpr int kParameters = n;
  Real f;
  Vec<n, Real> d;
};

/// exp(-q / 2), as far from 0 as the separable profiles keep theirs.
template <class Real>
DRIFTD_HD Real gaussian_of(const Real& q) {
  constexpr float kHalfLog2E = 0.72134752f;
  constexpr float kSmallest = -28.0f * 2.0f * kHalfLog2E;
  return exp2_of(larger(q * Real(-kHalfLog2E), Real(kSmallest)));
}

/// A model whose `shape(p, side)` gives, by `at(x, y)`, its ShapeAt.
template <class M, class P = typename M::template Parameters<float>>
concept PixelwiseModel = requires(const P& p, float place, int side) {
  { M::shape(p, side).at(place, place) } -> std::same_as<ShapeAt<M::kShape, float>>;
  { M::lowest(side) } -> std::same_as<P>;
  { M::highest(side) } -> std::same_as<P>;
  { M::step_scale(p) } -> std::same_as<P>;
};

/// At the pixel's centre, or the mean over the pixel.
template <class Shape, class Real>
DRIFTD_HD auto shape_in_pixel(const Shape& shape, bool integrated, const Real& x, const Real& y) {
  auto mean = shape.at(x, y);
  if (!integrated) return mean;
  constexpr int n = decltype(mean)::kParameters;
  mean.f = Real(0.0f);
  for (int j = 0; j < n; ++j) mean.d[j] = Real(0.0f);
  // How many is not known to the compiler, which would write them all out.
  const int places = integrated ? kPlacesInPixel * kPlacesInPixel : 1;
  for (int k = 0; k < places; ++k) {
    const PlaceInPixel in_x = place_in_pixel(k % kPlacesInPixel);
    const PlaceInPixel in_y = place_in_pixel(k / kPlacesInPixel);
    const auto there = shape.at(x + in_x.px, y + in_y.px);
    const Real weight = in_x.weight * in_y.weight;
    mean.f += weight * there.f;
    for (int j = 0; j < n; ++j) mean.d[j] += weight * there.d[j];
  }
  return mean;
}

/// What a back end calls for each pixel.
template <class Real>
struct AnyPixelAction {
  /// @param map  its map value, if it has one
  void operator()(const Real& x, const Real& y, const Real& pixel, const Real& map) const;
};
template <class Real>
struct AnyImage {
  Real operator()(int row, int column, const Real& pixel) const;
};

/// A back end: a loaded ROI with what its pixels are, for all of them or for those of a thread.
template <class B, class Real = typename B::Real>
concept PixelsOneByOne = requires(B& pixels, const B& loaded, const PixelNoiseOf<Real>& noise,
                                  const Real& level, Real (&sums)[2],
                                  const AnyPixelAction<Real>& action, const AnyImage<Real>& image) {
  { loaded.side() } -> std::same_as<int>;
  { loaded.integrated() } -> std::same_as<bool>;
  { loaded.summary() } -> std::same_as<const PixelSummaryOf<Real>&>;
  { pixels.smoothed_pixels() } -> std::same_as<SmoothedExtremesOf<Real>>;
  { pixels.smoothed_pixel(level, level) } -> std::same_as<Real>;
  { pixels.count_above(level) } -> std::same_as<Real>;
  pixels.for_each_pixel(noise, action);  // less the pedestal
  pixels.combine(sums);
  { pixels.any_of(loaded.summary().usable) } -> std::same_as<bool>;
  { pixels.smoothed_image(image) } -> std::same_as<SmoothedExtremesOf<Real>>;
};

/// sum w J J^T and sum w J r over the shape, amplitude and background.
template <int n, class Real>
struct EquationSums {
  static constexpr int kCount = n * (n + 1) / 2 + n + 1;

  Real value;
  Vec<n, Real> gradient;
  SymmetricMatrix<n, Real> normal;
};

/// Whose squares a sum is of: the estimator's own, or plain ones of the pixels that are there.
enum class Squares : std::uint8_t { Own, Plain };

/// What the estimator says of a pixel. It is asked at each pixel: one sum for all estimators takes
/// a quarter of the time to compile that one for each takes, and as long to run.
template <class Real>
DRIFTD_HD PixelTerm<Real> pixel_term(const PixelNoiseOf<Real>& noise, Squares which,
                                     const Real& pixel, const Real& model, const Real& map) {
  if (which == Squares::Own && noise.estimator != Estimator::ImplicitLeastSquares &&
      noise.estimator != Estimator::LeastSquares)
    return with_weights<Real>(
        noise, [&](const auto& estimator, auto) { return estimator.of(pixel, model, map); });
  const Mask<Real> there = Mask<Real>(!noise.mapped) || is_there(noise.estimator, map);
  const Real r = where(there, pixel - model, Real(0.0f));
  return {r * r, where(there, Real(1.0f), Real(0.0f)), r};
}

template <PixelwiseModel M, class R = float>
struct PixelwiseSearch : SearchedLevels<M, R> {
  using Base = SearchedLevels<M, R>;
  using Model = M;
  using Real = R;
  using Base::kAlpha, Base::kBeta, Base::kSearched, Base::kShape;
  using Base::shape;
  using typename Base::Domain;
  using typename Base::Parameters;
  using typename Base::Shape;
  using Evaluation = EvaluationOf<kSearched, Real>;
  using Sums = EquationSums<kSearched, Real>;
  using Pixel = ShapeAt<kShape, Real>;

  DRIFTD_HD static Domain domain(const PixelSummaryOf<Real>& summary, const FitInputOf<Real>& input,
                                 int side, const FitOptions& options) {
    Domain d = Base::domain(summary, input, side, options);
    if constexpr (Base::kIsRotated) {
      if (Model::kHasAngle && (options.fixed & kAngleBit) == 0) {
        // No search goes round so often.
        constexpr int j = kMostSeparable;
        constexpr float kFar = 100;
        const Real low = input.angle_bounds.lower_rad, high = input.angle_bounds.upper_rad;
        const Real start = clamped(input.angle_rad, low, high);
        d.lower[j] = larger(start - kFar, low);
        d.upper[j] = smaller(start + kFar, high);
      }
    }
    if constexpr (Base::kIsLine)  // which is not looked for
      d.lower[0] = where(usable_start(input.start), d.lower[0], Real(Base::kHuge));
    return d;
  }

  DRIFTD_HD static Parameters from_start(const FitInputOf<Real>& input, const Domain& d) {
    FitInputOf<Real> known = input;  // an angle that is no number is none
    known.angle_rad = where(is_finite(input.angle_rad), input.angle_rad, Real(0.0f));
    Parameters p = Base::from_start(known, d);
    if (d.noise.estimator == Estimator::ImplicitLeastSquares)
      p[kAlpha] = p[kBeta] = Real(NAN);  // not searched, to whoever asks for it
    if constexpr (requires { Model::told_apart(shape(p)); }) {
      const Shape told_apart = Model::told_apart(shape(p));
      for (int j = 0; j < kShape; ++j) p[j] = told_apart[j];
    }
    return p;
  }

  DRIFTD_HD static Real least_told(const Domain& d, const Evaluation&, const Evaluation&) {
    return Base::likelihood(d) ? Base::kHuge : 0.0f;
  }

  /// The equations about `p`, in which levels that are missing, or dark, are set.
  template <PixelsOneByOne BackEnd>
  DRIFTD_HD static Evaluation evaluate(BackEnd& pixels, const Domain& d, Parameters& p) {
    const auto at = Model::shape(shape(p), d.side);
    Mask<Real> missing = is_nan(p[kAlpha]) || is_nan(p[kBeta]);
    if (Base::likelihood(d))  // dark: see reachable()
      missing = missing || (!(p[kAlpha] > 0.0f) && d.upper[kAlpha] > 0.0f);
    if (pixels.any_of(missing)) {
      const LevelsOf<Real> best = best_levels(pixels, d, at);
      Parameters with = p;
      with[kAlpha] = best.alpha;
      if (Base::likelihood(d))
        with[kAlpha] = larger(Base::least_amplitude(pixels.summary(), d.side), best.alpha);
      with[kBeta] = best.beta;
      p = where(missing, d.limited(with), p);
    }
    Evaluation e;
    e.level = {p[kAlpha], p[kBeta]};
    const Sums of = sums(pixels, d, at, e.level, Squares::Own);
    const float gain = d.noise.gain;
    e.chi_square = gain * of.value;
    for (int j = 0; j < kSearched; ++j) {
      e.gradient[j] = gain * of.gradient[j];
      for (int k = 0; k <= j; ++k) e.normal(j, k) = gain * of.normal(j, k);
    }
    e.held = hold_at_limits(p, d.lower, d.upper, e.gradient);
    for (int j = 0; j < kShape; ++j) {  // on which nothing depends, as on a round spot's angle
      const Mask<Real> idle = !(e.normal(j, j) > 0.0f);
      e.held.of[j] = e.held.of[j] || idle;
      e.gradient[j] = where(idle, Real(0.0f), e.gradient[j]);
    }
    return e;
  }

  /// What is minimized.
  template <PixelsOneByOne BackEnd, class AtPlace>
  DRIFTD_HD static Real value(BackEnd& pixels, const Domain& d, const AtPlace& place,
                              const Evaluation& at) {
    if (!Base::likelihood(d)) return at.chi_square;
    Real s[1] = {Real(0.0f)};
    const bool integrated = pixels.integrated();
    pixels.for_each_pixel(d.noise,
                          [&](const Real& x, const Real& y, const Real& g, const Real& map) {
                            const Real f = shape_in_pixel(place, integrated, x, y).f;
                            const Real model = at.level.alpha * f + at.level.beta;
                            s[0] += with_weights<Real>(d.noise, [&](const auto& estimator, auto) {
                              return value_apart(estimator, g, model, map);
                            });
                          });
    pixels.combine(s);
    return d.noise.gain * s[0];
  }

  /// What unweighted least squares would find, of the pixels that a map does not call gone.
  template <PixelsOneByOne BackEnd, class AtPlace>
  DRIFTD_HD static Sums plain(BackEnd& pixels, const Domain& d, const AtPlace& place,
                              const Evaluation& at) {
    if (is_unweighted(d)) return {at.chi_square, at.gradient, at.normal};
    return sums(pixels, d, place, at.level, Squares::Plain);
  }

  template <PixelsOneByOne BackEnd, class AtPlace>
  DRIFTD_HD static Sums sums(BackEnd& pixels, const Domain& d, const AtPlace& at,
                             const LevelsOf<Real>& level, Squares which) {
    Real s[Sums::kCount];
    for (Real& sum : s) sum = Real(0.0f);
    const bool integrated = pixels.integrated();
    pixels.for_each_pixel(
        d.noise, [&](const Real& x, const Real& y, const Real& g, const Real& map) {
          const Pixel pixel = shape_in_pixel(at, integrated, x, y);
          const PixelTerm<Real> of =
              pixel_term(d.noise, which, g, level.alpha * pixel.f + level.beta, map);
          const Parameters j = jacobian(pixel, level.alpha);
          int k = 0;
          s[k++] += of.value;
          for (int a = 0; a < kSearched; ++a) {
            s[k++] += of.residual * j[a];
            const Real w = of.weight * j[a];
            for (int b = 0; b <= a; ++b) s[k++] += w * j[b];
          }
        });
    pixels.combine(s);
    Sums result;
    int k = 0;
    result.value = s[k++];
    for (int a = 0; a < kSearched; ++a) {
      result.gradient[a] = s[k++];
      for (int b = 0; b <= a; ++b) result.normal(a, b) = s[k++];
    }
    return result;
  }

  DRIFTD_HD static Parameters jacobian(const Pixel& pixel, const Real& alpha) {
    Parameters j;
    for (int a = 0; a < kShape; ++a) j[a] = alpha * pixel.d[a];
    j[kAlpha] = pixel.f;
    j[kBeta] = Real(1.0f);
    return j;
  }

 private:
  DRIFTD_HD static bool is_unweighted(const Domain& d) {
    return d.noise.estimator == Estimator::ImplicitLeastSquares || Base::unweighted(d);
  }

  /// The best levels by plain least squares, with the background at its lower limit or above: as in
  /// implicit_least_squares.hpp.
  template <PixelsOneByOne BackEnd, class AtPlace>
  DRIFTD_HD static LevelsOf<Real> best_levels(BackEnd& pixels, const Domain& d, const AtPlace& at) {
    Real s[3] = {Real(0.0f), Real(0.0f), Real(0.0f)};  // f, f f, f g
    const bool integrated = pixels.integrated();
    pixels.for_each_pixel(d.noise, [&](const Real& x, const Real& y, const Real& g, const Real&) {
      const Real f = shape_in_pixel(at, integrated, x, y).f;
      s[0] += f;
      s[1] += f * f;
      s[2] += f * g;
    });
    pixels.combine(s);
    const float per_pixel = 1.0f / static_cast<float>(d.side * d.side);
    const Real sum_g = pixels.summary().sum;
    const Real alpha = (s[2] - s[0] * sum_g * per_pixel) / (s[1] - s[0] * s[0] * per_pixel);
    const Real beta = (sum_g - alpha * s[0]) * per_pixel;
    const Mask<Real> at_limit = beta < d.lower[kBeta];
    return {where(at_limit, (s[2] - d.lower[kBeta] * s[0]) / s[1], alpha),
            where(at_limit, d.lower[kBeta], beta)};
  }
};

/// What such a fit found, in the parameters that were searched.
template <int n, class R>
struct PixelwiseResult {
  using Real = R;
  Vec<n, Real> parameters;  ///< the shape's, amplitude and background in adu
  SymmetricMatrix<n, Real> covariance;
  Real chi_square, status, iterations;

  DRIFTD_HD Mask<Real> converged() const { return is_converged(status); }
};

/// Calls action(number...) for each number of results side by side.
template <class Action, int n, class Real, class... Others>
DRIFTD_HD void for_each_number(Action&& action, PixelwiseResult<n, Real>& r, Others&... others) {
  for (int j = 0; j < n; ++j) {
    action(r.parameters[j], others.parameters[j]...);
    for (int k = 0; k <= j; ++k) action(r.covariance(j, k), others.covariance(j, k)...);
  }
  action(r.chi_square, others.chi_square...);
  action(r.status, others.status...);
  action(r.iterations, others.iterations...);
}

template <int n, class Real>
DRIFTD_HD PixelwiseResult<n, Real> where(const Mask<Real>& mask,
                                         const PixelwiseResult<n, Real>& yes,
                                         const PixelwiseResult<n, Real>& no) {
  PixelwiseResult<n, Real> r;
  for_each_number([&](Real& to, const Real& a, const Real& b) { to = where(mask, a, b); }, r, yes,
                  no);
  return r;
}

/// sum f J J^T of all pixels, and the sums that tell their variance (uncertainty.hpp).
template <int n, class Real>
struct VarianceOfPixels {
  SymmetricMatrix<n, Real> cubic;
  QuotientSumsOf<Real> sums;
};

template <class Search, PixelsOneByOne BackEnd, class AtPlace>
DRIFTD_HD auto variance_of_pixels(BackEnd& pixels, const typename Search::Domain& d,
                                  const AtPlace& at, const LevelsOf<typename Search::Real>& level) {
  using Real = typename Search::Real;
  constexpr int n = Search::kSearched, kCubic = n * (n + 1) / 2;
  Real s[std::size_t{kCubic + kQuotientSums}];
  for (Real& sum : s) sum = Real(0.0f);
  const bool integrated = pixels.integrated();
  pixels.for_each_pixel(d.noise, [&](const Real& x, const Real& y, const Real& g, const Real&) {
    const typename Search::Pixel pixel = shape_in_pixel(at, integrated, x, y);
    const Real f = pixel.f;
    const Vec<n, Real> j = Search::jacobian(pixel, level.alpha);
    int k = 0;
    for (int a = 0; a < n; ++a) {
      const Real w = f * j[a];
      for (int b = 0; b <= a; ++b) s[k++] += w * j[b];
    }
    const Real r = g - (level.alpha * f + level.beta);
    const Real q = f * reciprocal_of(kVarianceRatio + f);
    const Real qr = q * r;
    s[k++] += q;
    s[k++] += q * q;
    s[k++] += qr * r;
    s[k++] += qr * qr;
  });
  pixels.combine(s);
  VarianceOfPixels<n, Real> result;
  int k = 0;
  for (int a = 0; a < n; ++a)
    for (int b = 0; b <= a; ++b) result.cubic(a, b) = s[k++];
  result.sums = {s[k], s[k + 1], s[k + 2], s[k + 3]};
  return result;
}

/// Sets two widths, as the verdict asks for them: the searched ones, or those that the model makes
/// of other parameters.
/// @param covariance  of what was searched
template <class Model, int n, class Real>
DRIFTD_HD void set_widths(const Vec<Model::kShape, Real>& p,
                          const SymmetricMatrix<n, Real>& covariance, LocalizationOf<Real>& l) {
  if constexpr (requires { Model::widths(p); }) {
    const auto widths = Model::widths(p);
    Real variance[2];
    for (int width = 0; width < 2; ++width) {
      const auto& by = widths.by[width];  // of the parameters from 2 on
      variance[width] = Real(0.0f);
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 3; ++k)
          variance[width] +=
              by[j] * by[k] * (j < k ? covariance(2 + k, 2 + j) : covariance(2 + j, 2 + k));
    }
    l.sigma_x_px = widths.px[0];
    l.sigma_y_px = widths.px[1];
    l.sigma_x_sd_px = sqrt_of(variance[0]);
    l.sigma_y_sd_px = sqrt_of(variance[1]);
  } else {
    l.sigma_x_px = p[2];
    l.sigma_y_px = p[3];
    l.sigma_x_sd_px = sqrt_of(covariance(2, 2));
    l.sigma_y_sd_px = sqrt_of(covariance(3, 3));
  }
}

/// What the verdict rests on.
/// @param plain      what unweighted least squares would find
/// @param inverse_h  of its matrix
template <class Search, PixelsOneByOne BackEnd, int n, class Real>
DRIFTD_HD EvidenceOf<Real> evidence_of(BackEnd& pixels, const typename Search::Domain& d,
                                       const Minimum<Search>& minimum,
                                       const EquationSums<n, Real>& plain,
                                       const SymmetricMatrix<n, Real>& inverse_h) {
  using Spot = typename Search::Model;
  const Vec<n, Real> found = minimum.found();
  const LevelsOf<Real> level = minimum.at.level;
  EvidenceOf<Real> e;
  e.freedom = plain.normal(n - 1, n - 1) - static_cast<float>(n);
  e.squares = plain.value;
  e.amplitude_adu = level.alpha;
  SymmetricMatrix<n, Real> covariance = inverse_h;
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k) covariance(j, k) *= e.squares / e.freedom;
  forget(covariance, d.fixed);
  e.found.amplitude_adu = found[Search::kAlpha];
  e.found.amplitude_sd_adu = sqrt_of(covariance(Search::kAlpha, Search::kAlpha));
  e.found.background_adu = found[Search::kBeta] + pixels.summary().pedestal_adu;
  set_widths<Spot>(Search::shape(found), covariance, e.found);
  e.profile = Spot::profile(Search::shape(found));
  // Summed whatever the other tests say: the threads of a back end must meet in it.
  const auto shape = Spot::shape(Search::shape(minimum.parameters), d.side);
  const bool integrated = pixels.integrated();
  e.smoothed = pixels.smoothed_image([&](int row, int column, const Real& g) {
    const Real f = shape_in_pixel(shape, integrated, Real(static_cast<float>(column)),
                                  Real(static_cast<float>(row)))
                       .f;
    return g - (level.alpha * f + level.beta);
  });
  return e;
}

/// From a minimum to the result, as fit_spot.hpp's conclude().
template <class Search, PixelsOneByOne BackEnd>
DRIFTD_HD auto conclude_pixelwise(BackEnd& pixels, const typename Search::Domain& d,
                                  const Minimum<Search>& minimum, const FitOptions& options)
    -> PixelwiseResult<Search::kSearched, typename Search::Real> {
  using Real = typename Search::Real;
  constexpr int n = Search::kSearched;
  const auto shape = Search::Model::shape(Search::shape(minimum.parameters), d.side);
  const auto& at = minimum.at;
  const EquationSums<n, Real> plain = Search::plain(pixels, d, shape, at);
  const PixelSummaryOf<Real>& summary = pixels.summary();
  const float count = static_cast<float>(d.side * d.side);
  const Real freedom = plain.normal(n - 1, n - 1) - static_cast<float>(n);
  const Real pooled = plain.value / freedom;

  PixelwiseResult<n, Real> result;
  result.parameters = minimum.found();
  result.parameters[Search::kBeta] += summary.pedestal_adu;
  result.chi_square = Search::value(pixels, d, shape, at) - minimum.decrease();
  result.status = minimum.status;
  result.iterations = minimum.iterations;

  SymmetricMatrix<n, Real> full = plain.normal;
  Held<n, Real> idle;  // on which nothing depends
  for (int j = 0; j < n; ++j) idle.of[j] = !(full(j, j) > 0.0f) && is_finite(plain.value);
  hold(full, idle);
  hold(full, d.fixed);
  const Factors<n, Real> h = factorize(full);
  const SymmetricMatrix<n, Real> inverse_h = inverse(h, inverse_lower(h));
  if constexpr (!Search::kIsLine) {
    EvidenceOf<Real> evidence = evidence_of(pixels, d, minimum, plain, inverse_h);
    evidence.determined = h.positive_definite;
    const auto found = Search::shape(minimum.found());
    Mask<Real> spot = is_spot(evidence, summary, d.side, options.noise);
    if constexpr (requires { Search::Model::inside(found); })
      spot = spot && Search::Model::inside(found);
    if (options.spots_only)
      result.status =
          where(result.converged() && !spot, Real(code_of(FitStatus::NotConverged)), result.status);
  }
  if (knows_its_variances(options.estimator)) {
    const Factors<n, Real> weighted = factorize(at.equations());
    result.covariance = inverse(weighted, inverse_lower(weighted));
    for (int j = 0; j < n; ++j)  // what a bound keeps: its variance given all others
      result.covariance(j, j) =
          where(at.held.of[j], 1.0f / at.normal(j, j), result.covariance(j, j));
  } else {
    const VarianceOfPixels<n, Real> of = variance_of_pixels<Search>(pixels, d, shape, at.level);
    const Real profile = plain.normal(n - 1, n - 2);  // sum f
    const PixelVarianceOf<Real> variance =
        options.noise.gain_e_per_adu > 0
            ? photon_variance(options.noise, at.level.alpha, result.parameters[Search::kBeta])
            : residual_variance(variance_sums(of.sums, count, profile, plain.value), count, profile,
                                n - 1, pooled);
    result.covariance = sandwich(inverse_h, of.cubic, variance);
  }
  for (int j = 0; j < n; ++j)
    result.covariance(j, j) =
        where(idle.of[j], Real(std::numeric_limits<float>::infinity()), result.covariance(j, j));
  forget(result.covariance, d.fixed);
  return result;
}

/// Where a search stood whose result this is.
template <class Search, class Real>
DRIFTD_HD SearchState<Search> state_of(const PixelwiseResult<Search::kSearched, Real>& r) {
  return {r.parameters, r.chi_square, r.iterations};
}

/// The whole fit of loaded pixels, as fit_spot().
template <class Search, PixelsOneByOne BackEnd>
DRIFTD_HD auto fit_pixelwise(BackEnd& pixels, const FitInputOf<typename Search::Real>& input,
                             const FitOptions& options) {
  using Real = typename Search::Real;
  using Result = PixelwiseResult<Search::kSearched, Real>;
  auto result = bad_input<Result>();
  Mask<Real> fits = Mask<Real>(true);
  for (bool is_next = false; pixels.any_of(fits); is_next = true) {
    SpotFit<Search, Result> fit;
    fit.begin(fits, pixels.summary(), input, pixels.side(), options, is_next);
    if (pixels.any_of(fit.needs_start())) fit.start(cold_start(pixels), options);
    while (pixels.any_of(fit.searching()))
      fit.advance(Search::evaluate(pixels, fit.domain(), fit.trial()), options);
    const auto found = conclude_pixelwise<Search>(pixels, fit.domain(), fit.minimum(), options);
    result = where(fits, fit.finish(found, options), result);
    fits = fit.tries_again();
  }
  return result;
}

}  // namespace driftd::fitter
