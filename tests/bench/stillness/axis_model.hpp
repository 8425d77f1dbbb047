// SPDX-License-Identifier: MIT
// One axis of a world as linear equations: stage, stage noise, random walk and broadband vibration
// on the simulator's own grid of ticks, and the same over a whole frame ("lifted"), with the
// exposure's mean as the measurement and four instants at which stillness is judged. What is known
// in advance, lines and a ramp, is beside it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/scenario.hpp"
#include "tests/bench/stillness/matrix.hpp"

namespace driftd::stillness {

/// Truth is judged at so many instants per frame.
constexpr std::size_t kInstants = 4;

struct AxisPhysics {
  simulator::StageModel stage;  ///< of it: response, second mode, delay, noise
  double gain = 1;              ///< the axis moves so many times as far as it is told
  simulator::AxisDisturbance disturbance;
  double rate_hz = 500;
  double exposure_us = 1000;
  double latency_us = 1500;  ///< middle of the exposure to the command's arrival at the stage
  double noise_nm = 0.3;     ///< of a frame's measurement
};

/// The frame's times in ticks from its exposure's first tick.
struct FrameTicks {
  std::size_t period = 20;
  std::size_t exposure = 10;                  ///< ticks that the measurement is the mean of
  std::size_t effect = 40;                    ///< a frame's command moves the stage from here on
  std::array<std::size_t, kInstants> judged;  ///< 1 .. period
};
FrameTicks frame_ticks(const AxisPhysics& physics);

/// x(next frame) = from_state x + from_command u + noise; frames meet where the exposure ends. The
/// last states are the commands under way, newest first.
struct LiftedAxis {
  std::size_t states = 0, commands = 0;  ///< commands: those of the states
  std::size_t mean = 0;                  ///< the state that the measurement shows
  Matrix from_state, from_command;
  Matrix noise;                               ///< covariance of a frame's
  std::array<Matrix, kInstants> place;        ///< row: truth at an instant, from state and command
  std::array<double, kInstants> place_noise;  ///< its variance by the noise within the frame
};

class AxisModel {
 public:
  explicit AxisModel(const AxisPhysics& physics);
  const LiftedAxis& lifted() const noexcept { return lifted_; }
  const FrameTicks& ticks() const noexcept { return ticks_; }
  const AxisPhysics& physics() const noexcept { return physics_; }
  /// The stage's states alone, one tick: place = stage_row * s.
  const Matrix& stage_tick() const noexcept { return stage_tick_; }
  const Matrix& stage_input() const noexcept { return stage_input_; }
  const Matrix& stage_row() const noexcept { return stage_row_; }

 private:
  void make_stage();
  void make_tick();
  void lift();

  AxisPhysics physics_;
  FrameTicks ticks_;
  Matrix stage_tick_, stage_input_, stage_row_;
  Matrix tick_, input_, noise_, row_;
  LiftedAxis lifted_;
};

}  // namespace driftd::stillness
