// SPDX-License-Identifier: MIT
#include "control/identification/stage_response.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::control {
namespace {

/// An exponent beyond which nothing is left.
constexpr double kGone = 60;

Transition first_order(double time_constant_s, double seconds) noexcept {
  Transition t;
  if (time_constant_s <= 0) return t;
  t.zz = std::exp(-seconds / time_constant_s);
  t.area_z = time_constant_s * (1 - t.zz);
  return t;
}

Transition second_order(double omega, double damping, double seconds) noexcept {
  Transition t;
  const double sigma = damping * omega;
  const double square = 1 - damping * damping;
  double cosine = 0;  // times exp(-sigma t)
  double sine = 0;    // divided by the frequency, times exp(-sigma t)
  if (square > 1e-8) {
    const double damped = omega * std::sqrt(square);
    const double decay = sigma * seconds > kGone ? 0 : std::exp(-sigma * seconds);
    cosine = decay * std::cos(damped * seconds);
    sine = decay * std::sin(damped * seconds) / damped;
  } else if (square < -1e-8) {
    const double split = omega * std::sqrt(-square);
    const double slow = std::exp(-(sigma - split) * seconds);
    const double fast = std::exp(-(sigma + split) * seconds);
    cosine = 0.5 * (slow + fast);
    sine = 0.5 * (slow - fast) / split;
  } else {
    cosine = std::exp(-sigma * seconds);
    sine = cosine * seconds;
  }
  t.zz = cosine + sigma * sine;
  t.zv = sine;
  t.vz = -omega * omega * sine;
  t.vv = cosine - sigma * sine;
  // Integrate z'' + 2 sigma z' + omega^2 z = 0.
  const double inverse = 1 / (omega * omega);
  t.area_z = -inverse * (t.vz + 2 * sigma * (t.zz - 1));
  t.area_v = -inverse * ((t.vv - 1) + 2 * sigma * t.zv);
  return t;
}

}  // namespace

Transition transition(const ResponseShape& shape, double seconds) noexcept {
  if (shape.order == 1) return first_order(shape.time_constant_s, seconds);
  return second_order(2 * std::numbers::pi * shape.frequency_hz, shape.damping, seconds);
}

double ResponseShape::bandwidth_hz() const noexcept {
  if (order == 1) return time_constant_s > 0 ? 1 / (2 * std::numbers::pi * time_constant_s) : 0.0;
  const double b = 1 - 2 * damping * damping;
  return frequency_hz * std::sqrt(b + std::sqrt(b * b + 1));
}

double ResponseShape::step(double after_s) const noexcept {
  if (after_s < delay_s) return 0;
  return 1 - transition(*this, after_s - delay_s).zz;
}

std::vector<std::vector<double>> respond(const ResponseShape& shape, const Staircase& staircase,
                                         const Exposures& exposures) {
  const std::size_t channels = staircase.channels.size();
  const std::size_t frames = exposures.middle_s.size();
  std::vector<std::vector<double>> mean(channels, std::vector<double>(frames));
  std::vector<ResponseState> state(channels);
  const double exposure_s = std::max(exposures.exposure_s, 1e-6);
  std::size_t next = 0;
  double now_s = -1e9;  // before everything, at rest

  const auto due_s = [&](std::size_t move) { return staircase.sent_s[move] + shape.delay_s; };
  const auto obey = [&] {
    for (std::size_t c = 0; c < channels; ++c) state[c].told(staircase.channels[c][next]);
    ++next;
  };
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const double begin_s = exposures.middle_s[frame] - 0.5 * exposure_s;
    const double end_s = begin_s + exposure_s;
    while (next < staircase.sent_s.size() && due_s(next) <= begin_s) {
      if (due_s(next) > now_s) {
        const Transition t = transition(shape, due_s(next) - now_s);
        for (ResponseState& s : state) s.pass(t);
        now_s = due_s(next);
      }
      obey();
    }
    if (begin_s > now_s) {
      const Transition t = transition(shape, begin_s - now_s);
      for (ResponseState& s : state) s.pass(t);
      now_s = begin_s;
    }
    while (true) {
      const bool told = next < staircase.sent_s.size() && due_s(next) < end_s;
      const double until_s = told ? std::max(due_s(next), now_s) : end_s;
      const double seconds = until_s - now_s;
      const Transition t = transition(shape, seconds);
      for (std::size_t c = 0; c < channels; ++c) {
        ResponseState& s = state[c];
        mean[c][frame] += s.command * seconds + t.area_z * s.z + t.area_v * s.v;
        s.pass(t);
      }
      now_s = until_s;
      if (!told) break;
      obey();
    }
    for (std::size_t c = 0; c < channels; ++c) mean[c][frame] /= exposure_s;
  }
  return mean;
}

std::vector<double> play(const std::vector<double>& input_nm, double threshold_nm) {
  std::vector<double> output;
  output.reserve(input_nm.size());
  double place = 0;
  for (const double input : input_nm) {
    place = std::clamp(place, input - threshold_nm, input + threshold_nm);
    output.push_back(place);
  }
  return output;
}

}  // namespace driftd::control
