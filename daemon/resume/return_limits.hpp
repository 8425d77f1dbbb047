// SPDX-License-Identifier: MIT
// Whether the stage may go back to where a sample was: whether the way that the sample's drift asks
// for keeps the limits on range and travel. Housekeeping thread; pure.
#pragma once

#include <string>

#include "base/vec2.hpp"
#include "config/config.hpp"

namespace driftd::daemon {

struct ReturnWay {
  Vec2 moved_nm;       ///< the sample, since it was there; image axes
  Vec2 from_lock_nm;   ///< where the stage is, as control.range_limit_nm counts; stage axes
  Vec2 from_start_nm;  ///< the same as control.travel_limit_nm counts
};

/// "3012.1 nm (x +3001.0, y -258.3)"
std::string distance_text(Vec2 nm);

/// Why the limits do not allow it, as a sentence's end; "" where they do.
std::string beyond_limits(const config::Config& config, const ReturnWay& way);

}  // namespace driftd::daemon
