// SPDX-License-Identifier: MIT
// What each role may ask for: one table of the commands (docs/reference/protocol.md, "Roles").
// Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/access_rules.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// "status, markers, ...": what somebody with these roles may ask for.
std::string commands_of(const config::Roles& roles);

/// @param request  a JSON object with a string `command`
/// @throws CommandRefused with the role and what it may do
void check_right(const config::Client& client, const nlohmann::json& request);

}  // namespace driftd::daemon
