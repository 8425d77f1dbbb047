// SPDX-License-Identifier: MIT
// Finds the daemon that a person means, and says why it is not reached: its sockets are named by
// the configuration, and a named one lies in the first runtime directory where a daemon listens
// (docs/reference/protocol.md, "Where the sockets are"). Any thread.
#pragma once

#include <stdexcept>
#include <string>

namespace driftd::clients {

/// Nobody listens there, the user may not connect, or no answer came in time; what() says which.
struct Unreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Nothing that can be connected to, whoever listens; what() names it and what is allowed.
struct BadEndpoint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "ipc://NAME" in the folder where a daemon listens; any other endpoint as it is.
/// @throws BadEndpoint, Unreachable
std::string find_endpoint(const std::string& endpoint);

/// The process that listens there, as a word for messages: "driftd (process 1234)".
/// @throws Unreachable when nobody does or this user may not connect
std::string listener_at(const std::string& endpoint);

}  // namespace driftd::clients
