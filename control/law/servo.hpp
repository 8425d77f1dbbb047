// SPDX-License-Identifier: MIT
// A control law: from where the stage would have to be to where it is told to go. It knows neither
// locks nor limits. The choice of laws owns it, and its judge another. Tracking loop; noexcept.
#pragma once

#include "control/values/types.hpp"

namespace driftd::control {

/// Gains that are not finite count as 0.
struct ServoSettings {
  double proportional;  ///< share of the error that is corrected at once
  double integral;      ///< share of the error that each frame adds for good
};

class Servo {
 public:
  virtual ~Servo() = default;
  virtual void change_settings(const ServoSettings& settings) noexcept = 0;
  /// The stage was told to be at `total_nm` and no error has been seen.
  virtual void reset(Vec2 total_nm) noexcept = 0;
  /// @param target_nm    where the stage would have to be, by this frame
  /// @param total_nm     where it was told to be last
  /// @param interval_s   since it was told so
  /// @returns where it should be told to be; the controller may hold that back
  virtual Vec2 wanted_nm(Vec2 target_nm, Vec2 total_nm, double interval_s) noexcept = 0;
  /// After wanted_nm(): what the stage was really told, axes that were held back marked.
  virtual void told(Vec2 total_nm, bool x_held_back, bool y_held_back) noexcept = 0;
};

/// Proportional and integral, per frame and axis:
///   I += integral * error;  wanted = I + proportional * error;  error = target - total
/// Where a limit held the total back, I is set back to what was sent, so nothing winds up.
class PiServo final : public Servo {
 public:
  explicit PiServo(const ServoSettings& settings) noexcept { change_settings(settings); }

  void change_settings(const ServoSettings& settings) noexcept override;
  void reset(Vec2 total_nm) noexcept override;
  Vec2 wanted_nm(Vec2 target_nm, Vec2 total_nm, double interval_s) noexcept override;
  void told(Vec2 total_nm, bool x_held_back, bool y_held_back) noexcept override;

 private:
  ServoSettings settings_{};
  Vec2 sum_nm_;
  Vec2 error_nm_;
};

}  // namespace driftd::control
