// SPDX-License-Identifier: MIT
// How to command a stage of first order so that it goes along a course that is known ahead. Found
// once for a stage and a frame period, outside the loop; a plain value that the observer then uses.
//
// Linear-quadratic tracking with preview (Anderson and Moore 1990, Optimal Control, ch. 4): the
// mean square of (stage - course) at four instants of each frame, plus `penalty` times the squared
// change of command, over an unlimited time.
#pragma once

#include <cstddef>
#include <vector>

#include "control/observer/disturbance_filter.hpp"
#include "control/observer/disturbance_model.hpp"

namespace driftd::control {

struct PreviewSettings {
  double period_s = 0.002;         ///< between commands
  double time_constant_s = 0.001;  ///< of the stage's first-order response; 0: at once
  double penalty = 0.03;           ///< of a squared change of command against a squared error
};

/// command = -from_place * place - from_command * command before + course * states, all at the
/// moment when the command takes effect.
struct PreviewGains {
  double from_place = 0, from_command = -1;
  DisturbanceFilter::State course{};  ///< weights of the disturbance filter's states
};

class StagePreview {
 public:
  static constexpr std::size_t kInstants = 4;
  explicit StagePreview(const PreviewSettings& settings);
  /// The gains for a disturbance that goes as `model` says.
  PreviewGains gains(const DisturbanceModel& model) const noexcept;
  const PreviewSettings& settings() const noexcept { return settings_; }
  /// Frames ahead that are looked at.
  std::size_t frames() const noexcept { return weights_.size() / kInstants; }

 private:
  PreviewSettings settings_;
  double from_place_ = 0, from_command_ = 0;
  std::vector<double> weights_;  ///< of the course at each instant of each frame ahead
};

}  // namespace driftd::control
