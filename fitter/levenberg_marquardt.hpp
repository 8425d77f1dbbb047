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
#pragma once

#include <cmath>

#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Solves (A + lambda diag A) step = gradient. False: the matrix is singular.
template <int n>
DRIFTD_HD bool damped_step(const Evaluation<n>& e, float lambda, Vec<n>& step) {
  const Factors<n> factors = factorize(e.normal, lambda);
  step = solve(factors, e.gradient);
  return factors.positive_definite;
}

template <class Model>
struct Minimum {
  typename Model::Parameters parameters;
  Evaluation<Model::kShape> at;
  FitStatus status;
  int iterations;
  bool evaluated_last;  ///< the last parameters evaluated are these
};

/// A state machine, so that a back end may advance several fits side by side:
///   do evaluate trial(); while (!advance(evaluation));
template <class Model>
class LevenbergMarquardt {
 public:
  static constexpr int kShape = Model::kShape;
  using Parameters = typename Model::Parameters;

  DRIFTD_HD void begin(const Parameters& start, int side, const FitOptions& options) {
    side_ = side;
    lambda_ = options.lambda_start;
    trial_ = Model::limited(start, side);
    best_.iterations = 0;
    started_ = false;
  }

  DRIFTD_HD const Parameters& trial() const { return trial_; }
  DRIFTD_HD const Minimum<Model>& minimum() const { return best_; }

  /// Takes the evaluation at trial(). True: ended, see minimum(); false: evaluate the new trial().
  DRIFTD_HD bool advance(const Evaluation<kShape>& at, const FitOptions& options) {
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
      lambda_ *= 0.1f;
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

  DRIFTD_HD void accept(const Evaluation<kShape>& at) {
    best_.parameters = trial_;
    best_.at = at;
    best_.evaluated_last = true;
  }

  DRIFTD_HD bool step_is_small(float min_step) const {
    const Parameters scale = Model::step_scale(best_.parameters);
    bool small = true;
    for (int j = 0; j < kShape; ++j)
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
    Vec<kShape> step;
    while (!damped_step(best_.at, lambda_, step))
      if (!raise_damping(options)) return false;
    for (int j = 0; j < kShape; ++j) step[j] += best_.parameters[j];
    trial_ = Model::limited(step, side_);
    return true;
  }

  Parameters trial_;
  Minimum<Model> best_;
  float lambda_;
  int side_;
  bool started_;
};

}  // namespace driftd::fitter
