// SPDX-License-Identifier: MIT
#include "control/identification/record_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::control {
namespace {

constexpr std::size_t kValleys = 4;
/// A valley of the sum of squares that is no deeper than the best by more is as likely.
constexpr double kAsLikely = 16;
/// A stage's natural frequency in units of the frame rate beyond which there may be several.
constexpr double kUnresolved = 0.3;
constexpr std::size_t kLeastOrder = 12;
/// A record has to give so many frames for each coefficient of the noise.
constexpr std::size_t kFramesACoefficient = 30;

std::size_t noise_order(const FitData& data, std::size_t most) {
  return std::clamp<std::size_t>(data.slots.present() / kFramesACoefficient, kLeastOrder, most);
}

/// Shapes of second order that lag by `lag_s`, as far as there are such.
void add_starts(const FitData& data, double lag_s, std::vector<ResponseFit>& starts) {
  for (int n = 0; n < 11; ++n) {
    const double frequency_hz = 7 * std::pow(1.5, n);
    for (const double damping : {0.5, 0.9}) {
      ResponseShape start{.order = 2, .frequency_hz = frequency_hz, .damping = damping};
      start.delay_s = lag_s - lag_of(start);
      if (start.delay_s >= 0) starts.push_back(fit_gains(data, start));
    }
  }
}

}  // namespace

double lag_of(const ResponseShape& shape) {
  return shape.damping / (std::numbers::pi * shape.frequency_hz);
}

std::vector<ResponseFit> fit_from_several(const FitData& data, const ResponseShape& found,
                                          bool any_lag) {
  const double lag_s = found.delay_s + lag_of(found);
  std::vector<ResponseFit> starts;
  for (const double share : {0.85, 1.0, 1.15}) add_starts(data, share * lag_s, starts);
  if (any_lag)
    for (const double share : {0.25, 0.4, 0.55, 0.7, 1.35, 1.6})
      add_starts(data, share * lag_s, starts);
  starts.push_back(fit_gains(data, found));
  const auto by_chi_square = [](const ResponseFit& a, const ResponseFit& b) {
    return a.chi_square < b.chi_square;
  };
  std::ranges::sort(starts, by_chi_square);
  std::vector<ResponseFit> fits;
  for (const ResponseFit& start : starts) {
    // One of each frequency: neighbours lie in the same valley.
    const bool new_one = std::ranges::none_of(fits, [&](const ResponseFit& fit) {
      return std::abs(std::log(fit.shape.frequency_hz / start.shape.frequency_hz)) < 0.3;
    });
    if (!new_one) continue;
    fits.push_back(start);
    if (fits.size() == kValleys) break;
  }
  for (ResponseFit& fit : fits) fit = fit_response(data, fit.shape, kFewFitRounds);
  std::ranges::sort(fits, by_chi_square);
  return fits;
}

SettledFit settle(PreparedRecord& prepared, ResponseFit fit, bool any_lag, std::size_t most_order) {
  FitData& data = prepared.data;
  const std::size_t order = noise_order(data, most_order);
  for (int round = 0; round < 2; ++round) {
    mark_history(data.slots, order);
    const auto left = unexplained(data, fit, false);
    fit_noise(data, left, order, 0, data.slots.use.size());
    prepared.outliers += leave_out_outliers(data, left);
    mark_history(data.slots, order);
    if (round == 0) fit = fit_response(data, fit.shape, kFitRounds);
  }
  // Where frames follow one another more slowly than the stage answers, there may be a better one.
  std::vector<ResponseFit> fits = {fit};
  if (any_lag || fit.shape.frequency_hz * data.slots.period_s > kUnresolved)
    fits = fit_from_several(data, fit.shape, any_lag);
  SettledFit settled{.fit = fit_response(data, fits.front().shape, kFitRounds), .as_likely = {}};
  for (const ResponseFit& other : fits) {
    if (other.chi_square < settled.fit.chi_square + kAsLikely)
      settled.as_likely.push_back(other.shape);
  }
  return settled;
}

ResponseFit with_simplest_order(const FitData& data, ResponseFit fit) {
  ResponseShape simple = fit.shape;
  simple.order = 1;
  simple.time_constant_s = lag_of(fit.shape);
  ResponseFit first = fit_response(data, simple, kFitRounds);
  return first.converged && first.chi_square < fit.chi_square ? first : fit;
}

}  // namespace driftd::control
