// SPDX-License-Identifier: MIT
// From what a request `move` asks for (docs/reference/protocol.md) to a path that the limits allow:
// which places, at which speeds, how long it takes. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "control/lock/set_point.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// What is asked for.
struct MoveRequest {
  enum class Kind : std::uint8_t {
    To,    ///< places from the lock's reference
    By,    ///< one place, from the end of the path before
    Stop,  ///< where the set-point is
  };
  struct Place {
    control::Vec2 place_nm;
    double dwell_s = 0;
    std::optional<double> speed_nm_per_s = std::nullopt;
  };

  Kind kind = Kind::To;
  std::vector<Place> places;
  std::uint32_t repeats = 1;
};

/// @param request  without what is common to all requests. @throws CommandRefused, BadRequest
MoveRequest read_move(const nlohmann::json& request);

struct MovePlan {
  control::MovePath path;
  double fastest_nm_per_s = 0;  ///< of its ways; 0: there is no way to go
  double duration_s = 0;        ///< until the last place is reached, and its stay over
};

/// @param loop  where set-point and stage are, and how fast frames come
/// @throws CommandRefused  a place or a speed that the limits do not allow
MovePlan plan_move(const MoveRequest& request, const config::Config& config,
                   const LoopReport& loop);

}  // namespace driftd::daemon
