// SPDX-License-Identifier: MIT
// How a linear stage answers a command: dead time, then first or second order, in closed form.
#pragma once

namespace driftd::control {

/// Order 2: x'' = w^2 (u - x) - 2 damping w x', w = 2 pi frequency_hz. Order 1: x' = (u - x) / tau.
struct ResponseShape {
  int order = 1;
  double delay_s = 0;
  double time_constant_s = 0;  ///< order 1; 0: at once
  double frequency_hz = 0;     ///< order 2, natural
  double damping = 1;          ///< order 2

  bool operator==(const ResponseShape&) const noexcept = default;
  /// Where the gain has fallen by 3 dB; 0: at once, no bound.
  double bandwidth_hz() const noexcept;
  /// Response to a unit step, `after_s` after it was commanded.
  double step(double after_s) const noexcept;
};

/// Exact motion of a response through an interval in which its command is constant. For place and
/// speed against the command: z' = zz z + zv v, v' = vz z + vv v; `area_*`: the integral of z.
struct Transition {
  double zz = 0, zv = 0, vz = 0, vv = 0;
  double area_z = 0, area_v = 0;
};
Transition transition(const ResponseShape& shape, double seconds) noexcept;

}  // namespace driftd::control
