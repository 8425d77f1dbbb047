// SPDX-License-Identifier: MIT
// Where the stage is: what it was told, through its dead time and response, and the matrix between
// its axes and the image's. One object for everything that needs to know: the controller, the stage
// monitor, calibration, and tests.
// Tracking loop; no allocation after construction; noexcept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/stage/response_shape.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// Maps image displacement (nm) to stage displacement (nm): stage = [[a, b], [c, d]] * image.
struct ImageToStage {
  double a = 1, b = 0, c = 0, d = 1;
  Vec2 apply(Vec2 image) const noexcept {
    return {a * image.x + b * image.y, c * image.x + d * image.y};
  }
  /// The covariance of what apply() gives.
  Covariance2 spread(const Covariance2& image) const noexcept {
    return {a * a * image.xx + 2 * a * b * image.xy + b * b * image.yy,
            a * c * image.xx + (a * d + b * c) * image.xy + b * d * image.yy,
            c * c * image.xx + 2 * c * d * image.xy + d * d * image.yy};
  }
  /// Stage displacement to the image displacement that it causes. determinant() must not be 0.
  Vec2 invert(Vec2 stage) const noexcept;
  double determinant() const noexcept { return a * d - b * c; }
  bool operator==(const ImageToStage&) const noexcept = default;
};

/// Times and frequencies that are negative or not a number count as 0, a damping that is not
/// positive as 1.
struct StageModelSettings {
  ImageToStage image_to_stage;
  double delay_us;          ///< dead time from sending a command to the stage starting to move
  double time_constant_us;  ///< first-order response after that; 0: at once
  double resonance_hz =
      0;               ///< above 0: a response of second order instead, of this natural frequency
  double damping = 1;  ///< of that response
};

/// The response without the dead time, which StageModel adds itself; what it does not use is as by
/// default.
ResponseShape response_of(const StageModelSettings& settings) noexcept;
/// Whether all but the axes is the same.
bool is_same_stage(const StageModelSettings& a, const StageModelSettings& b) noexcept;

/// Where the stage is, and how fast.
struct StageMotion {
  Vec2 place_nm, speed_nm_per_s;
};

class StageModel {
 public:
  explicit StageModel(const StageModelSettings& settings);

  /// With another response the stage's motion by the last kReplayed commands is computed anew, so
  /// that it does not jump: long ago it stood where it was told to.
  void change_settings(const StageModelSettings& settings) noexcept;
  const StageModelSettings& settings() const noexcept { return settings_; }
  const ImageToStage& image_to_stage() const noexcept { return settings_.image_to_stage; }

  /// The stage's present place is the new zero; nothing was commanded since.
  void reset() noexcept;
  /// A command, later than the one before.
  void command(Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// The same where somebody else followed the stage, and says where it is when the command takes
  /// effect.
  void command(Vec2 total_nm, std::int64_t sent_ns, const StageMotion& then) noexcept;
  /// The newest command left only at `sent_ns`; earlier than was said changes nothing.
  void left_at(std::int64_t sent_ns) noexcept;
  /// When the newest command remembered takes effect.
  StageMotion told_motion() const noexcept {
    return count_ > 0 ? history_[newest_].stage : StageMotion{};
  }
  /// The stage was never told of the commands later than `sent_ns`: they are forgotten. It was told
  /// `total_nm` last; where none of the commands remembered is that old, it stands there.
  void take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// All places, of the commands and of the stage, count from another one: so much is added.
  void shift(Vec2 by_nm) noexcept;
  /// When the newest command left; 0: there is none.
  std::int64_t told_ns() const noexcept { return count_ > 0 ? history_[newest_].sent_ns : 0; }
  /// The total of the newest command remembered; 0: there is none.
  Vec2 told_nm() const noexcept { return count_ > 0 ? history_[newest_].total_nm : Vec2{}; }
  /// Place at a time, relative to the place at reset(). Times before the oldest of the kHistory
  /// commands remembered read as the place when that one was sent.
  Vec2 at(std::int64_t time_ns) const noexcept { return motion_at(time_ns).place_nm; }
  /// The same, and how fast it moves; a stage of first order has no speed of its own: 0.
  StageMotion motion_at(std::int64_t time_ns) const noexcept;

 private:
  /// 11 s at 1400 commands/s: the oldest frame that may be used (lock.max_frame_age_ms) and the
  /// longest dead time (stage.delay_us) together.
  static constexpr std::size_t kHistory = 16'384;
  static constexpr std::size_t kReplayed = 1024;

  struct Command {
    std::int64_t sent_ns = 0;
    Vec2 total_nm;
    StageMotion stage;  ///< the modelled one at the moment when this command takes effect
  };

  void replay() noexcept;
  /// `back` commands before the newest.
  const Command& before_newest(std::size_t back) const noexcept {
    return history_[(newest_ + kHistory - back) % kHistory];
  }
  /// The modelled stage `after_us` after `command` took effect.
  StageMotion respond(const Command& command, double after_us) const noexcept;

  StageModelSettings settings_;
  ResponseShape response_;
  std::vector<Command> history_;  ///< ring
  std::size_t newest_ = 0;
  std::size_t count_ = 0;
};

}  // namespace driftd::control
