// SPDX-License-Identifier: MIT
// Lists every model, estimator and search there is, each once, and leads from what the options ask
// for to the type that does it. docs/internals/adding-a-fit.md tells how one more is added. Host
// and device.
#pragma once

#include <type_traits>

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/fitter.hpp"
#include "fitter/full_search.hpp"
#include "fitter/host_device.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/poisson_likelihood.hpp"
#include "fitter/weighted_least_squares.hpp"

namespace driftd::fitter {

/// action.operator()<M>() with the struct of a separable model. For the other models that is the
/// circular one, by which a swarm looks for them; their own searches are in pixelwise_choice.hpp.
template <class Action>
DRIFTD_HD auto with_model(Model model, const Action& action) {
  switch (model) {
    case Model::CircularGaussian:
    case Model::RotatedGaussian:
    case Model::LineGaussian:
    case Model::EllipticalCauchy:
      break;
    case Model::EllipticalGaussian:
      return action.template operator()<EllipticalGaussian>();
  }
  return action.template operator()<CircularGaussian>();
}

/// action.operator()<Search>()
template <class Real, class Action>
DRIFTD_HD auto with_search(const FitOptions& options, const Action& action) {
  return with_model(options.model, [&]<class M>() {
    if (options.estimator == Estimator::ImplicitLeastSquares)
      return action.template operator()<ImplicitLeastSquares<M, Real>>();
    return action.template operator()<FullSearch<M, Real>>();
  });
}

/// action(Weighing, std::bool_constant<each pixel has a map value>)
template <class Real, Estimator kOf, WeighingEstimator<Real> Weighing, class Noise, class Action>
DRIFTD_HD auto with_map_or_not(const Noise& noise, const Action& action) {
  static_assert(is_likelihood(kOf) == HasValueApart<Weighing, Real>,
                "a likelihood, and nothing else, says its value() apart");
  if constexpr (!Weighing::kNeedsMap)
    if (!noise.mapped) return action(Weighing(noise), std::false_type());
  return action(Weighing(noise), std::true_type());
}

/// The same with the struct of an estimator that weighs its pixels; the others never ask, and get
/// zeros.
template <class Real, class Noise, class Action>
DRIFTD_HD auto with_weights(const Noise& noise, const Action& action) {
  // All estimators return the same type: what the back end makes of sums of weights, or nothing.
  using Squares = WeightedLeastSquares<Real>;
  constexpr auto kWeighted = Estimator::WeightedLeastSquares;
  constexpr auto kPoisson = Estimator::PoissonLikelihood;
  using Result = decltype(with_map_or_not<Real, kWeighted, Squares>(noise, action));
  switch (noise.estimator) {
    case Estimator::ImplicitLeastSquares:
    case Estimator::LeastSquares:
      break;
    case Estimator::WeightedLeastSquares:
      return with_map_or_not<Real, kWeighted, Squares>(noise, action);
    case Estimator::PoissonLikelihood:
      return with_map_or_not<Real, kPoisson, PoissonLikelihood<Real>>(noise, action);
  }
  return Result();
}

}  // namespace driftd::fitter
