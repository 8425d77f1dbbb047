// SPDX-License-Identifier: MIT
// How to command a stage so that it follows a course that is known ahead. Found once for a stage
// and a frame period, outside the loop; a plain value that the observer then uses.
//
// Linear-quadratic tracking with preview (Anderson and Moore 1990, Optimal Control, ch. 4): the
// mean square of (stage - course) at four instants of each frame, plus `penalty` times the squared
// change of command, over an unlimited time.
#pragma once

#include <array>
#include <complex>
#include <cstddef>

#include "control/law/observer/disturbance_filter.hpp"
#include "control/law/observer/disturbance_model.hpp"
#include "control/stage/response_shape.hpp"

namespace driftd::control {

struct PreviewSettings {
  double period_s = 0.002;                           ///< between commands
  ResponseShape response{.time_constant_s = 0.001};  ///< of the stage; without its dead time
  double penalty = 0.03;  ///< weight of a squared change of command against a squared error
};

/// When a command takes effect.
struct StageAhead {
  double place_nm = 0;
  double speed_nm_per_s = 0;
  double told_nm = 0;                 ///< the command before
  DisturbanceFilter::State course{};  ///< that the stage should go
  std::size_t pairs = 1;              ///< pairs of the course that count
};

/// command = -from_place * place - from_speed * speed - from_command * command before + course *
/// states, all at the moment when the command takes effect.
struct PreviewGains {
  double from_place = 0;
  double from_speed = 0;  ///< s
  double from_command = -1;
  DisturbanceFilter::State course{};  ///< weights of the disturbance filter's states

  double command_nm(const StageAhead& ahead) const noexcept {
    return weighted(course, ahead.course, ahead.pairs) - from_place * ahead.place_nm -
           from_speed * ahead.speed_nm_per_s - from_command * ahead.told_nm;
  }
};

/// How far a stage is from going along its course by some gains.
struct ToDo {
  std::array<PreviewGains, 3> parts{};  ///< whose command_nm() are lengths

  /// An upper limit: the present change of command is not larger, nor, if the course rests, any
  /// later one, as long as the stage goes by the gains. Beside a line that the stage is too slow to
  /// follow it stays large, though little is asked for.
  double length_nm(const StageAhead& ahead) const noexcept;
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
  /// @pre the stage is of second order
  ToDo to_do(const DisturbanceModel& model) const noexcept;
  const PreviewSettings& settings() const noexcept { return settings_; }

 private:
  using ComplexStates = std::array<std::complex<double>, kStates>;
  ComplexStates summed(std::complex<double> z, const ComplexStates& from) const noexcept;
  DisturbanceFilter::State course(const std::array<double, kInstants>& now, const States& from,
                                  const DisturbanceModel& model) const noexcept;

  PreviewSettings settings_;
  PreviewGains stage_gains_;  ///< without a course
  Matrix closed_{};           ///< from a frame's states to the next one's, with the gains
  States to_command_{};       ///< what a command changes of the next frame's states
  /// Weights of the course at the instants of the frame that begins; and of later ones, by how far
  /// the states then depend on the command.
  std::array<double, kInstants> now_{};
  std::array<States, kInstants> later_{};
  Matrix worth_{};    ///< Riccati's: the cost to come, over the states
  double whole_ = 1;  ///< the cost over the command
};

/// The share of a change of command that a stage goes within a frame.
double share_of_a_frame(const PreviewSettings& settings) noexcept;
/// Fast stages go so far.
constexpr double kFastShare = 1.0 / 3;

}  // namespace driftd::control
