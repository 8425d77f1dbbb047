// SPDX-License-Identifier: MIT
#include "daemon/connection_bound.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "daemon/peer_connection.hpp"

namespace driftd::daemon {
namespace {

constexpr std::size_t kMostConnections = 200;
constexpr int kTakenAtOnce = 64;  // then the other sockets' turn

}  // namespace

ConnectionBound::ConnectionBound(zmq::context_t& context, zmq::socket_t& listening,
                                 const std::string& key, std::atomic<std::uint64_t>& ended)
    : events_(context, zmq::socket_type::pair), ended_(ended) {
  const std::string monitor = "inproc://connections-" + key;
  if (zmq_socket_monitor(listening.handle(), monitor.c_str(),
                         ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0) {
    throw zmq::error_t();
  }
  events_.set(zmq::sockopt::linger, 0);
  events_.set(zmq::sockopt::rcvhwm,
              0);  // with a limit, libzmq's I/O thread waits when it is reached
  events_.connect(monitor);
}

void ConnectionBound::take_events() {
  zmq::message_t event;
  zmq::message_t address;
  for (int i = 0; i < kTakenAtOnce; ++i) {
    if (!events_.recv(event, zmq::recv_flags::dontwait)) return;
    if (event.more() && !events_.recv(address)) return;
    std::uint16_t what = 0;  // zmq_socket_monitor(3): 16 bits, then 32 bits
    std::int32_t fd = -1;
    if (event.size() != sizeof(what) + sizeof(fd)) continue;
    std::memcpy(&what, event.data(), sizeof(what));
    std::memcpy(&fd, event.data<char>() + sizeof(what), sizeof(fd));
    if (what == ZMQ_EVENT_DISCONNECTED) {
      admitted_.erase(fd);
    } else if (admitted_.size() < kMostConnections) {
      admitted_.insert(fd);
    } else {
      end_connection(endpoint_, fd);
      ++ended_;
    }
  }
}

}  // namespace driftd::daemon
