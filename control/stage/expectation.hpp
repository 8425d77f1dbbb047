// SPDX-License-Identifier: MIT
// How a frame differs from what the observer expected, for the stage monitor. A plain value; stage
// axes, nm.
#pragma once

#include "control/values/types.hpp"

namespace driftd::control {

struct Expectation {
  Vec2 innovation_nm;  ///< of the sample's own motion: measured less expected
  Vec2 variance_nm2;   ///< of it, by the model
  /// How much larger the innovation would have been had the stage not been there at all. The first
  /// is for the x axis' filter, by where the stage was in x and in y; the second for the y axis'
  /// filter.
  Vec2 of_stage_x_nm, of_stage_y_nm;
};

}  // namespace driftd::control
