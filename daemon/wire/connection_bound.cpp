// SPDX-License-Identifier: MIT
#include "daemon/wire/connection_bound.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "config/endpoint.hpp"
#include "daemon/wire/access_book.hpp"
#include "daemon/wire/peer_connection.hpp"

namespace driftd::daemon {
namespace {

constexpr std::size_t kMostConnections = 200;  // to one endpoint
constexpr int kTakenAtOnce = 64;               // then the other sockets' turn
constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

/// A connection to tcp://0.0.0.0:5555 tells the address that it was made to.
std::string place_of(const std::string& endpoint) {
  return config::is_tcp(endpoint) ? endpoint.substr(endpoint.rfind(':')) : endpoint;
}

const char* reason_of(int protocol_error) {
  switch (protocol_error) {
    case ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
      return "it came without a key to where keys are needed, or with one to where none are taken";
    case ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC:
      return "what it sent was not made for this daemon's key now: another server's key, or a "
             "recording played again";
    default:
      return "it broke the protocol of the handshake";
  }
}

}  // namespace

ConnectionBound::ConnectionBound(zmq::context_t& context, zmq::socket_t& listening, std::string key,
                                 std::string domain, Counters counters)
    : events_(context, zmq::socket_type::pair),
      key_(std::move(key)),
      domain_(std::move(domain)),
      introductions_(2 * kMostConnections),
      counters_(counters) {
  const std::string monitor = "inproc://connections-" + key_;
  if (zmq_socket_monitor(listening.handle(), monitor.c_str(), kEvents) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.set(zmq::sockopt::rcvhwm,
              0);  // with a limit, libzmq's I/O thread waits when it is reached
  events_.connect(monitor);
}

void ConnectionBound::add_endpoint(std::string endpoint, bool keyed) {
  states_[place_of(endpoint)].keyed = keyed;
  endpoints_.push_back(std::move(endpoint));
}

void ConnectionBound::introduce(int fd, ino_t inode, std::string_view user_id) noexcept {
  Introduction introduction{.fd = fd, .inode = inode};
  if (inode == 0 || user_id.size() >= introduction.user_id.size()) return;
  Known& told = introduced_[fd];
  if (told.inode == inode && told.user_id == user_id) return;
  std::ranges::copy(user_id, introduction.user_id.begin());
  if (introductions_.push(introduction)) told = {inode, std::string(user_id)};
}

void ConnectionBound::take_introductions() {
  Introduction introduction;
  while (introductions_.pop(introduction)) {
    const Known now{introduction.inode, introduction.user_id.data()};
    const Known before = std::exchange(known_[introduction.fd], now);
    if (before.inode != now.inode || before == now || inode_of(introduction.fd) != now.inode)
      continue;
    end_connection(endpoints_, introduction.fd);
    ++counters_.ended;
  }
}

/// What is known of a descriptor, unless it is of the connection that has it now.
void ConnectionBound::forget_gone(int fd) {
  const auto known = known_.find(fd);
  if (known != known_.end() && known->second.inode != inode_of(fd)) known_.erase(known);
}

void ConnectionBound::take_events() {
  for (int i = 0; i < kTakenAtOnce && take_event(); ++i) {
  }
  take_introductions();
}

/// False: there is none.
bool ConnectionBound::take_event() {
  zmq::message_t event;
  zmq::message_t address;
  if (!events_.recv(event, zmq::recv_flags::dontwait)) return false;
  if (event.more() && !events_.recv(address)) return false;
  std::uint16_t what = 0;  // zmq_socket_monitor(3): 16 bits, then 32 bits
  std::int32_t value = 0;
  if (event.size() != sizeof(what) + sizeof(value)) return true;
  std::memcpy(&what, event.data(), sizeof(what));
  std::memcpy(&value, event.data<char>() + sizeof(what), sizeof(value));
  Endpoint& endpoint = states_[place_of(address.to_string())];
  switch (what) {
    case ZMQ_EVENT_ACCEPTED:
      accepted(value, endpoint);
      break;
    case ZMQ_EVENT_DISCONNECTED:
      gone(value, endpoint);
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      endpoint.failure = reason_of(value);
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      endpoint.left = value != EAGAIN;
      if (!endpoint.left) endpoint.failure = "it did not say who it is in time";
      break;
    default:  // it succeeded, or the gatekeeper has told why not
      ++endpoint.handshakes;
  }
  return true;
}

void ConnectionBound::accepted(int fd, const Endpoint& endpoint) {
  admitted_.erase(fd);
  take_introductions();  // who has spoken by now makes no room
  forget_gone(fd);
  const std::string address = is_connection_to(endpoints_, fd) ? address_of_peer(fd) : "";
  const auto user = local_user(address);
  const std::string who = user ? user->peer() : address;
  if (const int ended = one_too_many(fd, who, endpoint); ended >= 0) {
    end_connection(endpoints_, ended);
    ++counters_.ended;
    if (ended == fd) return;
    admitted_.erase(ended);
  }
  admitted_[fd] = {.endpoint = &endpoint,
                   .number = came_++,
                   .address = address,
                   .who = who,
                   .handshakes = endpoint.handshakes};
}

/// Which one has to go when another comes. Where there are keys: of the connections that have not
/// said whose they are, which strangers never do, the oldest of the address that has most of them;
/// an honest one may only be far away. Elsewhere the newest of the user who has most, the other one
/// counted. -1: there is room.
int ConnectionBound::one_too_many(int fd, const std::string& who, const Endpoint& endpoint) const {
  struct Share {
    std::size_t connections = 0;
    int goes = -1;
    std::uint64_t number = 0;  ///< of the connection that goes
  };
  std::map<std::string_view, Share> shares;
  std::size_t connections = 0;
  for (const auto& [other, connection] : admitted_) {
    if (connection.endpoint != &endpoint) continue;
    ++connections;
    if (endpoint.keyed && known_.contains(other)) continue;
    Share& share = shares[connection.who];
    const bool before = connection.number < share.number;
    if (share.connections++ == 0 || before == endpoint.keyed) {
      share.goes = other;
      share.number = connection.number;
    }
  }
  if (connections < kMostConnections) return -1;
  if (!endpoint.keyed) {
    Share& share = shares[who];
    ++share.connections;
    share.goes = fd;
    share.number = came_;
  }
  const auto most = std::ranges::max_element(shares, {}, [&](const auto& entry) {
    const Share& share = entry.second;  // among equals the oldest, or the newest
    return std::pair(share.connections, endpoint.keyed ? ~share.number : share.number);
  });
  return most == shares.end() ? fd : most->second.goes;
}

/// Which of the connections it was that a handshake belongs to, libzmq does not tell. One that goes
/// while there was none at its endpoint since it came has certainly not spoken ZMTP 3.
void ConnectionBound::gone(int fd, Endpoint& endpoint) {
  const char* why = std::exchange(endpoint.failure, nullptr);
  const bool left = std::exchange(endpoint.left, false);
  forget_gone(fd);
  const auto found = admitted_.find(fd);
  if (found == admitted_.end()) return;
  const Connection connection = std::move(found->second);
  admitted_.erase(found);
  if (why == nullptr && left && endpoint.keyed) {
    why = "it left before it had shown a key, as one does that has none";
  }
  if (why == nullptr && !left && connection.handshakes == endpoint.handshakes) {
    why = "it speaks no ZMTP 3";
  }
  if (why == nullptr) return;
  const auto user = local_user(connection.address);
  const std::string peer = user ? user->peer() : connection.address;
  counters_.refusals.note(peer.empty() ? "somebody" : peer, key_, why);
}

std::string ConnectionBound::user_of(int fd) const {
  const auto known = known_.find(fd);
  if (known != known_.end() && known->second.inode == inode_of(fd)) return known->second.user_id;
  const auto user = local_user(address_of_peer(fd));
  return user ? user->user_id() : "";
}

std::uint64_t ConnectionBound::end_others(
    const std::function<bool(const std::string& user_id)>& may_stay) {
  while (take_event()) {
  }
  take_introductions();
  std::uint64_t ended = 0;
  for (const auto& [fd, connection] : admitted_) {
    const std::string user_id = user_of(fd);
    if (!user_id.empty() && may_stay(user_id)) continue;
    end_connection(endpoints_, fd);
    if (!user_id.empty()) ++ended;
  }
  return ended;
}

}  // namespace driftd::daemon
