// SPDX-License-Identifier: MIT
// The connections to one socket: a bound on their number at each of its endpoints, who they are,
// and which came to nothing. libzmq has no bound: it accepts until descriptors are used up, and
// then aborts the process (ipc) or spins (tcp). Here its monitor tells of each connection as it
// comes and goes, and what is beyond the bound is ended at once: strangers on a network take up no
// room of this computer's users, and none for long of those who have keys. Made by the thread that
// binds the socket, before it does; from then on the gatekeeper's thread's, but for introduce(),
// which is the socket's.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "base/process/spsc_queue.hpp"
#include "daemon/wire/refusals.hpp"

namespace driftd::daemon {

class ConnectionBound {
 public:
  struct Counters {
    std::atomic<std::uint64_t>& ended;
    Refusals& refusals;
  };
  /// @param key  of the configuration: names the monitor
  ConnectionBound(zmq::context_t& context, zmq::socket_t& listening, std::string key,
                  std::string domain, Counters counters);

  /// What the socket was bound to. To be told before take_events().
  /// @param keyed  whether who connects has to have a key
  void add_endpoint(std::string endpoint, bool keyed);
  const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }
  const std::string& key() const noexcept { return key_; }
  const std::string& domain() const noexcept { return domain_; }

  /// The thread that has the socket: whose a connection is, as each message says. Never waits; what
  /// finds no room is told with the next one. Where messages of two users claim a connection, one
  /// of them is of an older connection with that descriptor: which, nobody knows, and it is ended.
  void introduce(int fd, ino_t inode, std::string_view user_id) noexcept;

  /// Readable when a connection came or went.
  zmq::socket_t& events() noexcept { return events_; }
  /// Takes a few of the events that are there. Never waits.
  void take_events();
  /// Ends the connections of those who may not stay, and those on tcp that have not said whose they
  /// are. @returns how many of those who had said it
  std::uint64_t end_others(const std::function<bool(const std::string& user_id)>& may_stay);

 private:
  struct Introduction {
    int fd = -1;
    ino_t inode = 0;
    std::array<char, 64> user_id{};
  };
  struct Known {
    ino_t inode = 0;
    std::string user_id;
    bool operator==(const Known&) const = default;
  };
  struct Endpoint;
  struct Connection {
    const Endpoint* endpoint = nullptr;
    std::uint64_t number = 0;  ///< counts those that came
    std::string address;
    std::string who;               ///< a local user, or an address
    std::uint64_t handshakes = 0;  ///< of its endpoint when it came
  };
  /// One endpoint, whose events libzmq tells in the order in which they happen.
  struct Endpoint {
    bool keyed = false;
    std::uint64_t handshakes = 0;   ///< that came to an end, good or bad
    const char* failure = nullptr;  ///< of the connection that goes next
    bool left = false;              ///< it went by itself
  };
  bool take_event();
  void take_introductions();
  void forget_gone(int fd);
  void accepted(int fd, const Endpoint& endpoint);
  int one_too_many(int fd, const std::string& who, const Endpoint& endpoint) const;
  void gone(int fd, Endpoint& endpoint);
  std::string user_of(int fd) const;

  zmq::socket_t events_;
  std::string key_, domain_;
  std::vector<std::string> endpoints_;
  std::map<std::string, Endpoint, std::less<>> states_;
  std::map<int, Connection> admitted_;  ///< by descriptor
  std::uint64_t came_ = 0;
  std::map<int, Known> known_;       ///< by descriptor
  std::map<int, Known> introduced_;  ///< likewise, by the socket's thread
  SpscQueue<Introduction> introductions_;
  Counters counters_;
};

}  // namespace driftd::daemon
