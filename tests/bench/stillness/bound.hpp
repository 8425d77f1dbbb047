// SPDX-License-Identifier: MIT
// The least residual that any controller can reach on an axis: linear-quadratic Gaussian control
// that knows disturbance, noise and stage (Astrom 1970, Introduction to Stochastic Control Theory,
// ch. 8). Lines and a ramp are known in advance, so what they leave is what the stage cannot follow
// between two commands; of the rest a Kalman filter knows what the frames show. Any thread.
#pragma once

#include "tests/bench/stillness/axis_model.hpp"

namespace driftd::stillness {

struct Bound {
  double residual_nm = 0;  ///< rms over the four instants
  double change_nm = 0;    ///< rms change of command per frame
  double penalty = 0;      ///< of a squared change against a squared residual
  double lines_nm = 0;     ///< part of the residual that lines and ramp leave
  double blind_nm = 0;     ///< part that no command can lessen: the error of the best prediction
};

/// What the best controller does with what it knows: command = -gains * state + lines.
struct BestLaw {
  Matrix gains;   ///< row
  Matrix filter;  ///< column: the Kalman filter's, for the state just measured
};

/// A line in the coordinates of frames: e^(i omega t), t from a frame's exposure's first tick.
struct LineAnswer {
  double omega = 0;
  double amplitude_nm = 0;
  double command_re = 0, command_im = 0;  ///< the best command's amplitude, for a line of 1 nm
  double left_nm2 = 0;                    ///< mean square of what it leaves
  double change_nm2 = 0;                  ///< mean square of the command's change
};

/// @param change_limit_nm  the penalty is the least that keeps the rms change below
Bound find_bound(const AxisModel& axis, double change_limit_nm);
BestLaw best_law(const AxisModel& axis, double penalty);
std::vector<LineAnswer> answers_to_lines(const AxisModel& axis, double penalty);

}  // namespace driftd::stillness
