// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/quantised_noise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::clients {
namespace {

constexpr double kPi = std::numbers::pi;

/// Density over probability of a standard normal's lower tail.
double tail_ratio(double z) noexcept {
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  if (below < 1e-12) return -z;  // its asymptote
  return std::exp(-z * z / 2) / std::sqrt(2 * kPi) / below;
}

}  // namespace

double rounded_variance(double sd) noexcept {
  constexpr double kSmall = 0.15;  // two frames then differ by less than a level
  if (sd < kSmall) return sd / std::sqrt(kPi);
  double sum = sd * sd + 1.0 / 12;
  for (int k = 1; k <= 10; ++k) {
    sum -= std::exp(-4 * kPi * kPi * k * k * sd * sd) / (2 * kPi * kPi * k * k);
  }
  return sum;
}

double sd_before_rounding(double variance) noexcept {
  if (variance <= 0) return 0;
  double low = 0;
  double high = std::sqrt(variance) + 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (rounded_variance(middle) < variance ? low : high) = middle;
  }
  return (low + high) / 2;
}

namespace {

/// Mean and variance of a normal variable after rounding.
Normal rounded(double mean, double sd) noexcept {
  const auto below = [&](double limit) {
    return 0.5 * std::erfc((mean - limit) / (sd * std::numbers::sqrt2));
  };
  const double middle = std::round(mean);
  const int reach = 2 + static_cast<int>(6 * sd);
  Normal sum;
  double square = 0;
  for (int i = -reach; i <= reach; ++i) {
    const double share = below(middle + i + 0.5) - below(middle + i - 0.5);
    sum.mean += share * i;
    square += share * i * i;
  }
  sum.variance = square - sum.mean * sum.mean;
  sum.mean += middle;
  return sum;
}

/// The argument in low .. high at which a rising function reaches `value`.
template <typename Function>
double bisect(double low, double high, double value, Function function) noexcept {
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (function(middle) < value ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Mean variance of pixels after rounding.
double mean_pixel_variance(double mean, double pattern_sd, double noise_sd) noexcept {
  constexpr int kNodes = 60;
  double sum = 0;
  double weights = 0;
  for (int i = -kNodes; i <= kNodes; ++i) {
    const double z = 4.5 * i / kNodes;
    const double weight = std::exp(-z * z / 2);
    sum += weight * rounded(mean + z * pattern_sd, noise_sd).variance;
    weights += weight;
  }
  return sum / weights;
}

}  // namespace

RoundedPixels before_rounding(double mean, double variance, double pixel_variance) noexcept {
  const auto mean_at = [&](double sd) {
    return bisect(mean - 1, mean + 1, mean, [&](double m) { return rounded(m, sd).mean; });
  };
  const double sd = bisect(1e-3, std::sqrt(variance) + 1, variance,
                           [&](double s) { return rounded(mean_at(s), s).variance; });
  const double true_mean = mean_at(sd);
  const auto pattern = [&](double noise) {
    return std::sqrt(std::max(0.0, sd * sd - noise * noise));
  };
  const double noise = bisect(1e-4, sd, pixel_variance, [&](double s) {
    return mean_pixel_variance(true_mean, pattern(s), s);
  });
  return {true_mean, pattern(noise), noise};
}

Normal fit_censored(const CensoredSample& sample, double limit) noexcept {
  const double all = sample.below + sample.above;
  Normal fit{sample.mean_above, std::max(sample.var_above, 1e-6)};
  for (int i = 0; i < 300; ++i) {
    const double sd = std::sqrt(fit.variance);
    const double z = (limit - fit.mean) / sd;
    const double ratio = tail_ratio(z);
    const double mean_below = fit.mean - sd * ratio;
    const double square_below = fit.variance * (1 - z * ratio - ratio * ratio);
    const double mean = (sample.above * sample.mean_above + sample.below * mean_below) / all;
    const auto about = [mean](double value) { return (value - mean) * (value - mean); };
    const double variance = (sample.above * (sample.var_above + about(sample.mean_above)) +
                             sample.below * (std::max(0.0, square_below) + about(mean_below))) /
                            all;
    const double change = std::abs(mean - fit.mean) + std::abs(std::sqrt(variance) - sd);
    fit = {mean, std::max(variance, 1e-6)};
    if (change < 1e-5 * sd) break;
  }
  return fit;
}

}  // namespace driftd::clients
