// SPDX-License-Identifier: MIT
// The one ZeroMQ context of the daemon and the rules for its sockets: who may connect, and for how
// long a peer may take to say who it is, how many may be connected, and where they are bound. Every
// peer passes a ZAP handler (ZeroMQ's RFC 27) before it is heard. The handler admits every peer
// that speaks ZMTP 3; that there is one makes libzmq refuse ZMTP 1.0 and 2.0, whose frames can be
// written by an HTTP client. Made before the sockets and destroyed after them; socket() may be
// called by any thread, each socket is used by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/socket_place.hpp"

namespace zmq {
class socket_t;
enum class socket_type;  // NOLINT(readability-identifier-naming): cppzmq's
}  // namespace zmq

namespace driftd::daemon {

class WireContext {
 public:
  /// Starts the handler's thread.
  WireContext();
  ~WireContext();
  WireContext(const WireContext&) = delete;
  WireContext& operator=(const WireContext&) = delete;

  /// @param domain  "commands" or "publish": what the handler is asked about
  zmq::socket_t socket(zmq::socket_type type, const std::string& domain);
  /// Binds; an ipc socket's file is then this process's, readable and writable for owner and group.
  /// @param key  of the configuration, for messages. @throws SocketError
  void bind(zmq::socket_t& socket, const std::string& key, const std::string& endpoint);
  /// The whole endpoint that a key was bound to.
  const std::string& bound(const std::string& key) const { return bound_.at(key); }
  /// Connections that were ended for going beyond a bound. Any thread.
  void count_ended() noexcept { ++ended_; }
  std::uint64_t ended() const noexcept { return ended_; }

 private:
  class Handler;

  std::filesystem::path runtime_directory_;  ///< empty until a socket needs it
  std::map<std::string, std::string> bound_;
  std::vector<SocketLock> locks_;  // let go after the sockets are closed, hence before the handler
  std::atomic<std::uint64_t> ended_{0};
  std::unique_ptr<Handler> handler_;
};

}  // namespace driftd::daemon
