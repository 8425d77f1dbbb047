// SPDX-License-Identifier: MIT
// One report of a stage's driver, as docs/reference/protocol.md has the command `stage`: read and
// checked here, as it comes from outside. Values of plain types; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/vec2.hpp"
#include "daemon/loop/axis_group.hpp"

namespace driftd::daemon {

enum class DriverState : std::uint8_t {
  Ready,
  ServoOff,
  NotReferenced,
  Limit,
  Error,
  Disconnected,
  Stopped,
};
const char* name_of(DriverState state) noexcept;

struct StageAxis {
  std::string axis;  ///< of the corrections: x, y, z
  std::string name;  ///< the controller's
  double min_nm = 0, max_nm = 0, resolution_nm = 0;
  bool closed_loop = false;
  std::optional<double> position_nm, target_nm;  ///< on the controller's own axis
};

struct StageReport {
  std::string instance;  ///< of one run of a driver
  std::string driver, description;
  std::vector<StageAxis> axes;
  DriverState state = DriverState::Ready;
  std::string text;  ///< what is wrong
  std::int64_t error = 0;
  std::optional<bool> on_target;
  std::int64_t time_ns = 0;  ///< CLOCK_MONOTONIC, when the position was read
  std::string session;       ///< of the last correction carried out; empty: none yet
  std::uint64_t lock_id = 0;
  std::optional<Vec2> total_nm;  ///< its place against that lock's zero, as corrections count
  // The same of z and its lock.
  std::string z_session;
  std::uint64_t z_lock_id = 0;
  std::optional<double> total_z_nm;
  bool names_xy = false, names_z = false;  ///< it has a key of theirs, if only with null
  std::uint64_t carried_out = 0, ignored = 0, refused = 0;
  double rate_hz = 0;      ///< moves in the last second
  double max_rate_hz = 0;  ///< 0: not known
  struct Latency {
    std::uint64_t n = 0;
    std::optional<double> p50_us, p99_us, max_us;
  } latency;

  /// Whether it tells of the stage of this group: by its axes or, where it lists none, as before a
  /// driver's first connection, by its keys; without either, of x and y.
  bool is_of(AxisGroup group) const noexcept;
};

/// @throws CommandRefused, BadRequest, that names the field, what was found and what is allowed
StageReport read_stage_report(const nlohmann::json& request);

}  // namespace driftd::daemon
