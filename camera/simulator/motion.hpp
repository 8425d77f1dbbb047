// SPDX-License-Identifier: MIT
// What moves the sample: the disturbance (drift and vibration, image axes) and the stage (stage
// axes), both stepped by the Simulation on a fixed time grid. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "camera/simulator/random.hpp"
#include "camera/simulator/scenario.hpp"

namespace driftd::simulator {

/// The grid on which all motion is stepped. A sine of 500 Hz still has 20 points a period.
constexpr std::int64_t kTickNs = 100'000;

/// One axis of the disturbance. The random walk is the only state; the rest is a function of time.
class DisturbanceAxis {
 public:
  DisturbanceAxis(const AxisDisturbance& model, std::uint64_t seed, std::uint64_t stream) noexcept;
  /// Advances the random walk by one tick and returns the displacement at `time_s`.
  double step(double time_s) noexcept;

 private:
  AxisDisturbance model_;
  Random random_;
  double walk_nm_ = 0;
};

/// A two-axis piezo stage: each command takes effect after the delay, is clipped to the range and
/// quantised, and is followed with a second-order response; position noise is added.
class Stage {
 public:
  Stage(const StageModel& model, std::uint64_t seed);
  /// @param target_nm  absolute, from the place at the start of the scenario
  void command(std::int64_t time_ns, Vec2 target_nm);
  /// Advances to `time_ns`, one tick after the call before. While `stuck`, the commands that come
  /// due are ignored.
  void step(std::int64_t time_ns, bool stuck);
  Vec2 position_nm() const noexcept;                      ///< stage axes, noise included
  Vec2 commanded_nm() const noexcept { return newest_; }  ///< the newest command, obeyed or not
  /// The image displacement that a stage displacement causes: M^-1 * s.
  Vec2 image_displacement(Vec2 stage_nm) const noexcept;

 private:
  struct Axis {
    double target_nm = 0;
    double position_nm = 0;
    double velocity_nm_per_s = 0;
    double noise_nm = 0;
  };
  struct Command {
    std::int64_t due_ns = 0;
    Vec2 target_nm;
  };
  double accepted(double target_nm) const noexcept;

  StageModel model_;
  Random random_;
  std::array<std::array<double, 2>, 2> response_{};  ///< exp(A * tick) of the second-order system
  double noise_memory_ = 0;
  std::array<std::array<double, 2>, 2> stage_to_image_{};
  std::array<Axis, 2> axes_;
  std::deque<Command> waiting_;
  Vec2 newest_;
};

}  // namespace driftd::simulator
