// SPDX-License-Identifier: MIT
// The proportional and integral law, per frame and axis:
//   I += integral * error;  wanted = I + proportional * error;  error = target - total
// It knows neither locks nor limits: where the controller held the total back, I is set back to
// what was sent, so nothing winds up. The choice of laws owns one, and its judge another. Tracking
// loop; noexcept.
#pragma once

#include "control/values/types.hpp"

namespace driftd::control {

/// Gains that are not finite count as 0.
struct PiSettings {
  double proportional;  ///< share of the error that is corrected at once
  double integral;      ///< share of the error that each frame adds for good
};

class PiLaw {
 public:
  explicit PiLaw(const PiSettings& settings) noexcept { change_settings(settings); }

  void change_settings(const PiSettings& settings) noexcept;
  /// The stage was told to be at `total_nm` and no error has been seen.
  void reset(Vec2 total_nm) noexcept;
  /// @param target_nm  where the stage would have to be, by this frame
  /// @param total_nm   where it was told to be last
  /// @returns where it should be told to be; the controller may hold that back
  Vec2 wanted_nm(Vec2 target_nm, Vec2 total_nm) noexcept;
  /// After wanted_nm(): what the stage was really told, axes that were held back marked.
  void told(Vec2 total_nm, bool x_held_back, bool y_held_back) noexcept;

 private:
  PiSettings settings_{};
  Vec2 sum_nm_;
  Vec2 error_nm_;
};

}  // namespace driftd::control
