// SPDX-License-Identifier: MIT
// How far a correction may go. The controller applies the limits; the publisher asks once more,
// where a correction leaves, whether it keeps them.
#pragma once

#include <cstdint>

#include "control/values/types.hpp"

namespace driftd::control {

/// The limits that hold for one correction.
struct CorrectionLimits {
  double step_nm = 0;
  Vec2 low_nm, high_nm;  ///< of `total`: range and travel together
};

/// The step from `from` to `to` (totals since the lock) is finite, no longer than allowed, and ends
/// within the range or comes nearer to it: a range that was made narrower is entered in steps.
bool keeps(const CorrectionLimits& limits, Vec2 from_nm, Vec2 to_nm) noexcept;

struct LimitedAxis {
  double total_nm;
  std::uint8_t limited;  ///< LimitFlags
};
/// Share of a step `move_nm`, 0 to 1, for which there is room beside a correction from `from_nm` to
/// `wanted_nm`. The correction itself goes first, and a move back into the range always has room.
double room_for_move(double wanted_nm, double move_nm, double from_nm, double low_nm,
                     double high_nm, double largest_step_nm) noexcept;
/// One axis of a correction: from `from_nm` towards `wanted_nm`, within range, step and rate in
/// this order.
LimitedAxis limit_axis(double wanted_nm, double from_nm, double low_nm, double high_nm,
                       double step_nm, double rate_step_nm) noexcept;

}  // namespace driftd::control
