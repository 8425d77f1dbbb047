// SPDX-License-Identifier: MIT
#include "control/drift/consensus.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace driftd::control {
namespace {

/// The biweight's fixed point is reached to below 1e-3 nm well before (measured: tests).
constexpr int kIterations = 12;
constexpr double kLargestWeightRatio = 2;
/// A biweight's weights follow the values, which makes the mean's variance larger than fixed
/// weights would. The factor grows with the fourth power of (this * standard deviation / limit).
/// Measured in the stillness bench: 1.03, 1.06 and 1.08 with 4, 16 and 100 markers, and nothing
/// where the limit is many standard deviations.
constexpr double kLossShare = 2.1;

double mean_variance(const Vote& vote) noexcept {
  return 0.5 * (vote.variance_nm2.x + vote.variance_nm2.y);
}

double square_of_distance(const Vote& vote, Vec2 centre) noexcept {
  const double x = vote.value_nm.x - centre.x;
  const double y = vote.value_nm.y - centre.y;
  return x * x + y * y;
}

/// @param u2  square of distance over limit
double biweight(double u2) noexcept {
  return u2 < 1 ? (1 - u2) * (1 - u2) : 0.0;
}

double median(std::span<double> values) noexcept {
  const double low = lower_median(values);
  if (values.size() % 2 == 1) return low;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return 0.5 * (low + *std::min_element(middle, values.end()));
}

Vec2 componentwise_median(std::span<const Vote> votes, std::span<double> scratch) noexcept {
  Vec2 centre;
  std::transform(votes.begin(), votes.end(), scratch.begin(),
                 [](const Vote& v) { return v.value_nm.x; });
  centre.x = median(scratch);
  std::transform(votes.begin(), votes.end(), scratch.begin(),
                 [](const Vote& v) { return v.value_nm.y; });
  centre.y = median(scratch);
  return centre;
}

/// How much the markers scatter compared to what their uncertainties promise; at least 1.
double observed_scale(std::span<const Vote> votes, Vec2 centre, std::span<double> scratch,
                      double median_distance) noexcept {
  std::transform(votes.begin(), votes.end(), scratch.begin(), [centre](const Vote& v) {
    return square_of_distance(v, centre) / mean_variance(v);
  });
  return std::max(1.0, std::sqrt(lower_median(scratch)) / median_distance);
}

double median_weight(std::span<const Vote> votes, std::span<double> scratch) noexcept {
  std::transform(votes.begin(), votes.end(), scratch.begin(),
                 [](const Vote& v) { return 1 / mean_variance(v); });
  return lower_median(scratch);
}

Covariance2 covariance_of(std::span<const Vote> votes, Vec2 centre, int used) noexcept {
  Covariance2 formal;
  Covariance2 observed;
  for (const Vote& v : votes) {
    const double w2 = v.weight * v.weight;
    const double rx = v.value_nm.x - centre.x;
    const double ry = v.value_nm.y - centre.y;
    if (w2 == 0) continue;
    formal.xx += w2 * (v.variance_nm2.x - v.floor_nm2);
    formal.yy += w2 * (v.variance_nm2.y - v.floor_nm2);
    observed.xx += w2 * rx * rx;
    observed.xy += w2 * rx * ry;
    observed.yy += w2 * ry * ry;
  }
  const double unbias = used > 1 ? static_cast<double>(used) / (used - 1) : 1.0;
  return {std::max(formal.xx, observed.xx * unbias), observed.xy * unbias,
          std::max(formal.yy, observed.yy * unbias)};
}

}  // namespace

double biweight(double distance, double limit) noexcept {
  const double u = distance / limit;
  return biweight(u * u);
}

double sd_of(const Vote& vote) noexcept {
  return std::sqrt(mean_variance(vote));
}

double lower_median(std::span<double> values) noexcept {
  assert(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Consensus robust_mean(std::span<Vote> votes, RobustLimits limits, std::span<double> scratch,
                      double median_distance) noexcept {
  Consensus result;
  if (votes.empty()) return result;
  scratch = scratch.first(votes.size());
  Vec2 centre = componentwise_median(votes, scratch);
  result.scale = observed_scale(votes, centre, scratch, median_distance);
  const double typical_weight = median_weight(votes, scratch);
  const double cap = kLargestWeightRatio * typical_weight;
  if (votes.size() > 1)
    result.others_sd_nm = 1 / std::sqrt(typical_weight * static_cast<double>(votes.size() - 1));
  for (Vote& v : votes) {
    const double sd_nm = std::hypot(sd_of(v), result.others_sd_nm);
    const double limit_nm = limits.limit_nm(sd_nm, result.scale);
    v.per_limit_nm2 = 1 / (limit_nm * limit_nm);
    const double share = votes.size() > 1 ? kLossShare * sd_nm / limit_nm : 0;
    v.loss = 1 + share * share * share * share;
    v.weight_at_centre = v.trust * std::min(cap, 1 / mean_variance(v));
  }
  double sum = 0;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    sum = 0;
    Vec2 weighted;
    for (Vote& v : votes) {
      v.weight = v.weight_at_centre * biweight(square_of_distance(v, centre) * v.per_limit_nm2);
      sum += v.weight;
      weighted.x += v.weight * v.value_nm.x;
      weighted.y += v.weight * v.value_nm.y;
    }
    if (!(sum > 0)) return result;
    centre = {weighted.x / sum, weighted.y / sum};
  }
  for (Vote& v : votes) {
    v.weight /= sum;
    result.used += v.weight > 0 ? 1 : 0;
    result.reference_nm2 += v.weight * v.weight * v.reference_nm2;
    result.noise_nm2.x += v.weight * v.weight * (v.variance_nm2.x - v.reference_nm2);
    result.noise_nm2.y += v.weight * v.weight * (v.variance_nm2.y - v.reference_nm2);
    const double constant_nm2 = v.reference_nm2 + v.floor_nm2, w2 = v.weight * v.weight * v.loss;
    result.fit_noise_nm2.x += w2 * std::max(0.0, v.variance_nm2.x - constant_nm2);
    result.fit_noise_nm2.y += w2 * std::max(0.0, v.variance_nm2.y - constant_nm2);
  }
  result.value_nm = centre;
  result.covariance_nm2 = covariance_of(votes, centre, result.used);
  return result;
}

}  // namespace driftd::control
