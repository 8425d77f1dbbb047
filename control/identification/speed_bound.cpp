// SPDX-License-Identifier: MIT
#include "control/identification/speed_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

/// A bound on the speed is the cause where it leaves less than this of the sum of squares.
constexpr double kSlowExplains = 0.25;

/// The staircase that a stage follows which moves no faster than `rate`.
Staircase slewed(const Staircase& given, double rate_nm_per_s) {
  constexpr double kTickS = 5e-4;
  Staircase slow;
  slow.channels.resize(2);
  std::array<double, 2> place{};
  std::size_t next = 0;
  const double length_s = given.sent_s.back() + 0.5 - given.sent_s.front();
  const auto ticks = static_cast<std::size_t>(std::ceil(length_s / kTickS));
  for (std::size_t tick = 0; tick < ticks; ++tick) {
    const double t = given.sent_s.front() + kTickS * static_cast<double>(tick);
    while (next + 1 < given.sent_s.size() && given.sent_s[next + 1] <= t) ++next;
    slow.sent_s.push_back(t);
    for (std::size_t c = 0; c < 2; ++c) {
      const double far = rate_nm_per_s * kTickS;
      place[c] = std::clamp(given.channels[c][next], place[c] - far, place[c] + far);
      slow.channels[c].push_back(place[c]);
    }
  }
  return slow;
}

double top_rate(const Staircase& staircase) {
  double rate = 0;
  constexpr std::size_t kOver = 4;
  for (const auto& channel : staircase.channels) {
    for (std::size_t m = kOver; m < channel.size(); ++m)
      rate = std::max(rate, std::abs(channel[m] - channel[m - kOver]) /
                                (staircase.sent_s[m] - staircase.sent_s[m - kOver]));
  }
  return rate;
}

/// A bound on the stage's speed, and what the linear rest then leaves.
struct SpeedBound {
  double rate_nm_per_s = 0;
  ResponseShape shape;
  double chi_square = 0;
};
SpeedBound try_bound(const FitData& data, double rate_nm_per_s, const ResponseShape& shape) {
  FitData slow = data;
  slow.noise = {};  // in nm: what is slow hides in drift that is made white
  slow.staircase = slewed(data.staircase, rate_nm_per_s);
  return {rate_nm_per_s, shape, fit_gains(slow, shape).chi_square};
}

}  // namespace

StageVerdictText judge_speed(const FitData& data, const ResponseShape& linear) {
  FitData plain = data;
  plain.noise = {};
  const double chi_square = fit_gains(plain, linear).chi_square;
  const double top = top_rate(data.staircase);
  SpeedBound best;
  best.chi_square = chi_square;
  const auto consider = [&](double rate, double frequency_hz, double delay_s) {
    const SpeedBound tried = try_bound(
        data, rate, {.order = 2, .delay_s = delay_s, .frequency_hz = frequency_hz, .damping = 0.7});
    if (tried.chi_square < best.chi_square) best = tried;
  };
  for (int n = 0; n < 13; ++n) {
    const double share = 0.05 * std::pow(1.25, n);
    for (const double frequency_hz : {12.0, 60.0}) {
      for (const double delay_s : {0.002, 0.01, 0.02}) consider(share * top, frequency_hz, delay_s);
    }
  }
  double factor = 1.12, delay_s = 0.004;
  for (int round = 0; round < 5 && best.rate_nm_per_s > 0; ++round) {
    for (const double way : {1.0, -1.0}) {
      const SpeedBound a = best;
      consider(a.rate_nm_per_s * std::pow(factor, way), a.shape.frequency_hz, a.shape.delay_s);
      const SpeedBound b = best;
      consider(b.rate_nm_per_s, b.shape.frequency_hz * std::pow(factor, 4 * way), b.shape.delay_s);
      const SpeedBound c = best;
      consider(c.rate_nm_per_s, c.shape.frequency_hz,
               std::max(0.0, c.shape.delay_s + way * delay_s));
    }
    factor = std::sqrt(factor);
    delay_s *= 0.6;
  }
  if (best.chi_square > kSlowExplains * chi_square) return {};
  return {StageRefusal::Slow,
          "The stage moves no faster than about " + number(best.rate_nm_per_s, 0) +
              " nm/s, though it was told to move at " + number(top, 0) +
              ". Set control.rate_limit_nm_per_s below that, or raise the controller's own limit "
              "on speed, and calibrate again."};
}

}  // namespace driftd::control
