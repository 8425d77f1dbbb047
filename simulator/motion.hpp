// SPDX-License-Identifier: MIT
// What moves the sample: the disturbance (drift and vibration, image axes) and the stage (stage
// axes), both stepped by the Simulation on a fixed time grid. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "simulator/actuator.hpp"
#include "simulator/random.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// The grid on which all motion is stepped. A sine of 500 Hz still has 20 points a period.
constexpr std::int64_t kTickNs = 100'000;
constexpr double kTickS = 1e-9 * static_cast<double>(kTickNs);

/// What becomes of place and speed, off its target, of a second-order system in a tick: exp(A
/// tick).
using TickMatrix = std::array<std::array<double, 2>, 2>;
TickMatrix second_order(double frequency_hz, double damping) noexcept;

/// A tick of broadband vibration: place and speed are turned by `memory`, then white noise of rms
/// `kick` is added to the speed.
struct BroadbandTick {
  TickMatrix memory;
  double kick;
};
BroadbandTick broadband_tick(const BroadbandModel& model) noexcept;

/// Displacement by a sine at a time.
double value_of(const Sine& sine, double time_s) noexcept;

/// One axis of the disturbance. Random walk and broadband vibration are states; the rest is a
/// function of time.
class DisturbanceAxis {
 public:
  DisturbanceAxis(const AxisDisturbance& model, std::uint64_t seed, std::uint64_t stream) noexcept;
  /// Advances walk and vibration by one tick and returns the displacement at `time_s`.
  double step(double time_s) noexcept;

 private:
  AxisDisturbance model_;
  Random random_;
  Random broadband_random_;
  BroadbandTick broadband_;
  std::array<double, 2> vibration_{};  ///< place and speed
  double walk_nm_ = 0;
};

/// A two-axis piezo stage. Each command takes effect after the delay and its jitter, in order, is
/// clipped to the range and quantised; an axis heads for it at the slew limit, with hysteresis and
/// creep (actuator.hpp), and a second-order response follows. Gain, coupling and turn then say
/// where the platform really goes; position noise is added. It can be made to answer wrongly from
/// now on: what it then does is counted from where it stands, so that the fault by itself moves
/// nothing.
class Stage {
 public:
  /// @param stream  of the generator; the next one is used, too
  Stage(const StageModel& model, std::uint64_t seed, std::uint64_t stream = 20);
  /// @param target_nm  absolute, from the place at the start of the scenario
  void command(std::int64_t time_ns, Vec2 target_nm);
  /// From now on a command to move by d moves it by `gain` * d, turned by `degrees` from x to y.
  void answer_wrongly(double gain, double degrees) noexcept;
  /// From now on it ignores every command.
  void die() noexcept { dead_ = true; }
  bool dead() const noexcept { return dead_; }
  /// Advances to `time_ns`, one tick after the call before. While `stuck`, the commands that come
  /// due are ignored.
  void step(std::int64_t time_ns, bool stuck);
  Vec2 position_nm() const noexcept;                      ///< stage axes, true, noise included
  Vec2 commanded_nm() const noexcept { return newest_; }  ///< the newest command, obeyed or not
  /// The image displacement that a stage displacement causes: M^-1 * s.
  Vec2 image_displacement(Vec2 stage_nm) const noexcept;

 private:
  struct Axis {
    double aim_nm = 0;     ///< of the last command that came due
    double slewed_nm = 0;  ///< how far the slew limit has let it
    double target_nm = 0;  ///< what the second-order response follows
    Hysteresis hysteresis;
    Creep creep;
    double position_nm = 0;
    double velocity_nm_per_s = 0;
    std::array<double, 2> second{};  ///< place and velocity of the second mode
    double noise_nm = 0;
  };
  struct Command {
    std::int64_t due_ns = 0;
    Vec2 target_nm;
  };
  double accepted(double target_nm) const noexcept;
  void head_for_aim(Axis& axis) const noexcept;
  Vec2 aim_of(Vec2 command_nm) const noexcept;
  /// The axis' place, without noise: both modes together.
  double place_of(const Axis& axis) const noexcept;

  StageModel model_;
  Random random_;
  Random jitter_;
  TickMatrix response_{}, second_response_{};  ///< of both modes
  double noise_memory_ = 0;
  std::array<std::array<double, 2>, 2> stage_to_image_{};
  std::array<std::array<double, 2>, 2> axes_to_platform_{};
  std::array<Axis, 2> axes_;
  std::deque<Command> waiting_;  ///< obeyed in this order, whichever is due
  Vec2 newest_;
  bool dead_ = false;
  Vec2 obeyed_, aim_;            ///< the last command that came due, and where that sent the stage
  Vec2 obeyed_then_, aim_then_;  ///< the same when it began to answer wrongly
  std::array<std::array<double, 2>, 2> answer_ = {{{1, 0}, {0, 1}}};
};

}  // namespace driftd::simulator
