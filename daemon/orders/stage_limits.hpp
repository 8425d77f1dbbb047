// SPDX-License-Identifier: MIT
// Whether the limits on range and travel let the stage go to a place, before it is sent there.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "base/vec2.hpp"
#include "config/config.hpp"

namespace driftd::daemon {

/// The first limit that a place is beyond.
struct LimitPassed {
  double place_nm;
  const char* from;
  const char* axis;
  const char* key;
  double limit_nm;
};

/// @param from_lock_nm   the place as control.range_limit_nm counts; stage axes
/// @param from_start_nm  the same as control.travel_limit_nm counts
std::optional<LimitPassed> limit_passed(const config::Control& limits, Vec2 from_lock_nm,
                                        Vec2 from_start_nm) noexcept;
/// The same of the stage of z, and of axial.range_limit_nm and travel_limit_nm.
std::optional<LimitPassed> limit_passed(const config::Axial& limits, double from_lock_nm,
                                        double from_start_nm) noexcept;
/// A sentence's end: "3012 nm from its place at lock in x, and control.range_limit_nm is 2000".
std::string in_words(const LimitPassed& passed);

}  // namespace driftd::daemon
