// SPDX-License-Identifier: MIT
#include "control/identification/command_waiting.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace driftd::control {
namespace {

/// Scatter of neighbouring frames goes together: the error is that of so many blocks' sums.
constexpr std::size_t kBlocks = 16;
/// A smooth response fits an even distribution badly: the share may come out above 1.
constexpr double kMostShare = 1.5;

/// Variance of where an image axis may be commanded to be, [slot].
std::vector<double> scatter_of_waiting(const FitData& data, const ResponseFit& fit,
                                       std::size_t axis) {
  const auto& commands = data.staircase.channels;
  std::vector<double> place(data.staircase.sent_s.size()), square(place.size());
  for (std::size_t m = 0; m < place.size(); ++m) {
    for (std::size_t c = 0; c < commands.size(); ++c)
      place[m] += fit.linear[axis][c] * commands[c][m];
    square[m] = place[m] * place[m];
  }
  FitData squares = data;
  squares.staircase.channels = {std::move(place), std::move(square)};
  const auto response = respond_in_slots(squares, fit.shape);
  std::vector<double> scatter(response[0].size());
  for (std::size_t k = 0; k < scatter.size(); ++k)
    scatter[k] = std::max(0.0, response[1][k] - response[0][k] * response[0][k]);
  return scatter;
}

/// How long the response to a step takes, as 6 times the integral of p (1 - p): of a command that
/// waits for up to a period, all times as likely, that is the period.
double width_of(const ResponseShape& shape) {
  const double lag_s = shape.order == 1
                           ? shape.time_constant_s
                           : 1 / (2 * M_PI * shape.frequency_hz * std::min(1.0, shape.damping));
  constexpr int kSteps = 1000;
  const double step_s = 12 * lag_s / kSteps;
  double sum_s = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double p = shape.step(shape.delay_s + (i + 0.5) * step_s);
    sum_s += std::max(0.0, p * (1 - p)) * step_s;
  }
  return 6 * sum_s;
}

}  // namespace

SeenWaiting see_waiting(const FitData& data, const ResponseFit& fit) {
  const auto left = unexplained(data, fit, false);
  struct Sums {
    double both = 0, square = 0;
  };
  std::vector<Sums> blocks(kBlocks);
  Sums all;
  for (std::size_t axis = 0; axis < data.axes; ++axis) {
    const std::vector<double> expected = scatter_of_waiting(data, fit, axis);
    double mean_expected = 0, mean_seen = 0;
    std::size_t count = 0;
    for (std::size_t k = data.begin; k < data.end; ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      mean_expected += expected[k];
      mean_seen += left[axis][k] * left[axis][k];
      ++count;
    }
    if (count == 0) return {};
    mean_expected /= static_cast<double>(count);
    mean_seen /= static_cast<double>(count);
    for (std::size_t k = data.begin; k < data.end; ++k) {
      if (data.slots.use[k] == SlotUse::Missing) continue;
      Sums& block = blocks[(k - data.begin) * kBlocks / (data.end - data.begin)];
      const double away = expected[k] - mean_expected;
      block.both += away * (left[axis][k] * left[axis][k] - mean_seen);
      block.square += away * away;
    }
  }
  for (const Sums& block : blocks) {
    all.both += block.both;
    all.square += block.square;
  }
  if (!(all.square > 0)) return {};
  SeenWaiting seen{.share = all.both / all.square};
  double square = 0;
  for (const Sums& block : blocks) {
    const double away = block.both - seen.share * block.square;
    square += away * away;
  }
  seen.share_sd = std::sqrt(square) / all.square;
  seen.period_s = std::clamp(seen.share, 0.0, kMostShare) * width_of(fit.shape);
  return seen;
}

}  // namespace driftd::control
