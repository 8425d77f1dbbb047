// SPDX-License-Identifier: MIT
// A closed loop in simulated time for the controller's tests: a stage of second order with dead
// time, a disturbed sample, noisy measurements. Deterministic for a seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "control/law/controller.hpp"
#include "support/default_settings.hpp"

namespace driftd::control::test {

struct Sine {
  double amplitude_nm = 0, frequency_hz = 0, phase = 0;
};

/// The same on both axes, the sines of y a quarter turn later; nm in stage axes.
struct Disturbance {
  std::vector<Sine> sines;
  double ramp_nm_per_s = 0;
  double random_walk_nm_per_sqrt_s = 0;
  double offset_nm = 0;
};

struct LoopSetup {
  ControllerSettings controller = driftd::test::default_controller_settings();
  Disturbance disturbance;
  double frame_rate_hz = 500;
  double latency_us = 1500;  ///< middle of the exposure to the correction sent
  double stage_frequency_hz = 150, stage_damping = 0.7, stage_delay_us = 3000;
  double stage_noise_nm = 0.2;
  ImageToStage true_matrix;  ///< controller.image_to_stage is what the controller believes
  double measurement_noise_nm = 0.5;
  double seconds = 10, settle_seconds = 1;
  bool closed = true;
};

struct LoopResult {
  double rms_nm = 0;    ///< true residual per axis (mean of both), after settling
  double worst_nm = 0;  ///< largest true residual of an axis after settling
  double mean_x_nm = 0;
  bool limited = false;
};

/// One axis of a stage: dead time, then x'' = w^2 (u - x) - 2 d w x'.
class StageAxis {
 public:
  StageAxis(double frequency_hz, double damping, double delay_us, double step_us)
      : omega_(2 * std::numbers::pi * frequency_hz),
        damping_(damping),
        step_s_(1e-6 * step_us),
        line_(static_cast<std::size_t>(delay_us / step_us) + 1, 0.0) {}
  double advance(double command_nm) {
    line_[head_] = command_nm;
    head_ = (head_ + 1) % line_.size();
    const double delayed_nm = line_[head_];
    speed_ += step_s_ * (omega_ * omega_ * (delayed_nm - place_) - 2 * damping_ * omega_ * speed_);
    place_ += step_s_ * speed_;
    return place_;
  }

 private:
  double omega_, damping_, step_s_;
  std::vector<double> line_;
  std::size_t head_ = 0;
  double place_ = 0, speed_ = 0;
};

inline Vec2 sines_at(const Disturbance& d, double t_s) {
  Vec2 v{d.offset_nm + d.ramp_nm_per_s * t_s, d.offset_nm + d.ramp_nm_per_s * t_s};
  for (const Sine& s : d.sines) {
    const double angle = 2 * std::numbers::pi * s.frequency_hz * t_s + s.phase;
    v.x += s.amplitude_nm * std::sin(angle);
    v.y += s.amplitude_nm * std::cos(angle);
  }
  return v;
}

/// Runs the loop in steps of 50 us (the stage's period is 6.7 ms).
inline LoopResult run_loop(const LoopSetup& setup, unsigned seed = 1) {
  constexpr double kStepUs = 50;
  constexpr double kStepS = 1e-6 * kStepUs;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Controller controller(setup.controller);
  StageAxis stage_x(setup.stage_frequency_hz, setup.stage_damping, setup.stage_delay_us, kStepUs);
  StageAxis stage_y = stage_x;
  const auto frame_steps = static_cast<long>(1e6 / (setup.frame_rate_hz * kStepUs));
  const auto latency_steps = static_cast<long>(setup.latency_us / kStepUs);
  const auto steps = static_cast<long>(setup.seconds / kStepS);
  const auto settled = static_cast<long>(setup.settle_seconds / kStepS);

  Vec2 walk, measured, command, jitter;
  LoopResult result;
  double sum2 = 0, sum_x = 0;
  long samples = 0;
  for (long step = 0; step < steps; ++step) {
    const double walk_nm = setup.disturbance.random_walk_nm_per_sqrt_s * std::sqrt(kStepS);
    walk = {walk.x + walk_nm * normal(random), walk.y + walk_nm * normal(random)};
    const Vec2 wave = sines_at(setup.disturbance, static_cast<double>(step) * kStepS);
    const Vec2 place{stage_x.advance(command.x) + jitter.x, stage_y.advance(command.y) + jitter.y};
    const Vec2 left{wave.x + walk.x + place.x, wave.y + walk.y + place.y};
    if (step % frame_steps == 0) {
      jitter = {setup.stage_noise_nm * normal(random), setup.stage_noise_nm * normal(random)};
      const Vec2 image = setup.true_matrix.invert(left);
      measured = {image.x + setup.measurement_noise_nm * normal(random),
                  image.y + setup.measurement_noise_nm * normal(random)};
    }
    if (step >= latency_steps && (step - latency_steps) % frame_steps == 0 && setup.closed) {
      const auto now_ns = static_cast<std::int64_t>(1e3 * kStepUs) * (step + 1);
      const auto taken_ns = now_ns - static_cast<std::int64_t>(1e3 * kStepUs) * latency_steps;
      const Correction c = controller.update(measured, taken_ns, now_ns);
      command = c.total_nm;
      result.limited = result.limited || c.limited != kLimitNone;
    }
    if (step < settled) continue;
    sum2 += 0.5 * (left.x * left.x + left.y * left.y);
    sum_x += left.x;
    result.worst_nm = std::max({result.worst_nm, std::abs(left.x), std::abs(left.y)});
    ++samples;
  }
  result.rms_nm = std::sqrt(sum2 / static_cast<double>(samples));
  result.mean_x_nm = sum_x / static_cast<double>(samples);
  return result;
}

/// A laboratory: the vibration that is left after isolation, and the sample's own drift.
inline Disturbance laboratory() {
  return {.sines = {{1.0, 1.3, 0.0},
                    {0.5, 2.7, 1.0},
                    {0.4, 13.0, 2.0},
                    {0.2, 27.0, 3.0},
                    {0.3, 50.0, 4.0}},
          .ramp_nm_per_s = 5,
          .random_walk_nm_per_sqrt_s = 1};
}

}  // namespace driftd::control::test
