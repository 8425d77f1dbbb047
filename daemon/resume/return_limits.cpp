// SPDX-License-Identifier: MIT
#include "daemon/resume/return_limits.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "daemon/orders/stage_limits.hpp"

namespace driftd::daemon {
std::string distance_text(Vec2 nm) {
  return fmt::format("{:.1f} nm (x {:+.1f}, y {:+.1f})", std::hypot(nm.x, nm.y), nm.x, nm.y);
}

std::string beyond_limits(const config::Config& config, const ReturnWay& way) {
  const auto& m = config.stage.image_to_stage;
  const Vec2 way_nm = {-(m[0][0] * way.moved_nm.x + m[0][1] * way.moved_nm.y),
                       -(m[1][0] * way.moved_nm.x + m[1][1] * way.moved_nm.y)};
  const Vec2 from_lock_nm = {way.from_lock_nm.x + way_nm.x, way.from_lock_nm.y + way_nm.y};
  const Vec2 from_start_nm = {way.from_start_nm.x + way_nm.x, way.from_start_nm.y + way_nm.y};
  const auto passed = limit_passed(config.control, from_lock_nm, from_start_nm);
  return passed ? "it would be " + in_words(*passed) : "";
}

}  // namespace driftd::daemon
