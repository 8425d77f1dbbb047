// SPDX-License-Identifier: MIT
// The whole fit of one ROI over a back end's sums: start values, minimization, uncertainties and
// the verdict. Host and device; the back end owns all memory.
#pragma once

#include <concepts>
#include <type_traits>

#include "fitter/acceptance.hpp"
#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/full_search.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/levenberg_marquardt.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/spot_model.hpp"
#include "fitter/uncertainty.hpp"

namespace driftd::fitter {

/// Start values: those of the paper, the maximum of the 3x3 moving average and sqrt(M / pi) from
/// the M pixels above the level exp(-1/2) between its lowest and highest value, made more precise.
/// The place is that of the parabola through the maximum and its neighbours along each axis. And
/// the average lowers the peak, so that more pixels are above the level: M / pi - sigma^2 is 1.2
/// to 1.3 px^2 for sigma from 1 to 2 px, and less where the ROI ends before the spot does.
template <class BackEnd>
DRIFTD_HD auto cold_start(BackEnd& pixels) {
  constexpr float kInversePi = 0.318309886f;
  constexpr float kOneSigmaLevel = 0.606530660f;
  constexpr float kBySmoothing = 1.1f, kLeastVariance = 0.25f;  // px^2
  const auto peak = pixels.smoothed_pixels();
  using Real = std::remove_cvref_t<decltype(peak.highest)>;
  // Within the ROI, which the place of no number is not.
  const Real first = 1.0f, last = static_cast<float>(pixels.side() - 2);
  const Real x_px = clamped(peak.x_px, first, last), y_px = clamped(peak.y_px, first, last);
  const auto to_vertex = [&](const Real& place, const auto& smoothed) {
    const Mask<Real> has_neighbours = place > first && place < last;
    const Real step = where(has_neighbours, Real(1.0f), Real(0.0f));
    const Real before = smoothed(-step), after = smoothed(step);
    const Real curvature = before - 2.0f * peak.highest + after;
    const Real vertex = 0.5f * (before - after) / curvature;
    // Without them all three are one, and what they differ by is how a compiler rounds them.
    return where(has_neighbours && curvature < 0.0f, clamped(vertex, Real(-0.5f), Real(0.5f)),
                 Real(0.0f));
  };
  const Real to_x =
      to_vertex(x_px, [&](const Real& d) { return pixels.smoothed_pixel(x_px + d, y_px); });
  const Real to_y =
      to_vertex(y_px, [&](const Real& d) { return pixels.smoothed_pixel(x_px, y_px + d); });
  const Real level = peak.lowest + kOneSigmaLevel * (peak.highest - peak.lowest);
  const Real variance = pixels.count_above(level) * kInversePi - kBySmoothing;
  const Real sigma_px = sqrt_of(larger(variance, Real(kLeastVariance)));
  return StartOf<Real>{x_px + to_x, y_px + to_y, sigma_px, sigma_px};
}

template <class Real>
DRIFTD_HD Mask<Real> usable_start(const StartOf<Real>& s) {
  return s.sigma_x_px > 0.0f && is_finite(s.x_px) && is_finite(s.y_px) && is_finite(s.sigma_x_px) &&
         is_finite(s.sigma_y_px);
}

/// A search for a spot.
template <class S, class Real = typename S::Real, class Parameters = typename S::Parameters>
concept SpotSearch = SearchSpace<S> && SpotModel<typename S::Model> &&
    requires(Parameters& p, const PixelSummaryOf<Real>& summary, const FitInputOf<Real>& input,
             const FitOptions& options, const ProfileMomentsOf<Real>& moments,
             const typename S::Domain& domain) {
  { S::domain(summary, input, int{}, options) } -> std::same_as<typename S::Domain>;
  { S::shape(p) } -> std::convertible_to<Vec<S::Model::kShape, Real>>;
  { S::profile(p) } -> std::same_as<ProfileOf<Real>>;
  { S::wants_moments(domain, p) } -> std::same_as<bool>;
  { S::prepare(moments, summary, domain, p) } -> std::same_as<typename S::Prepared>;
};

/// A back end with what a search asks of it.
template <class B, class S>
concept SumsFor = SpotSearch<S> && SumsOverPixels<B> &&
    requires(B& pixels, const typename S::Domain& domain, const typename S::Parameters& p,
             const typename S::Prepared& prepared, const typename S::Evaluation& at,
             const Mask<typename S::Real>& is_set) {
  { S::linearize(pixels, domain, p, prepared) } -> std::same_as<typename S::Evaluation>;
  {
    S::plain_sums(pixels, domain, p, at, is_set)
    } -> std::same_as<PlainSums<S::Model::kShape, typename S::Real>>;
};

/// @param fixed  bit j: parameter j
template <SpotModel Model, class Real>
DRIFTD_HD void store_sd(Vec<Model::kShape + 2, Real> sd, unsigned fixed,
                        const Vec<Model::kShape, Real>& p, LocalizationOf<Real>& l) {
  for (int j = 0; j < Model::kShape + 2; ++j)
    if ((fixed >> j & 1u) != 0) sd[j] = 0.0f;
  Model::store_sd(sd, p, l);
  l.amplitude_sd_adu = sd[Model::kShape];
  l.background_sd_adu = sd[Model::kShape + 1];
}

/// Covariance of a separable model's shape, amplitude and background.
template <class Search>
using CovarianceOf = SymmetricMatrix<Search::Model::kShape + 2, typename Search::Real>;

/// From a minimum to the result. Where there is a map of variances, the verdict knows which pixels
/// are left out (left_out_pixels.hpp).
/// @param covariance  receives it (set_details() of fit_details.hpp); null: it is not wanted
template <class Search, SumsFor<Search> BackEnd>
DRIFTD_HD auto conclude(BackEnd& pixels, const typename Search::Domain& domain,
                        const Minimum<Search>& minimum, const FitOptions& options,
                        CovarianceOf<Search>* covariance = nullptr)
    -> LocalizationOf<typename Search::Real> {
  using Spot = typename Search::Model;
  using Real = typename Search::Real;
  constexpr int n = Spot::kShape;
  const Vec<n, Real> p = Search::shape(minimum.parameters);
  const Vec<n, Real> found = Search::shape(minimum.found());
  const auto& at = minimum.at;
  const Real alpha = at.level.alpha;
  const PlainSums<n, Real> plain =
      Search::plain_sums(pixels, domain, minimum.parameters, at, minimum.evaluated_last);
  const PixelSummaryOf<Real>& summary = pixels.summary();
  const float count = static_cast<float>(pixels.side() * pixels.side());
  const Real freedom = plain.count - static_cast<float>(n + 2);
  const Real pooled = plain.squares / freedom;

  SymmetricMatrix<n + 2, Real> full =
      full_matrix<n>(plain.product, plain.total, plain.count, alpha);
  const LevelsOf<Real> level = Search::levels(domain, minimum, full);

  LocalizationOf<Real> l;
  Spot::store(found, l);
  l.amplitude_adu = level.alpha;
  l.background_adu = level.beta + summary.pedestal_adu;
  l.chi_square = plain.squares - minimum.decrease();
  l.status = minimum.status;
  l.iterations = minimum.iterations;

  hold(full, plain.fixed);
  const Factors<n + 2, Real> h = factorize(full);
  const SymmetricMatrix<n + 2, Real> inverse_l = inverse_lower(h);
  store_sd<Spot>(standard_deviations(inverse_diagonal(h, inverse_l), pooled), plain.fixed, p, l);
  // Summed whatever the other tests say: the lanes of a back end must meet in it.
  const EvidenceOf<Real> evidence = {l,
                                     Spot::profile(found),
                                     h.positive_definite,
                                     alpha,
                                     plain.squares,
                                     freedom,
                                     pixels.smoothed_residuals(alpha, at.level.beta)};
  const Mask<Real> spot = is_spot(evidence, summary, pixels.side(), options.noise);
  if (options.spots_only)
    l.status = where(l.converged() && !spot, Real(code_of(FitStatus::NotConverged)), l.status);

  if constexpr (Search::kSearchesLevels) {
    if (knows_its_variances(options.estimator)) {
      l.chi_square = Search::value(pixels, domain, at) - minimum.decrease();
      const Factors<n + 2, Real> weighted = factorize(at.equations());
      const SymmetricMatrix<n + 2, Real> inverse_of_l = inverse_lower(weighted);
      Vec<n + 2, Real> variance = inverse_diagonal(weighted, inverse_of_l);
      for (int j = 0; j < n + 2; ++j)  // what a bound keeps: its variance given all others
        variance[j] = where(at.held.of[j], 1.0f / at.normal(j, j), variance[j]);
      store_sd<Spot>(standard_deviations(variance, Real(1.0f)), plain.fixed, p, l);
      if (covariance != nullptr) {
        *covariance = inverse(weighted, inverse_of_l);
        forget(*covariance, plain.fixed);
      }
      return l;
    }
  }
  const CubicMomentsOf<Real> third = pixels.cubic_moments();
  const SymmetricMatrix<n + 2, Real> cubic =
      full_matrix<n>(Spot::products(SeparableMoments<Real>{third.x, third.y}, p),
                     {plain.product.ff, plain.product.fd}, plain.total.f, alpha);
  const PixelVarianceOf<Real> variance =
      options.noise.gain_e_per_adu > 0
          ? photon_variance(options.noise, alpha, l.background_adu)
          : residual_variance(variance_sums(pixels.quotient_sums(alpha, at.level.beta), count,
                                            plain.total.f, plain.squares),
                              count, plain.total.f, n + 1, pooled);
  const SymmetricMatrix<n + 2, Real> inverse_h = inverse(h, inverse_l);
  store_sd<Spot>(standard_deviations(inverse_h, cubic, variance), plain.fixed, p, l);
  if (covariance != nullptr) {
    *covariance = sandwich(inverse_h, cubic, variance);
    forget(*covariance, plain.fixed);
  }
  return l;
}

/// Where a search stands that is left for later, kept as a result, so that it needs no other
/// memory: parameters in the order of its numbers, the damping in chi-square's place, and a status
/// beside those of FitStatus.
constexpr float kLeft = code_of(FitStatus::BadInput) + 1.0f;
template <class Result>
DRIFTD_HD auto was_left(const Result& r) {
  return r.status > kLeft - 0.5f;
}

/// Calls action(number of a result, parameter).
template <int n, class Result, class Parameters, class Action>
DRIFTD_HD void for_each_parameter(Result& l, Parameters& p, const Action& action) {
  static_assert(n >= 3 && n <= 6);
  action(l.x_px, p[0]);
  action(l.y_px, p[1]);
  action(l.sigma_x_px, p[2]);
  if constexpr (n > 3) action(l.sigma_y_px, p[3]);
  if constexpr (n > 4) action(l.amplitude_adu, p[4]);
  if constexpr (n > 5) action(l.background_adu, p[5]);
}
template <class Result, class Search>
DRIFTD_HD Result left_at(const SearchState<Search>& state) {
  using Real = typename Search::Real;
  Result l = bad_input<Result>();
  for_each_parameter<Search::kSearched>(
      l, state.parameters, [](Real& number, const Real& parameter) { number = parameter; });
  l.chi_square = state.damping;
  l.iterations = state.iterations;
  l.status = kLeft;
  return l;
}
template <class Search, class Real>
DRIFTD_HD SearchState<Search> state_of(const LocalizationOf<Real>& left) {
  SearchState<Search> state;
  for_each_parameter<Search::kSearched>(
      left, state.parameters, [](const Real& number, Real& parameter) { parameter = number; });
  state.damping = left.chi_square;
  state.iterations = left.iterations;
  return state;
}

/// One try of a fit as a state machine over LevenbergMarquardt: begin(), then whatever the masks
/// ask for. No call sums over pixels, so that a back end may do so for several fits at once.
/// @tparam Result  has converged(), where() and a bad_input()
template <SearchSpace Search, class Result = LocalizationOf<typename Search::Real>>
class SpotFit {
 public:
  using Real = typename Search::Real;
  using Parameters = typename Search::Parameters;
  using Domain = typename Search::Domain;

  /// @param which    the others do nothing
  /// @param is_next  not the first try: cold, or where the one before was left
  /// @param before   its results
  DRIFTD_HD void begin(const Mask<Real>& which, const PixelSummaryOf<Real>& summary,
                       const FitInputOf<Real>& input, int side, const FitOptions& options,
                       bool is_next = false, const Result& before = bad_input<Result>()) {
    const Domain domain = Search::domain(summary, input, side, options);
    search_.set_domain(domain);
    const Mask<Real> usable = which && summary.usable && domain.valid();
    warm_ = usable && usable_start(input.start);
    SearchState<Search> state = {Search::from_start(input, domain), Real(options.lambda_start),
                                 Real(0.0f)};
    if (is_next) {
      const Mask<Real> stands = usable && was_left(before);
      needs_start_ = usable && !stands;
      state = state_of<Search>(before);
      warm_ = warm_ && stands;
      search_.begin(stands, state);
    } else {
      needs_start_ = usable && !warm_;
      search_.begin(warm_, state);
    }
    at_minimum_ = left_ = tries_again_ = Mask<Real>(false);
  }

  /// start() with a cold_start()
  DRIFTD_HD const Mask<Real>& needs_start() const { return needs_start_; }
  /// advance() with an evaluation at trial()
  DRIFTD_HD const Mask<Real>& searching() const { return search_.searching(); }
  /// finish() with conclude() at minimum()
  DRIFTD_HD const Mask<Real>& at_minimum() const { return at_minimum_; }

  /// A search may complete its first trial from the profile's moments.
  DRIFTD_HD Parameters& trial() { return search_.trial(); }
  DRIFTD_HD const Domain& domain() const { return search_.domain(); }
  DRIFTD_HD const Minimum<Search>& minimum() const { return search_.minimum(); }

  /// Those that need it.
  DRIFTD_HD void start(const StartOf<Real>& cold, const FitOptions& options) {
    search_.begin(needs_start_, {Search::from_start({cold}, search_.domain()),
                                 Real(options.lambda_start), Real(0.0f)});
    needs_start_ = Mask<Real>(false);
  }

  DRIFTD_HD void advance(const typename Search::Evaluation& at, const FitOptions& options) {
    const Mask<Real> before = searching();
    search_.advance(at, options);
    at_minimum_ = at_minimum_ || (before && !searching());
  }

  /// Leaves for later, where they stand, the fits that still search.
  /// @pre this is their first try, and each has been advanced
  DRIFTD_HD void leave() {
    left_ = searching();
    search_.pause();
  }
  DRIFTD_HD const Mask<Real>& left() const { return left_; }
  /// What begin() goes on with.
  DRIFTD_HD Result standing() const { return left_at<Result>(search_.state()); }

  /// @return which fits are at their minimum; the others have bad input, or are left
  DRIFTD_HD Result finish(const Result& concluded, const FitOptions& options) {
    if (options.spots_only) tries_again_ = at_minimum_ && warm_ && !concluded.converged();
    return where(at_minimum_, concluded, bad_input<Result>());
  }
  /// A warm start that led nowhere (the spot jumped) is to be tried again cold.
  DRIFTD_HD const Mask<Real>& tries_again() const { return tries_again_; }

 private:
  LevenbergMarquardt<Search> search_;
  Mask<Real> warm_, needs_start_, at_minimum_, left_, tries_again_;
};

/// One evaluation of a search at the trial of a fit. A fit that has ended beside others is
/// evaluated again where it was, so that what conclude() finds in the back end does not depend on
/// the others.
template <class Search, SumsFor<Search> BackEnd>
DRIFTD_HD typename Search::Evaluation evaluate(BackEnd& pixels, SpotFit<Search>& fit) {
  const Mask<typename Search::Real> ended = fit.minimum().is_at_trial;
  typename Search::Parameters p = where(ended, fit.minimum().parameters, fit.trial());
  const auto& moments =
      pixels.set_profile(Search::profile(p), Search::wants_moments(fit.domain(), p));
  const auto prepared = Search::prepare(moments, pixels.summary(), fit.domain(), p);
  fit.trial() = where(ended, fit.trial(), p);
  return Search::linearize(pixels, fit.domain(), p, prepared);
}

/// Searches until each fit is at its minimum, or left for later.
/// @param any_of   whether a mask is set for one of all that stay in step
/// @param too_few  whether so few still search that they are better left
template <class Search, SumsFor<Search> BackEnd, class AnyOf, class TooFew>
DRIFTD_HD void search(BackEnd& pixels, SpotFit<Search>& fit, const FitOptions& options,
                      const AnyOf& any_of, const TooFew& too_few) {
  if (any_of(fit.needs_start())) fit.start(cold_start(pixels), options);
  while (any_of(fit.searching())) {
    fit.advance(evaluate(pixels, fit), options);
    if (too_few(fit.searching())) fit.leave();
  }
}

/// Then gives the result of the fits at their minimum.
template <class Search, SumsFor<Search> BackEnd>
DRIFTD_HD auto finish(BackEnd& pixels, SpotFit<Search>& fit, const FitOptions& options,
                      CovarianceOf<Search>* covariance = nullptr) {
  return fit.finish(conclude<Search>(pixels, fit.domain(), fit.minimum(), options, covariance),
                    options);
}

/// The whole fit over loaded pixels, and its covariance if that is wanted (conclude()). Several
/// fits of a back end (lanes of a vector, groups of a warp) stay in step: each joins every sum and
/// takes part in a decision where it is its own.
template <class Search, SumsFor<Search> BackEnd, class AnyOf>
DRIFTD_HD LocalizationOf<typename Search::Real> fit_spot(
    BackEnd& pixels, const FitInputOf<typename Search::Real>& input, const FitOptions& options,
    const AnyOf& any_of, CovarianceOf<Search>* covariance = nullptr) {
  using Real = typename Search::Real;
  auto result = bad_input<LocalizationOf<Real>>();
  Mask<Real> fits = Mask<Real>(true);
  for (bool is_next = false; any_of(fits); is_next = true) {
    SpotFit<Search> fit;
    fit.begin(fits, pixels.summary(), input, pixels.side(), options, is_next);
    search(pixels, fit, options, any_of, [](const auto&) { return false; });
    CovarianceOf<Search> found;
    result =
        where(fits, finish(pixels, fit, options, covariance != nullptr ? &found : nullptr), result);
    if (covariance != nullptr) *covariance = is_next ? where(fits, found, *covariance) : found;
    fits = fit.tries_again();
  }
  return result;
}

}  // namespace driftd::fitter
