// SPDX-License-Identifier: MIT
// The text of a request and of what it comes to (docs/reference/protocol.md), without the socket
// that they come and go by. Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// A request's parts, the empty one of a REQ peer among them.
constexpr std::size_t kMaxRequestParts = 7;

/// Reads a request's last part: a JSON object with a string `command`.
/// @param parts  how many there were
/// @param id     gets {"id": ...} as soon as it is known, for the refusal of what follows
/// @throws CommandRefused, BadRequest
nlohmann::json read_request(std::string_view text, std::size_t parts, nlohmann::json& id);

/// A reply's first part. What is no UTF-8 is replaced.
std::string reply_text(const nlohmann::json& id, const Outcome& outcome);

}  // namespace driftd::daemon
