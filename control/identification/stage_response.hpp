// SPDX-License-Identifier: MIT
// What a linear stage does with a staircase of commands, and what a camera sees of it: dead time,
// then a first- or second-order response, averaged over each exposure. In closed form from event to
// event, so the times of commands and frames may be any. Used by the calibration of the stage; any
// thread.
#pragma once

#include <cstddef>
#include <vector>

#include "control/stage/response_shape.hpp"

namespace driftd::control {

/// The state of one channel: the command, and place and speed against it.
struct ResponseState {
  double command = 0, z = 0, v = 0;

  void pass(const Transition& t) noexcept {
    const double place = t.zz * z + t.zv * v;
    v = t.vz * z + t.vv * v;
    z = place;
  }
  void told(double value) noexcept {
    z += command - value;
    command = value;
  }
};

/// Commands of several channels that change at the same times; seconds from any one start.
struct Staircase {
  std::vector<double> sent_s;
  std::vector<std::vector<double>> channels;  ///< [channel][move]
};
/// Frames in the order of time; their exposures do not overlap.
struct Exposures {
  std::vector<double> middle_s;
  double exposure_s = 0;
};

/// The mean of each channel's response over each exposure: [channel][frame]. Before the first
/// command all stands at 0.
std::vector<std::vector<double>> respond(const ResponseShape& shape, const Staircase& staircase,
                                         const Exposures& exposures);

/// A play operator of half width `threshold_nm` moved along a staircase from 0: what hysteresis is
/// made of.
std::vector<double> play(const std::vector<double>& input_nm, double threshold_nm);

}  // namespace driftd::control
