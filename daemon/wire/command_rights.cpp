// SPDX-License-Identifier: MIT
#include "daemon/wire/command_rights.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace driftd::daemon {
namespace {

using config::Roles;

struct Right {
  std::string_view command;
  bool with_fields;  ///< for a request that has fields of its own which are not false
  bool Roles::*role;
  std::string_view text;
  std::string_view but = {};  ///< a field that does not count as one
};

/// The first row that fits is a request's.
constexpr std::array<Right, 20> kRights = {{
    {"markers", true, &Roles::command,
     "markers with `find`, `add`, `remove`, `tracking` or `witness`"},
    {"record", true, &Roles::command, "record with `start`, `stop` or `frames`"},
    {"place", true, &Roles::command, "place with `save` or `remove`", "show"},
    {"exposure", true, &Roles::command, "exposure with `exposure_us` or `gain_db`"},
    {"status", false, &Roles::observe, "status"},
    {"markers", false, &Roles::observe, "markers"},
    {"snapshot", false, &Roles::observe, "snapshot"},
    {"calibration", false, &Roles::observe, "calibration"},
    {"record", false, &Roles::observe, "record"},
    {"place", false, &Roles::observe, "place"},
    {"exposure", false, &Roles::observe, "exposure"},
    {"access", false, &Roles::observe, "access"},
    {"stage", false, &Roles::stage, "stage"},
    {"lock", false, &Roles::command, "lock"},
    {"unlock", false, &Roles::command, "unlock"},
    {"reset", false, &Roles::command, "reset"},
    {"move", false, &Roles::command, "move"},
    {"calibrate", false, &Roles::command, "calibrate"},
    {"reload", false, &Roles::command, "reload"},
    {"restart", false, &Roles::command, "restart"},
}};

/// Every role holds what `observe` does.
bool holds(const Roles& roles, bool Roles::*role) {
  return roles.*role || (role == &Roles::observe && roles.any());
}

bool fits(const Right& right, const nlohmann::json& request) {
  if (request["command"].get_ref<const std::string&>() != right.command) return false;
  if (!right.with_fields) return true;
  const auto items = request.items();
  return std::any_of(items.begin(), items.end(), [&](const auto& item) {
    return item.key() != "command" && item.key() != "id" && item.key() != right.but &&
           item.value() != false;
  });
}

}  // namespace

std::string commands_of(const Roles& roles) {
  std::string text;
  for (const Right& right : kRights) {
    if (!holds(roles, right.role)) continue;
    text.append(text.empty() ? "" : ", ").append(right.text);
  }
  return text;
}

void check_right(const config::Client& client, const nlohmann::json& request) {
  const auto* const right = std::find_if(kRights.begin(), kRights.end(),
                                         [&](const Right& r) { return fits(r, request); });
  // What stands in no row may do anything; who may do anything is told by the handlers.
  if (holds(client.roles, right == kRights.end() ? &Roles::command : right->role)) return;
  const std::string what = right == kRights.end() ? "that" : std::string(right->text);
  throw CommandRefused{Refusal::Forbidden, client.name + " has the role " +
                                               config::text_of(client.roles) + ", not for " + what +
                                               ": it may " + commands_of(client.roles)};
}

}  // namespace driftd::daemon
