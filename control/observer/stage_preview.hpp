// SPDX-License-Identifier: MIT
// How to command a stage so that it goes along a course that is known ahead. Found
// once for a stage and a frame period, outside the loop; a plain value that the observer then uses.
//
// Linear-quadratic tracking with preview (Anderson and Moore 1990, Optimal Control, ch. 4): the
// mean square of (stage - course) at four instants of each frame, plus `penalty` times the squared
// change of command, over an unlimited time.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <vector>

#include "control/observer/disturbance_filter.hpp"
#include "control/observer/disturbance_model.hpp"
#include "control/response_shape.hpp"

namespace driftd::control {

struct PreviewSettings {
  double period_s = 0.002;                           ///< between commands
  ResponseShape response{.time_constant_s = 0.001};  ///< of the stage; its dead time is another's
  double penalty = 0.03;  ///< of a squared change of command against a squared error
};

/// command = -from_place * place - from_speed * speed - from_command * command before + course *
/// states, all at the moment when the command takes effect.
struct PreviewGains {
  double from_place = 0;
  double from_speed = 0;  ///< s
  double from_command = -1;
  DisturbanceFilter::State course{};  ///< weights of the disturbance filter's states
};

/// Gains for higher and higher penalties: commands that would change by more than limits allow go
/// by these. One that is only cut off would let a slow stage of second order swing for ever.
struct CalmerGains {
  static constexpr std::size_t kMost = 9;
  std::array<PreviewGains, kMost> gains{};
  std::size_t count = 0;
};

class StagePreview {
 public:
  static constexpr std::size_t kInstants = 4;
  static constexpr std::size_t kStates = 3;  ///< place, speed, the command before
  using States = std::array<double, kStates>;
  using Matrix = std::array<States, kStates>;
  explicit StagePreview(const PreviewSettings& settings);
  /// The gains for a disturbance that goes as `model` says.
  PreviewGains gains(const DisturbanceModel& model) const noexcept;
  const PreviewSettings& settings() const noexcept { return settings_; }

 private:
  std::array<std::complex<double>, kStates> summed(
      std::complex<double> z, const std::array<std::complex<double>, kStates>& from) const noexcept;

  PreviewSettings settings_;
  PreviewGains stage_gains_;  ///< without a course
  Matrix closed_{};           ///< from a frame's states to the next one's, with the gains
  States to_command_{};       ///< what a command changes of the next frame's states
  /// Weights of the course at the instants of the frame that begins, and of later ones over how far
  /// the states then depend on the command.
  std::array<double, kInstants> now_{};
  std::array<States, kInstants> later_{};
};

/// Those of a stage that is slow against the frames and of second order; of others there are none.
class CalmerPreviews {
 public:
  explicit CalmerPreviews(const PreviewSettings& settings);
  /// Of penalties above `penalty`.
  CalmerGains gains(const DisturbanceModel& model, double penalty) const noexcept;

 private:
  std::vector<StagePreview> previews_;
};

/// How far a stage goes of a change of command within a frame.
double share_of_a_frame(const PreviewSettings& settings) noexcept;
/// Fast stages go so far.
constexpr double kFastShare = 1.0 / 3;

}  // namespace driftd::control
