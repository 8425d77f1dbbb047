// SPDX-License-Identifier: MIT
// The camera's own clock, and what may be wrong with it. Part of the Simulation; not thread-safe.
#pragma once

#include <cmath>
#include <cstdint>

#include "simulator/random.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// Ticks that a clock of `tick_hz` has counted after `time_ns`; 0 when it has none.
inline std::int64_t to_ticks(std::int64_t time_ns, std::int64_t tick_hz) noexcept {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  return time_ns / kSecondNs * tick_hz + time_ns % kSecondNs * tick_hz / kSecondNs;
}
/// The time that a client reads from these ticks, as Aravis computes it.
inline std::int64_t whole_ticks_ns(std::int64_t time_ns, std::int64_t tick_hz) noexcept {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  if (tick_hz == 0) return 0;
  const std::int64_t ticks = to_ticks(time_ns, tick_hz);
  return ticks / tick_hz * kSecondNs + ticks % tick_hz * kSecondNs / tick_hz;
}

class DeviceClock {
 public:
  DeviceClock(const CameraModel& camera, std::uint64_t seed) noexcept
      : rate_(camera.clock_rate),
        jitter_ns_(camera.clock_jitter_us * 1e3),
        step_ns_(camera.clock_step_us * 1e3),
        step_every_s_(camera.clock_step_every_s),
        random_(seed, 90),
        next_step_s_(random_.exponential(step_every_s_)) {}

  /// Lets the clock be set, as the steps of the model come due.
  void advance(double time_s) noexcept {
    for (; step_ns_ > 0 && time_s >= next_step_s_;
         next_step_s_ += random_.exponential(step_every_s_)) {
      step(std::llround(step_ns_ * random_.normal()));
    }
  }

  /// What it shows too much at `time_ns` of the scenario.
  std::int64_t error_ns(std::int64_t time_ns) const noexcept {
    return error_ns_ + std::llround((rate_ - 1) * static_cast<double>(time_ns - since_ns_));
  }
  void step(std::int64_t shift_ns) noexcept { error_ns_ += shift_ns; }
  /// It goes on from what it shows at `time_ns`.
  void set_rate(std::int64_t time_ns, double rate) noexcept {
    error_ns_ = error_ns(time_ns);
    since_ns_ = time_ns;
    rate_ = rate;
  }
  void jump(std::int64_t shift_ns) noexcept { jump_ns_ = shift_ns; }
  /// The next frame's own error: a jump, which is 0 from then on, and jitter.
  std::int64_t take_frame_error() noexcept {
    std::int64_t wrong_ns = jump_ns_;
    jump_ns_ = 0;
    if (jitter_ns_ > 0) wrong_ns += std::llround(jitter_ns_ * random_.normal());
    return wrong_ns;
  }

 private:
  double rate_;
  double jitter_ns_, step_ns_, step_every_s_;
  Random random_;
  double next_step_s_;
  std::int64_t since_ns_ = 0, error_ns_ = 0, jump_ns_ = 0;
};

}  // namespace driftd::simulator
