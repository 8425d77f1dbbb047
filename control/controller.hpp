// SPDX-License-Identifier: MIT
// From the drift estimate to a stage correction: PI on the error that will be left once everything
// already commanded has taken effect (so the loop's delay is not corrected twice), with limits on
// step, rate and range, anti-windup, and every limitation reported. Tracking loop; noexcept.
//
// Per frame, in stage axes (docs/lock.md derives it):
//   target = stage_at(taken) - image_to_stage * drift   where the stage must be, from this frame
//   error  = target - total                             what nothing sent so far will correct
//   I     += integral * error
//   total  = limited(I + proportional * error)
//   I      = total - proportional * error               where a limit held: what was really sent
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "control/types.hpp"

namespace driftd::control {

/// Maps image displacement (nm) to stage displacement (nm): stage = [[a, b], [c, d]] * image.
struct ImageToStage {
  double a = 1, b = 0, c = 0, d = 1;
  Vec2 apply(Vec2 image) const noexcept {
    return {a * image.x + b * image.y, c * image.x + d * image.y};
  }
  /// Stage displacement to the image displacement that it causes. determinant() must not be 0.
  Vec2 invert(Vec2 stage) const noexcept;
  double determinant() const noexcept { return a * d - b * c; }
};

/// Limits, delay and time constant that are negative or not a number count as 0.
struct ControllerSettings {
  ImageToStage image_to_stage;
  double proportional = 0.1;  ///< share of the predicted error added at once
  double integral = 0.2;      ///< share of the predicted error integrated per frame
  double step_limit_nm = 20;  ///< largest |delta| per axis
  double rate_limit_nm_per_s = 2000;
  double range_limit_nm = 5000;  ///< largest |total| per axis
  double stage_delay_us =
      3000;  ///< dead time from sending a correction to the stage starting to move
  double stage_time_constant_us = 1500;  ///< first-order response after that; 0: at once
};

class Controller {
 public:
  explicit Controller(const ControllerSettings& settings) noexcept;

  /// Lock engages: total = 0, no history.
  void reset() noexcept;
  /// @param drift_nm   measured drift, image axes, sample plane (what is left while locked)
  /// @param taken_ns   when the frame was exposed (middle), CLOCK_MONOTONIC; for a drift averaged
  ///                   over frames the mean of their times. Later than now_ns counts as now_ns.
  /// @param now_ns     when the correction will be sent; not after the one before: nothing moves
  /// The command is remembered as sent at now_ns. Never returns a non-finite value: with non-finite
  /// input the total is repeated with delta 0.
  /// The rate limit holds between any two moves; the first after reset() may use the time since its
  /// frame was taken.
  Correction update(Vec2 drift_nm, std::int64_t taken_ns, std::int64_t now_ns) noexcept;
  /// The newest corrections never left: `sent_total_nm` is what the stage was told last. The
  /// commands since then are forgotten and the integral starts from there. A total that none of the
  /// commands remembered had counts as reached long ago.
  void resync(Vec2 sent_total_nm) noexcept;
  /// New gains, limits and stage model for the corrections from now on; total and history stay.
  /// A total outside a range made narrower returns within the step and rate limits.
  void change_settings(const ControllerSettings& settings) noexcept;
  Vec2 total_nm() const noexcept { return total_nm_; }
  /// Where the stage model says the stage was at a time, relative to its place at lock. Times
  /// before the oldest of the kHistory commands remembered read as that command's.
  Vec2 stage_at(std::int64_t time_ns) const noexcept;

 private:
  /// 0.5 s at 1000 corrections/s: longer than any frame's age and stage's delay together.
  static constexpr std::size_t kHistory = 512;

  struct Command {
    std::int64_t sent_ns = 0;
    Vec2 total_nm;
    Vec2 stage_nm;  ///< the modelled stage at the moment when this command takes effect
  };
  struct Axis {
    double total_nm = 0;
    double integral_nm = 0;
    std::uint8_t limited = kLimitNone;
  };

  Axis update_axis(double target_nm, double total_nm, double integral_nm,
                   double interval_s) const noexcept;
  /// The modelled stage `after_us` after `command` took effect.
  Vec2 respond(const Command& command, double after_us) const noexcept;
  void remember(std::int64_t now_ns) noexcept;

  ControllerSettings settings_;
  Vec2 total_nm_;
  Vec2 integral_nm_;
  bool started_ = false;  ///< a command was sent since reset()
  std::int64_t sent_ns_ = 0;
  std::array<Command, kHistory> history_;
  std::size_t newest_ = 0;
  std::size_t count_ = 0;
};

}  // namespace driftd::control
