// SPDX-License-Identifier: MIT
// Where the region of axial.reflection lies, and how far z goes before its spot leaves it. Pure;
// any thread.
#pragma once

#include <optional>

#include "config/config.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// Of a region about a middle: its first pixel.
int first_of(double middle_px, int side_px);

struct ReflectionRoom {
  double below_nm, above_nm;  ///< of z; negative: beyond the edge
};

/// From z as it is now until the spot is too near to the edge of its region to be read. None: z is
/// not told by a spot, or not measured.
std::optional<ReflectionRoom> reflection_room(const config::Config& config, const LoopReport& loop);

}  // namespace driftd::daemon
