// SPDX-License-Identifier: MIT
// What a model of a spot has to say; docs/internals/adding-a-fit.md tells each member's meaning.
// Host and device.
#pragma once

#include <concepts>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/real.hpp"
#include "fitter/searched_levels.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Moments as a model may read them.
struct AnyMoments {
  float operator()(int a, int b) const;
};

template <class M, class Shape = typename M::template Parameters<float>>
concept SpotModel = std::same_as<Shape, Vec<M::kShape>> &&(M::kShape >= 2) &&
                    (M::kShape <= kMostSeparable) &&
                    requires(const Shape& p, const Start& start, const AnyMoments& moments,
                             const ResidualMoments& residuals, int side,
                             const Vec<M::kShape + 2>& sd, const Vec<M::kShape>& spread,
                             LocalizationOf<float>& result) {
  { M::from_start(start) } -> std::same_as<Shape>;
  { M::profile(p) } -> std::same_as<Profile>;
  { M::lowest(side) } -> std::same_as<Shape>;
  { M::highest(side) } -> std::same_as<Shape>;
  { M::step_scale(p) } -> std::same_as<Shape>;
  { M::totals(moments, p) } -> std::same_as<ProfileTotals<M::kShape>>;
  { M::products(moments, p) } -> std::same_as<ProfileProducts<M::kShape>>;
  { M::residual_products(residuals, p) } -> std::same_as<Shape>;
  M::store(p, result);
  M::store_sd(sd, p, result);
  M::store_sd(spread, p, result);
};

/// Within the model's limits.
template <SpotModel Model, class Real>
DRIFTD_HD Vec<Model::kShape, Real> limited(Vec<Model::kShape, Real> p, int side) {
  const Vec<Model::kShape> lowest = Model::lowest(side), highest = Model::highest(side);
  for (int j = 0; j < Model::kShape; ++j) p[j] = clamped(p[j], Real(lowest[j]), Real(highest[j]));
  return p;
}

}  // namespace driftd::fitter
