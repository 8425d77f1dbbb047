// SPDX-License-Identifier: MIT
// The place of a socket before it is bound: the runtime directory, and the lock on a socket's file.
// libzmq replaces the file of an ipc socket without asking, whatever it is: only what a daemon may
// have left is let go. A second daemon would take over the endpoint of the first in silence; the
// lock file beside it, PATH.lock, keeps that from happening. Main thread, before the sockets are
// bound.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

namespace driftd::daemon {

/// A socket that cannot be bound: the text names the key, the endpoint and the reason.
struct SocketError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The folder of this daemon's own sockets (docs/reference/protocol.md, "Where the sockets are"),
/// made if need be. @throws SocketError
std::filesystem::path make_runtime_directory();

/// Why an endpoint cannot be bound by this user at the moment; nothing when it can. Leaves no
/// trace.
std::optional<std::string> obstacle(const std::string& endpoint);

/// The same of an ipc endpoint that this process has bound, once it has let it go.
std::optional<std::string> obstacle_to_bind_anew(const std::string& endpoint);

/// Holds the file of one socket for this process; lets it go when destroyed.
class SocketLock {
 public:
  /// @throws SocketError with the reason alone: who has it, or what is in the way and stays
  explicit SocketLock(const std::filesystem::path& socket_file);
  ~SocketLock();
  SocketLock(SocketLock&& other) noexcept;
  SocketLock& operator=(SocketLock&&) = delete;

 private:
  void release() noexcept;

  std::filesystem::path file_;
  int fd_ = -1;
};

}  // namespace driftd::daemon
