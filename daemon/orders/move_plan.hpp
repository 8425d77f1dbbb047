// SPDX-License-Identifier: MIT
// From what a request `move` asks for (docs/reference/protocol.md) to a path that the limits allow:
// which places, at which speeds, how long it takes. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

/// Of x and y. @param request  without what is common to all requests.
/// @throws CommandRefused, BadRequest
MoveRequest read_move(const nlohmann::json& request);

/// What is asked for of each group of axes; of z, places are {z, 0}.
struct MoveRequests {
  std::optional<MoveRequest> xy = std::nullopt, z = std::nullopt;
  bool of_any = false;  ///< `home` or `stop` without axes: of those that are engaged
};
/// As read_move().
MoveRequests read_moves(const nlohmann::json& request);

struct MovePlan {
  control::MovePath path;
  double fastest_nm_per_s = 0;  ///< of its ways; 0: there is no way to go
  double duration_s = 0;        ///< until the last place is reached, and its stay over
};

/// @param loop  where set-point and stage are, and how fast frames come
/// @throws CommandRefused  a place or a speed that the limits do not allow; of z also a place
///   beyond the curve, or where the reflected spot is out of its region
MovePlan plan_move(const MoveRequest& request, const config::Config& config, const LoopReport& loop,
                   AxisGroup group = AxisGroup::Lateral);
/// "(x 12.0, y -3.0 nm)", "(z 12.0 nm)"
std::string place_text(Vec2 place_nm, AxisGroup group);

}  // namespace driftd::daemon
