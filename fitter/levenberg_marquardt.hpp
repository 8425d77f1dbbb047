// SPDX-License-Identifier: MIT
// The scale-invariant damped Levenberg-Marquardt iteration of Leutenegger & Weber 2021 (equations
// 12 to 14 with the sign and the derivative of the residual put right, and the pseudo-code of its
// kernel), over any function that evaluates a set of parameters. Host and device; no memory of its
// own, callable from any thread.
//
// Where the paper's pseudo-code ends "not converged" because no smaller step lowers chi-square any
// more (some 15 % of its fits), two cases are told apart: chi-square is flat to within the relative
// decrease, or the step fell below its limit, is a minimum reached to within the criterion, and is
// reported so; damping past its limit is not.
#pragma once

#include <cmath>

#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Solves (A + lambda diag A) step = gradient in variables scaled to a unit diagonal, which keeps
/// single precision away from overflow whatever the amplitude. False: the matrix is singular.
template <int n>
DRIFTD_HD bool damped_step(const Evaluation<n>& e, float lambda, Vec<n>& step) {
  Vec<n> scale;
  for (int j = 0; j < n; ++j) {
    if (!(e.normal(j, j) > 0)) return false;
    scale[j] = 1.0f / std::sqrt(e.normal(j, j));
  }
  SymmetricMatrix<n> scaled;
  Vec<n> right;
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k < j; ++k) scaled(j, k) = e.normal(j, k) * scale[j] * scale[k];
    scaled(j, j) = 1.0f + lambda;
    right[j] = e.gradient[j] * scale[j];
  }
  const Cholesky<n> factors = factorize(scaled);
  if (!factors.positive_definite) return false;
  step = solve(factors, right);
  for (int j = 0; j < n; ++j) step[j] *= scale[j];
  return true;
}

template <class Model>
struct Minimum {
  typename Model::Parameters parameters;
  Evaluation<Model::kShape> at;
  FitStatus status;
  int iterations;
};

/// @param evaluate  Evaluation<n> evaluate(const Parameters&)
template <class Model, class Evaluate>
DRIFTD_HD Minimum<Model> minimize(Evaluate&& evaluate, const typename Model::Parameters& start,
                                  int side, const FitOptions& options) {
  constexpr int n = Model::kShape;
  using Parameters = typename Model::Parameters;
  Minimum<Model> best;
  best.parameters = Model::limited(start, side);
  best.at = evaluate(best.parameters);
  best.iterations = 0;
  const auto ended = [&best](FitStatus status) {
    best.status = status;
    return best;
  };
  if (!std::isfinite(best.at.chi_square)) return ended(FitStatus::NotConverged);
  if (best.at.chi_square < options.min_chi_square) return ended(FitStatus::ConvergedResiduum);

  float lambda = options.lambda_start;
  while (best.iterations < options.max_iterations) {
    ++best.iterations;
    for (;;) {
      Vec<n> step;
      if (damped_step(best.at, lambda, step)) {
        Parameters moved;
        for (int j = 0; j < n; ++j) moved[j] = best.parameters[j] + step[j];
        const Parameters trial = Model::limited(moved, side);
        const Evaluation<n> at = evaluate(trial);
        const Parameters scale = Model::step_scale(best.parameters);
        bool small = true;
        for (int j = 0; j < n; ++j) {
          const float change = std::fabs(trial[j] - best.parameters[j]);
          small = small && change < options.min_step * scale[j];
        }
        const float decrease = best.at.chi_square - at.chi_square;
        const bool flat = std::fabs(decrease) < options.min_decrease * best.at.chi_square;
        if (decrease > 0) {
          best.parameters = trial;
          best.at = at;
        }
        if (decrease > 0 && at.chi_square < options.min_chi_square)
          return ended(FitStatus::ConvergedResiduum);
        if (flat) return ended(FitStatus::ConvergedDecrease);
        if (small) return ended(FitStatus::ConvergedStep);
        if (decrease > 0) break;
      }
      lambda *= 10.0f;
      if (!(lambda <= options.lambda_max)) return ended(FitStatus::NotConverged);
    }
    lambda *= 0.1f;
  }
  return ended(FitStatus::IterationLimit);
}

}  // namespace driftd::fitter
