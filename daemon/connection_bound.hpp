// SPDX-License-Identifier: MIT
// A bound on the connections to one listening socket. libzmq has none: it accepts until descriptors
// are used up, and then aborts the process (ipc) or spins (tcp). Here its monitor tells of each
// connection as it comes and goes, and those beyond the bound are ended at once. Made by the thread
// that binds the socket, before it does; from then on the thread's that polls events().
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <zmq.hpp>

namespace driftd::daemon {

class ConnectionBound {
 public:
  /// @param key  of the configuration: names the monitor
  /// @param ended  counts those that were ended
  ConnectionBound(zmq::context_t& context, zmq::socket_t& listening, const std::string& key,
                  std::atomic<std::uint64_t>& ended);

  /// What the socket was bound to. To be told before take_events().
  void set_endpoint(std::string endpoint) { endpoint_ = std::move(endpoint); }
  /// Readable when a connection came or went.
  zmq::socket_t& events() noexcept { return events_; }
  /// Takes a few of the events that are there. Never waits.
  void take_events();

 private:
  zmq::socket_t events_;
  std::string endpoint_;
  std::set<int> admitted_;  ///< descriptors
  std::atomic<std::uint64_t>& ended_;
};

}  // namespace driftd::daemon
