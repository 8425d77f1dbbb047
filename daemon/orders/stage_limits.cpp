// SPDX-License-Identifier: MIT
#include "daemon/orders/stage_limits.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

namespace driftd::daemon {

std::optional<LimitPassed> limit_passed(const config::Control& limits, Vec2 from_lock_nm,
                                        Vec2 from_start_nm) noexcept {
  constexpr const char* kLock = "its place at lock";
  constexpr const char* kStart = "its place at the first start";
  constexpr const char* kRange = "control.range_limit_nm";
  constexpr const char* kTravel = "control.travel_limit_nm";
  for (const LimitPassed& place :
       {LimitPassed{from_lock_nm.x, kLock, "x", kRange, limits.range_limit_nm},
        LimitPassed{from_start_nm.x, kStart, "x", kTravel, limits.travel_limit_nm},
        LimitPassed{from_lock_nm.y, kLock, "y", kRange, limits.range_limit_nm},
        LimitPassed{from_start_nm.y, kStart, "y", kTravel, limits.travel_limit_nm}}) {
    if (!(std::abs(place.place_nm) <= place.limit_nm)) return place;
  }
  return std::nullopt;
}

std::string in_words(const LimitPassed& passed) {
  return fmt::format("{:.0f} nm from {} in {}, and {} is {:.0f}", passed.place_nm, passed.from,
                     passed.axis, passed.key, passed.limit_nm);
}

}  // namespace driftd::daemon
