// SPDX-License-Identifier: MIT
#include "control/stage/response_shape.hpp"

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

}  // namespace driftd::control
