// SPDX-License-Identifier: MIT
#include "daemon/resume/return_limits.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

namespace driftd::daemon {
namespace {

std::string beyond(const char* axis, double place_nm, const char* from, const char* limit,
                   double limit_nm) {
  if (std::abs(place_nm) <= limit_nm) return {};
  return fmt::format("it would be {:.0f} nm from {} in {}, and {} is {:.0f}", place_nm, from, axis,
                     limit, limit_nm);
}

}  // namespace

std::string distance_text(Vec2 nm) {
  return fmt::format("{:.1f} nm (x {:+.1f}, y {:+.1f})", std::hypot(nm.x, nm.y), nm.x, nm.y);
}

std::string beyond_limits(const config::Config& config, const ReturnWay& way) {
  const auto& m = config.stage.image_to_stage;
  const Vec2 way_nm = {-(m[0][0] * way.moved_nm.x + m[0][1] * way.moved_nm.y),
                       -(m[1][0] * way.moved_nm.x + m[1][1] * way.moved_nm.y)};
  const Vec2 from_lock_nm = {way.from_lock_nm.x + way_nm.x, way.from_lock_nm.y + way_nm.y};
  const Vec2 from_start_nm = {way.from_start_nm.x + way_nm.x, way.from_start_nm.y + way_nm.y};
  const config::Control& c = config.control;
  constexpr const char* kLock = "its place at lock";
  constexpr const char* kStart = "its place at the first start";
  for (const std::string& why :
       {beyond("x", from_lock_nm.x, kLock, "control.range_limit_nm", c.range_limit_nm),
        beyond("y", from_lock_nm.y, kLock, "control.range_limit_nm", c.range_limit_nm),
        beyond("x", from_start_nm.x, kStart, "control.travel_limit_nm", c.travel_limit_nm),
        beyond("y", from_start_nm.y, kStart, "control.travel_limit_nm", c.travel_limit_nm)}) {
    if (!why.empty()) return why;
  }
  return {};
}

}  // namespace driftd::daemon
