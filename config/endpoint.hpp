// SPDX-License-Identifier: MIT
// Which ZeroMQ endpoints the daemon may bind: those that only this computer reaches, until the
// sockets have keys. Private to config/; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftd::config {

/// What is allowed instead, or nothing when the endpoint is good.
std::optional<std::string> refused_endpoint(std::string_view endpoint);

}  // namespace driftd::config
