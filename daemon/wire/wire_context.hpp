// SPDX-License-Identifier: MIT
// The one ZeroMQ context of the daemon and the rules for its sockets: where they are bound, with
// keys or without, who may connect, how long a peer may take to say who it is, and how many may be
// connected. Every peer passes the gatekeeper before it is heard. Made before the sockets and
// destroyed after them; socket(), bind(), replace() and client() are called by the main thread,
// each socket is used by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/access_rules.hpp"
#include "config/config.hpp"
#include "daemon/wire/access_book.hpp"
#include "daemon/wire/refusals.hpp"
#include "daemon/wire/socket_path.hpp"

namespace zmq {
class socket_t;
enum class socket_type;  // NOLINT(readability-identifier-naming): cppzmq's
}  // namespace zmq

namespace driftd::daemon {

class ConnectionBound;
class Gatekeeper;

class WireContext {
 public:
  /// Starts the gatekeeper's thread.
  explicit WireContext(config::AccessRules rules = {});
  ~WireContext();
  WireContext(const WireContext&) = delete;
  WireContext& operator=(const WireContext&) = delete;

  struct Place {
    std::string key;     ///< of the configuration, for messages: "wire.publish"
    std::string domain;  ///< what the gatekeeper is asked about: "publish"
    config::Endpoints endpoints;
    std::int64_t most_bytes;  ///< of one part that a peer sends
    int most_waiting;         ///< messages of one peer that wait to be read
  };
  zmq::socket_t socket(zmq::socket_type type);
  /// Binds; an ipc socket's file is then this process's, readable and writable for owner and group.
  /// Where there are keys, tcp takes nobody without. @throws SocketError
  ConnectionBound& bind(zmq::socket_t& socket, const Place& place);
  /// The whole endpoints that a key was bound to.
  const std::vector<std::string>& bound(const std::string& key) const { return bound_.at(key); }

  /// Who speaks, by the user id of a message; nothing when it is no longer let in.
  std::optional<config::Client> client(const std::string& user_id) const {
    return book_.client(user_id);
  }
  /// Takes over other rules, and ends the connections of those who lost what they had.
  AccessBook::Change replace(config::AccessRules rules);

  /// Connections that were ended for going beyond a bound. Any thread.
  void count_ended() noexcept { ++ended_; }
  std::uint64_t ended() const noexcept { return ended_; }
  /// And for their key's or group's being taken back.
  std::uint64_t revoked() const noexcept;
  Refusals& refusals() noexcept { return refusals_; }

 private:
  void bind_one(zmq::socket_t& socket, const Place& place, const std::string& endpoint,
                ConnectionBound& bound);

  std::filesystem::path runtime_directory_;  ///< empty until a socket needs it
  std::string server_secret_;
  std::map<std::string, std::vector<std::string>> bound_;
  std::vector<SocketLock> locks_;  // let go after the sockets are closed, hence before the handler
  std::atomic<std::uint64_t> ended_{0};
  Refusals refusals_;
  AccessBook book_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
};

}  // namespace driftd::daemon
