// SPDX-License-Identifier: MIT
// From the drift estimate to a stage correction: PI on the error that will be left once everything
// already commanded has taken effect (so the loop's delay is not corrected twice), with limits on
// step, rate and range, anti-windup, and every limitation reported. Tracking loop; noexcept.
#pragma once

#include <array>
#include <cstdint>

#include "control/types.hpp"

namespace driftd::control {

/// Maps image displacement (nm) to stage displacement (nm): stage = [[a, b], [c, d]] * image.
struct ImageToStage {
  double a = 1, b = 0, c = 0, d = 1;
  Vec2 apply(Vec2 image) const noexcept {
    return {a * image.x + b * image.y, c * image.x + d * image.y};
  }
  /// Stage displacement to the image displacement that it causes.
  Vec2 invert(Vec2 stage) const noexcept;
  double determinant() const noexcept { return a * d - b * c; }
};

struct ControllerSettings {
  ImageToStage image_to_stage;
  double proportional = 0.0;  ///< share of the predicted error added at once
  double integral = 0.3;      ///< share of the predicted error integrated per frame
  double step_limit_nm = 20;  ///< largest |delta| per axis
  double rate_limit_nm_per_s = 2000;
  double range_limit_nm = 5000;  ///< largest |total| per axis
  double stage_delay_us =
      3000;  ///< dead time from sending a correction to the stage starting to move
  double stage_time_constant_us = 1000;  ///< first-order response after that; 0: at once
};

class Controller {
 public:
  explicit Controller(const ControllerSettings& settings) noexcept;

  /// Lock engages: total = 0, no history.
  void reset() noexcept;
  /// @param drift_nm   measured drift, image axes, sample plane (what is left while locked)
  /// @param taken_ns   when the frame was exposed (middle), CLOCK_MONOTONIC
  /// @param now_ns     when the correction will be sent
  /// The command is remembered as sent at now_ns. Never returns a non-finite value: with non-finite
  /// input the total is repeated with delta 0.
  Correction update(Vec2 drift_nm, std::int64_t taken_ns, std::int64_t now_ns) noexcept;
  Vec2 total_nm() const noexcept { return total_nm_; }
  /// Where the stage model says the stage was at a time, relative to its place at lock.
  Vec2 stage_at(std::int64_t time_ns) const noexcept;

 private:
  // (yours)
  ControllerSettings settings_;
  Vec2 total_nm_;
};

}  // namespace driftd::control
