// SPDX-License-Identifier: MIT
// Where the daemon's local sockets are, by one rule for the daemon and its clients
// (docs/reference/protocol.md, "Where the sockets are"), and whether somebody listens there. Reads
// the environment and the file system, changes neither; any thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace driftd::config {

/// The folders where a daemon's sockets may be, the preferred one first: systemd's
/// $RUNTIME_DIRECTORY alone where it is set, else /run/driftd, $XDG_RUNTIME_DIR/driftd where that
/// is set, /tmp/driftd-UID.
std::vector<std::filesystem::path> runtime_directories();

/// The last of them, which lies where everybody may write: to be used only if it is this user's
/// alone.
std::filesystem::path fallback_directory();
/// A folder, no link to one, that this user owns and nobody else may enter.
bool is_private(const std::filesystem::path& folder);

/// True for "ipc://NAME", a socket in the runtime directory.
bool is_named(const std::string& endpoint);
/// "ipc://NAME" as the endpoint in `folder`; any other endpoint as it is.
std::string endpoint_in(const std::filesystem::path& folder, const std::string& endpoint);
/// The file of an "ipc:///PATH"; nothing for another kind of endpoint.
std::optional<std::filesystem::path> socket_file(const std::string& endpoint);

struct Listener {
  enum class State { Listening, Nobody, NoPermission } state = State::Nobody;
  pid_t pid = 0;      ///< who listens; 0: not known
  std::string group;  ///< NoPermission: whose members may connect
};
/// Connects to a tcp or ipc endpoint and hangs up. A process that is stopped counts as listening.
Listener probe(const std::string& endpoint);

}  // namespace driftd::config
