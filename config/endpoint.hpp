// SPDX-License-Identifier: MIT
// Which ZeroMQ endpoints the daemon may bind: those that only this computer reaches and, where it
// has keys, those that others do. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftd::config {

/// What is allowed instead, or nothing when the endpoint is good.
/// @param keys  whether the daemon has some: its tcp sockets then take nobody without
std::optional<std::string> refused_endpoint(std::string_view endpoint, bool keys);

bool is_tcp(std::string_view endpoint);

}  // namespace driftd::config
