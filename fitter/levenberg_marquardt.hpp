// SPDX-License-Identifier: MIT
// The scale-invariant damped Levenberg-Marquardt iteration of Leutenegger & Weber 2021 (equations
// 12 to 14 with the sign and the derivative of the residual put right, and the pseudo-code of its
// kernel). Host and device; a plain value, owned by whoever runs the fit.
//
// The paper's pseudo-code ends "not converged" where no smaller step lowers chi-square any more
// (some 15 % of its fits). Here two of these cases are minima reached to within the criterion, and
// are reported so: chi-square is flat to within the relative decrease, or the step fell below its
// limit. Damping past its limit is none. In the first case the trial is kept even where rounding
// lets chi-square rise: near its minimum the gradient has more digits than chi-square has. A small
// step counts only where the undamped one is small, too, because damping makes any step small; or
// where chi-square changed by no more than its rounding: no shorter step will tell more.
//
// The step that these criteria would end at is not evaluated where the gradient tells what it
// brings (end_at_trial()): the same minimum, for an evaluation less.
//
// Every search ends: an accepted step counts an iteration and lowers the damping by one factor of
// 10 at most, never below kLeastDamping; a refused one raises it by one factor of 10, and past its
// limit the search is over. most_evaluations() of fitter.hpp follows.
#pragma once

#include <concepts>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/real.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// What is searched: parameters, their limits, and the equations about a point.
template <class S, class Parameters = typename S::Parameters>
concept SearchSpace = requires(const Parameters& p, const typename S::Domain& domain,
                               const typename S::Evaluation& at,
                               const FitInputOf<typename S::Real>& input) {
  { S::kSearched } -> std::convertible_to<int>;
  /// Amplitude and background, too: it takes start levels, bounds and a map.
  { S::kSearchesLevels } -> std::convertible_to<bool>;
  { domain.limited(p) } -> std::same_as<Parameters>;
  { S::from_start(input, domain) } -> std::same_as<Parameters>;
  { S::reachable(domain, p, p) } -> std::same_as<Parameters>;
  { S::step_scale(p) } -> std::same_as<Parameters>;
  /// The least difference of two evaluations' chi-squares that tells their order; infinite: none.
  { S::least_told(domain, at, at) } -> std::same_as<typename S::Real>;
  /// The most that chi-square may change in a step that counts as small; infinite: anything.
  { S::most_in_small_step(domain, at) } -> std::same_as<typename S::Real>;
  /// Whether the equations there tell what a short step brings.
  { S::tells_ahead(domain, at) } -> std::same_as<Mask<typename S::Real>>;
  { at.chi_square } -> std::convertible_to<typename S::Real>;
  /// Half of what chi-square falls by, at limits, too; right_side() is 0 for what is held there.
  { at.gradient } -> std::convertible_to<Vec<S::kSearched, typename S::Real>>;
  { at.right_side() } -> std::convertible_to<Vec<S::kSearched, typename S::Real>>;
  factorize(at.equations());
};

template <SearchSpace Search>
struct Minimum {
  typename Search::Parameters parameters;      ///< the best ones evaluated
  typename Search::Evaluation at;              ///< of these
  typename Search::Real status, iterations;    ///< as in LocalizationOf
  Mask<typename Search::Real> evaluated_last;  ///< the last parameters evaluated are these
  typename Search::Parameters trial;           ///< the last one
  Mask<typename Search::Real> is_at_trial;     ///< the search ended there, without an evaluation

  /// Where the search ended.
  DRIFTD_HD typename Search::Parameters found() const {
    return where(is_at_trial, trial, parameters);
  }
  /// By how much chi-square is lower there than where it was evaluated, by the gradient.
  DRIFTD_HD typename Search::Real decrease() const {
    const typename Search::Parameters to = found();
    typename Search::Real sum = 0.0f;
    for (int j = 0; j < Search::kSearched; ++j) sum += (to[j] - parameters[j]) * at.gradient[j];
    return sum;
  }
};

/// Where a search begins, or stands between two evaluations, so that it can go on elsewhere.
template <SearchSpace Search>
struct SearchState {
  typename Search::Parameters parameters;     ///< to be evaluated
  typename Search::Real damping, iterations;  ///< before that evaluation
};

/// A state machine, so that a back end may advance several fits side by side:
///   while (any(searching())) advance(evaluation of trial());
/// @tparam Search  which parameters are searched, and how: implicit_least_squares.hpp,
/// full_search.hpp
template <SearchSpace Search>
class LevenbergMarquardt {
 public:
  using Real = typename Search::Real;
  using Parameters = typename Search::Parameters;
  using Evaluation = typename Search::Evaluation;
  using Domain = typename Search::Domain;

  /// No fit searches yet.
  DRIFTD_HD void set_domain(const Domain& domain) {
    domain_ = domain;
    searching_ = first_ = Mask<Real>(false);
    // Fits that never begin are computed, too, beside others.
    best_.trial = domain.limited(Search::from_start({}, domain));
    best_.parameters = best_.trial;
    best_.at = {};
    best_.status = best_.iterations = predicted_ = 0.0f;
    best_.evaluated_last = best_.is_at_trial = Mask<Real>(false);
    lambda_ = 1.0f;
  }

  /// Begins the searches of the mask. A search that was paused goes on from its state as it would
  /// have, to the bit, after one more evaluation of its parameters.
  DRIFTD_HD void begin(const Mask<Real>& which, const SearchState<Search>& from) {
    lambda_ = where(which, from.damping, lambda_);
    best_.is_at_trial = best_.is_at_trial && !which;
    best_.trial = where(which, domain_.limited(from.parameters), best_.trial);
    best_.iterations = where(which, from.iterations, best_.iterations);
    first_ = first_ || which;
    searching_ = searching_ || which;
  }

  /// Stops the searches that still go on where they stand.
  /// @pre each has been advanced
  DRIFTD_HD void pause() { searching_ = Mask<Real>(false); }
  /// Where the paused searches stand, until the next advance().
  DRIFTD_HD SearchState<Search> state() const {
    return {best_.parameters, lambda_, best_.iterations - 1.0f};
  }

  DRIFTD_HD const Domain& domain() const { return domain_; }
  DRIFTD_HD Parameters& trial() { return best_.trial; }
  DRIFTD_HD const Mask<Real>& searching() const { return searching_; }
  DRIFTD_HD const Minimum<Search>& minimum() const { return best_; }

  /// Takes the evaluation at trial(). A search that goes on has a new trial then.
  DRIFTD_HD void advance(const Evaluation& at, const FitOptions& options) {
    const Real decrease = decrease_to(at);
    const Mask<Real> lower = first_ || decrease > 0.0f;
    const Mask<Real> flat =
        !first_ && abs_of(decrease) < options.min_decrease * best_.at.chi_square;
    Mask<Real> small = searching_ && !first_ && !flat && is_small(best_.trial, options.min_step) &&
                       abs_of(decrease) < Search::most_in_small_step(domain_, best_.at);
    const Mask<Real> told = small && !(abs_of(decrease) <= kRounding * best_.at.chi_square);
    if (any(told)) small = small && (!told || undamped_is_small(options.min_step));
    const Mask<Real> accepted = searching_ && (lower || flat);
    accept(accepted, at);
    best_.evaluated_last = where(searching_, accepted, best_.evaluated_last);
    end(first_ && !is_finite(at.chi_square), FitStatus::NotConverged);
    end(at.chi_square < options.min_chi_square, FitStatus::ConvergedResiduum);
    end(flat, FitStatus::ConvergedDecrease);
    end(small, FitStatus::ConvergedStep);
    if (!any(searching_)) return;

    const Mask<Real> lowered = lower && !first_;
    lambda_ = where(lowered, larger(0.1f * lambda_, Real(kLeastDamping)), lambda_);
    if constexpr (Search::kSearchesLevels)  // see kOvershot
      lambda_ = where(lowered && decrease < kOvershot * predicted_,
                      larger(lambda_, Real(kHalfStep)), lambda_);
    raise_damping(searching_ && !lower, options);
    end(lower && best_.iterations > static_cast<float>(options.max_iterations) - 0.5f,
        FitStatus::IterationLimit);
    best_.iterations = where(searching_ && lower, best_.iterations + 1.0f, best_.iterations);
    first_ = Mask<Real>(false);
    propose(options);
  }

 private:
  /// The decrease of chi-square from the best evaluation to one at trial(). Where their difference
  /// does not tell, as near its rounding, it comes from the gradients at both: the trapezoidal
  /// rule, whose error is as small a part of the decrease as the step is beside sigma.
  DRIFTD_HD Real decrease_to(const Evaluation& at) const {
    const Real difference = best_.at.chi_square - at.chi_square;
    Real by_gradients = 0.0f;
    for (int j = 0; j < Search::kSearched; ++j)
      by_gradients +=
          (best_.trial[j] - best_.parameters[j]) * (best_.at.gradient[j] + at.gradient[j]);
    return where(abs_of(difference) < Search::least_told(domain_, best_.at, at), by_gradients,
                 difference);
  }

  /// Those of the mask that search still.
  DRIFTD_HD void end(const Mask<Real>& mask, FitStatus status) {
    const Mask<Real> now = searching_ && mask;
    best_.status = where(now, Real(code_of(status)), best_.status);
    searching_ = searching_ && !now;
  }

  DRIFTD_HD void accept(const Mask<Real>& mask, const Evaluation& at) {
    best_.parameters = where(mask, best_.trial, best_.parameters);
    best_.at = where(mask, at, best_.at);
  }

  DRIFTD_HD Mask<Real> is_small(const Parameters& to, float min_step) const {
    const Parameters scale = Search::step_scale(best_.parameters);
    Mask<Real> small = Mask<Real>(true);
    for (int j = 0; j < Search::kSearched; ++j)
      small = small && abs_of(to[j] - best_.parameters[j]) < min_step * scale[j];
    return small;
  }

  DRIFTD_HD Mask<Real> undamped_is_small(float min_step) const {
    const auto factors = factorize(best_.at.equations());
    Parameters to = solve(factors, best_.at.right_side());
    for (int j = 0; j < Search::kSearched; ++j) to[j] += best_.parameters[j];
    return factors.positive_definite && is_small(domain_.limited(to), min_step);
  }

  DRIFTD_HD void raise_damping(const Mask<Real>& mask, const FitOptions& options) {
    lambda_ = where(mask, 10.0f * lambda_, lambda_);
    end(mask && lambda_ > options.lambda_max, FitStatus::NotConverged);
  }

  /// The next trial. Ends where no damping within the limit makes the equations solvable.
  DRIFTD_HD void propose(const FitOptions& options) {
    const auto equations = best_.at.equations();
    Parameters to = best_.parameters;
    Mask<Real> unsolved = searching_;
    while (any(unsolved)) {
      const auto factors = factorize(equations, lambda_);
      const Parameters step = solve(factors, best_.at.right_side());
      const Mask<Real> solved = unsolved && factors.positive_definite;
      for (int j = 0; j < Search::kSearched; ++j)
        to[j] = where(solved, best_.parameters[j] + step[j], to[j]);
      raise_damping(unsolved && !solved, options);
      unsolved = unsolved && !solved && searching_;
    }
    const Parameters reached = Search::reachable(domain_, best_.parameters, to);
    best_.trial = where(searching_, reached, best_.trial);
    Real predicted = 0.0f;
    Mask<Real> whole = Mask<Real>(true);
    for (int j = 0; j < Search::kSearched; ++j) {
      predicted += (best_.trial[j] - best_.parameters[j]) * best_.at.gradient[j];
      whole = whole && !(abs_of(reached[j] - to[j]) > 0.0f);
    }
    if constexpr (Search::kSearchesLevels) predicted_ = predicted;
    end_at_trial(whole, predicted, options);
  }

  /// Ends searches whose trial is the last, without an evaluation that would only say so: where the
  /// trial is near, undamped and not cut off by a limit, so that it brings what is predicted. That
  /// has to be little, because conclude() tells of the evaluation before it.
  /// @param whole      the trial is as far as the equations want it
  /// @param predicted  what chi-square falls by to the trial
  DRIFTD_HD void end_at_trial(const Mask<Real>& whole, const Real& predicted,
                              const FitOptions& options) {
    const Mask<Real> flat = predicted < kSure * options.min_decrease * best_.at.chi_square;
    const Mask<Real> small = is_small(best_.trial, options.min_step) &&
                             predicted < Search::most_in_small_step(domain_, best_.at);
    const Mask<Real> short_enough = lambda_ < kUndamped && is_small(best_.trial, kNear) &&
                                    predicted < kLittle * best_.at.chi_square;
    const Mask<Real> last = searching_ && whole && (flat || small) && short_enough &&
                            Search::tells_ahead(domain_, best_.at);
    best_.is_at_trial = best_.is_at_trial || last;
    best_.status = where(last,
                         where(flat, Real(code_of(FitStatus::ConvergedDecrease)),
                               Real(code_of(FitStatus::ConvergedStep))),
                         best_.status);
    searching_ = searching_ && !last;
  }

  /// Relative rounding error of chi-square: its pixels' shares are added up in parts.
  static constexpr float kRounding = 1e-5f;
  /// Half of this is nothing beside 1 in single precision. Without a limit some 45 accepted steps
  /// would make the damping 0, which no factor raises again.
  static constexpr float kLeastDamping = 1e-7f;
  /// Where weights are expectations, the true curvature may be nearly twice theirs: each step then
  /// leads as far up the other side of the valley. A decrease far below the one predicted tells,
  /// and a damping of 1 about halves the step.
  static constexpr float kOvershot = 0.25f;
  static constexpr float kHalfStep = 1.0f;
  static constexpr float kUndamped = 2e-2f;  ///< damping below this is as good as none
  static constexpr float kNear = 1e-2f;      ///< in scales of a step
  static constexpr float kLittle = 1e-2f;    ///< of chi-square
  /// A spot that the model does not fit may fall by twice of what is predicted.
  static constexpr float kSure = 0.5f;

  Real predicted_;  ///< decrease to the trial, if weights are right
  Minimum<Search> best_;
  Domain domain_;
  Real lambda_;
  Mask<Real> first_, searching_;
};

}  // namespace driftd::fitter
