// SPDX-License-Identifier: MIT
#include "simulator/actuator.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::simulator {
namespace {

constexpr double kRelaxationsPerDecade = 2;
/// 0.1 s * 10^(1/4 + 1/4), so that the sum crosses zero growth at 0.1 s, as the logarithm does: a
/// relaxation stands for a quarter of a decade to either side, and 1 - exp(-t / tau) averages a
/// quarter of a decade (Euler's constant / ln 10) before its time constant.
constexpr double kFirstTimeConstantS = 0.31623;

}  // namespace

Hysteresis::Hysteresis(double share, double reach_nm) noexcept : share_(share) {
  for (std::size_t i = 0; i < kPlays; ++i) {
    threshold_nm_[i] = reach_nm * static_cast<double>(i + 1) / static_cast<double>(kPlays);
  }
}

double Hysteresis::step(double input_nm) noexcept {
  if (share_ <= 0) return input_nm;
  double sum = 0;
  for (std::size_t i = 0; i < kPlays; ++i) {
    play_nm_[i] = std::clamp(play_nm_[i], input_nm - threshold_nm_[i], input_nm + threshold_nm_[i]);
    sum += play_nm_[i];
  }
  return (1 - share_) * input_nm + share_ * sum / static_cast<double>(kPlays);
}

Creep::Creep(double share_per_decade, double tick_s) noexcept
    : weight_(share_per_decade / kRelaxationsPerDecade) {
  for (std::size_t i = 0; i < kRelaxations; ++i) {
    const double time_constant_s =
        kFirstTimeConstantS * std::pow(10.0, static_cast<double>(i) / kRelaxationsPerDecade);
    approach_[i] = -std::expm1(-tick_s / time_constant_s);
  }
}

double Creep::step(double input_nm) noexcept {
  if (weight_ <= 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < kRelaxations; ++i) {
    state_nm_[i] += approach_[i] * (input_nm - state_nm_[i]);
    sum += state_nm_[i];
  }
  return weight_ * sum;
}

}  // namespace driftd::simulator
