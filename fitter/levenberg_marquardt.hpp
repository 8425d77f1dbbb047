// SPDX-License-Identifier: MIT
// The scale-invariant damped Levenberg-Marquardt iteration of Leutenegger & Weber 2021 (equations
// 12 to 14 with the sign and the derivative of the residual put right, and the pseudo-code of its
// kernel). Host and device; a plain value, owned by whoever runs the fit.
//
// Where the paper's pseudo-code ends "not converged" because no smaller step lowers chi-square any
// more (some 15 % of its fits), two cases are told apart: chi-square is flat to within the relative
// decrease, or the step fell below its limit, is a minimum reached to within the criterion, and is
// reported so; damping past its limit is not. In the first case the trial is kept even where
// rounding lets chi-square rise: the gradient has more digits than chi-square has near its minimum.
//
// Every search ends: an accepted step counts an iteration and lowers the damping by one factor of
// 10 at most, never below kLeastDamping; a refused one raises it by one factor of 10, and past its
// limit the search is over. most_evaluations() of fitter.hpp follows.
#pragma once

#include <cmath>

#include "fitter/fitter.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Solves (A + lambda diag A) step = gradient. False: the matrix is singular.
template <int n>
DRIFTD_HD bool damped_step(const SymmetricMatrix<n>& normal, const Vec<n>& gradient, float lambda,
                           Vec<n>& step) {
  const Factors<n> factors = factorize(normal, lambda);
  step = solve(factors, gradient);
  return factors.positive_definite;
}

template <class Search>
struct Minimum {
  typename Search::Parameters parameters;
  typename Search::Evaluation at;
  FitStatus status;
  int iterations;
  bool evaluated_last;  ///< the last parameters evaluated are these
};

/// A state machine, so that a back end may advance several fits side by side:
///   do evaluate trial(); while (!advance(evaluation));
/// @tparam Search  which parameters are searched, and how: implicit_least_squares.hpp,
/// full_search.hpp
template <class Search>
class LevenbergMarquardt {
 public:
  using Parameters = typename Search::Parameters;
  using Evaluation = typename Search::Evaluation;
  using Domain = typename Search::Domain;

  DRIFTD_HD void begin(const Parameters& start, const Domain& domain, const FitOptions& options) {
    domain_ = domain;
    lambda_ = options.lambda_start;
    trial_ = domain.limited(start);
    best_.iterations = 0;
    started_ = false;
  }

  DRIFTD_HD const Domain& domain() const { return domain_; }
  DRIFTD_HD Parameters& trial() { return trial_; }
  DRIFTD_HD const Minimum<Search>& minimum() const { return best_; }

  /// Takes the evaluation at trial(). True: ended, see minimum(); false: evaluate the new trial().
  DRIFTD_HD bool advance(const Evaluation& at, const FitOptions& options) {
    if (!started_) {
      started_ = true;
      accept(at);
      if (!std::isfinite(at.chi_square)) return ended(FitStatus::NotConverged);
      if (at.chi_square < options.min_chi_square) return ended(FitStatus::ConvergedResiduum);
    } else {
      const bool small = step_is_small(options.min_step);
      const float decrease = best_.at.chi_square - at.chi_square;
      const bool flat = std::fabs(decrease) < options.min_decrease * best_.at.chi_square;
      best_.evaluated_last = false;
      if (decrease > 0 || flat) accept(at);
      if (at.chi_square < options.min_chi_square) return ended(FitStatus::ConvergedResiduum);
      if (flat) return ended(FitStatus::ConvergedDecrease);
      if (small) return ended(FitStatus::ConvergedStep);
      if (!(decrease > 0)) return !raise_damping(options) || !propose(options);
      lambda_ = larger(0.1f * lambda_, kLeastDamping);
      if constexpr (Search::kWeighs)  // see kOvershot
        if (decrease < kOvershot * predicted_) lambda_ = larger(lambda_, kHalfStep);
    }
    if (best_.iterations >= options.max_iterations) return ended(FitStatus::IterationLimit);
    ++best_.iterations;
    return !propose(options);
  }

 private:
  DRIFTD_HD bool ended(FitStatus status) {
    best_.status = status;
    return true;
  }

  DRIFTD_HD void accept(const Evaluation& at) {
    best_.parameters = trial_;
    best_.at = at;
    best_.evaluated_last = true;
  }

  DRIFTD_HD bool step_is_small(float min_step) const {
    const Parameters scale = Search::step_scale(best_.parameters);
    bool small = true;
    for (int j = 0; j < Search::kSearched; ++j)
      small = small && std::fabs(trial_[j] - best_.parameters[j]) < min_step * scale[j];
    return small;
  }

  DRIFTD_HD bool raise_damping(const FitOptions& options) {
    lambda_ *= 10.0f;
    if (lambda_ <= options.lambda_max) return true;
    ended(FitStatus::NotConverged);
    return false;
  }

  /// The next trial. False: no damping within the limit makes the equations solvable.
  DRIFTD_HD bool propose(const FitOptions& options) {
    Vec<Search::kSearched> step;
    while (!damped_step(Search::step_matrix(best_.at), best_.at.gradient, lambda_, step))
      if (!raise_damping(options)) return false;
    for (int j = 0; j < Search::kSearched; ++j) step[j] += best_.parameters[j];
    trial_ = Search::reachable(domain_, best_.parameters, step);
    if constexpr (Search::kWeighs) {
      predicted_ = 0;
      for (int j = 0; j < Search::kSearched; ++j)
        predicted_ += (trial_[j] - best_.parameters[j]) * best_.at.gradient[j];
    }
    return true;
  }

  DRIFTD_HD static float larger(float a, float b) { return a > b ? a : b; }

  /// Half of it is nothing beside 1 in single precision. Without a limit some 45 accepted steps
  /// make the damping 0, which no factor raises again.
  static constexpr float kLeastDamping = 1e-7f;
  /// Where weights are expectations, the true curvature may be nearly twice theirs: each step then
  /// leads as far up the other side of the valley. A decrease far below the one predicted tells,
  /// and a damping of 1 about halves the step.
  static constexpr float kOvershot = 0.25f;
  static constexpr float kHalfStep = 1.0f;

  Parameters trial_;
  float predicted_;  ///< decrease to come, if weights are right
  Minimum<Search> best_;
  Domain domain_;
  float lambda_;
  bool started_;
};

}  // namespace driftd::fitter
