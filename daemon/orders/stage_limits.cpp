// SPDX-License-Identifier: MIT
#include "daemon/orders/stage_limits.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <initializer_list>

namespace driftd::daemon {

namespace {

constexpr const char* kLock = "its place at lock";
constexpr const char* kStart = "its place at the first start";

std::optional<LimitPassed> first_passed(std::initializer_list<LimitPassed> places) noexcept {
  for (const LimitPassed& place : places)
    if (!(std::abs(place.place_nm) <= place.limit_nm)) return place;
  return std::nullopt;
}

}  // namespace

std::optional<LimitPassed> limit_passed(const config::Control& limits, Vec2 from_lock_nm,
                                        Vec2 from_start_nm) noexcept {
  constexpr const char* kRange = "control.range_limit_nm";
  constexpr const char* kTravel = "control.travel_limit_nm";
  return first_passed({{from_lock_nm.x, kLock, "x", kRange, limits.range_limit_nm},
                       {from_start_nm.x, kStart, "x", kTravel, limits.travel_limit_nm},
                       {from_lock_nm.y, kLock, "y", kRange, limits.range_limit_nm},
                       {from_start_nm.y, kStart, "y", kTravel, limits.travel_limit_nm}});
}

std::optional<LimitPassed> limit_passed(const config::Axial& limits, double from_lock_nm,
                                        double from_start_nm) noexcept {
  return first_passed(
      {{from_lock_nm, kLock, "z", "axial.range_limit_nm", limits.range_limit_nm},
       {from_start_nm, kStart, "z", "axial.travel_limit_nm", limits.travel_limit_nm}});
}

std::string in_words(const LimitPassed& passed) {
  return fmt::format("{:.0f} nm from {} in {}, and {} is {:.0f}", passed.place_nm, passed.from,
                     passed.axis, passed.key, passed.limit_nm);
}

}  // namespace driftd::daemon
