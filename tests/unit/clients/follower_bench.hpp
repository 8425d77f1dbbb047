// SPDX-License-Identifier: MIT
// A follower of corrections with a stage that is where it is told to be.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "clients/stage/correction.hpp"
#include "clients/stage/follower.hpp"
#include "support/catch.hpp"

namespace driftd::stage {

inline constexpr std::int64_t kFrame_ns = 2'000'000;

inline AxisSettings axis(bool reversed = false, double scale = 1) {
  return {.controller = Which::First,
          .axis = "1",
          .reversed = reversed,
          .scale = scale,
          .min_nm = -1e9,
          .max_nm = 1e9,
          .step_limit_nm = 100,
          .rate_limit_nm_per_s = 1e6,
          .range_limit_nm = 5000};
}

inline std::vector<Axis> travel(double min_nm = 0, double max_nm = 100'000,
                                bool closed_loop = true) {
  Axis one{.name = "1", .min_nm = min_nm, .max_nm = max_nm, .resolution_nm = 0.1};
  one.closed_loop = closed_loop;
  return {one, one};
}

inline Correction correction(PerAxis total, PerAxis delta, std::int64_t lock_id = 1,
                             const std::string& session = "a") {
  return {.session = session,
          .lock_id = lock_id,
          .sent_ns = 0,
          .expires_ns = std::numeric_limits<std::int64_t>::max(),
          .total_nm = total,
          .delta_nm = delta};
}

/// A stage that does at once what it is told, and a driver that follows.
struct FollowerBench {
  explicit FollowerBench(const AxisSettings& x = axis(), const AxisSettings& y = axis(),
                         PerAxis start = {50'000, 60'000}, std::vector<Axis> axes = travel())
      : follower(Group::Lateral, std::array{x, y}), position(start) {
    follower.connected(axes, position);
  }
  Target move(const Correction& correction) {
    now_ns += kFrame_ns;
    REQUIRE(follower.judge(correction, now_ns) == Verdict::Move);
    if (follower.takes_zero(correction)) follower.seen(position, now_ns);
    const Target target = follower.plan(correction, now_ns);
    follower.moved(target, now_ns);
    position = target.nm;
    return target;
  }
  Follower follower;
  PerAxis position;
  std::int64_t now_ns = 1'000'000'000;
};

}  // namespace driftd::stage
