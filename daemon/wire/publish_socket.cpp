// SPDX-License-Identifier: MIT
#include "daemon/wire/publish_socket.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <zmq.hpp>

#include "daemon/wire/connection_bound.hpp"
#include "daemon/wire/peer_connection.hpp"

namespace driftd::daemon {
namespace {

/// More than any topic and than the handshake of a subscriber (25 bytes, 38 with an empty
/// identity). Without a limit libzmq allocates whatever length a peer announces.
constexpr std::size_t kMaxSubscriptionBytes = 64;
/// Subscriptions of one connection that may wait. libzmq takes all of them at once when the
/// publisher looks or sends, and would be refilled meanwhile if more might wait.
constexpr int kWaitingSubscriptions = 1;
/// More than all connections deliver while they are taken, or what waits would grow without end.
constexpr int kTakenAtOnce = 1024;
/// Subscriptions and their ends that one connection may tell in a minute; a subscriber that reads
/// along needs a handful.
constexpr int kMostTold = 512;
constexpr std::int64_t kMinuteNs = 60'000'000'000;
/// Foreign topics of one connection: a subscriber to other programs, too, sends each the topics of
/// all. libzmq holds 32 bytes a character, so these cost 32 KiB.
constexpr std::size_t kMostForeign = 16;
/// A subscriber to both of the daemon's sockets sends each the topics of both.
constexpr std::array<std::string_view, 6> kAllTopics = {"position", "correction", "axial",
                                                        "markers",  "status",     "event"};

/// Whether messages of this topic begin so.
bool begins(std::string_view topic, std::string_view beginning) {
  return (std::string(topic) + ' ').starts_with(beginning);
}

/// The kernel then holds a handful of messages for a peer that does not read, not hundreds.
void shrink_buffer(int connection) {
  const int least = 0;  // the kernel makes 4608 bytes of it (socket(7))
  setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
}

}  // namespace

/// XPUB: a PUB socket that tells of subscriptions.
struct PublishSocket::Parts {
  WireContext& wire;
  zmq::socket_t xpub;
  ConnectionBound* bound;
  std::span<const std::string_view> topics;
  bool few_unread;
  Clock clock;
};

PublishSocket::PublishSocket(WireContext& wire, const Settings& settings)
    : parts_(std::make_unique<Parts>(Parts{wire, wire.socket(zmq::socket_type::xpub), nullptr,
                                           settings.topics, settings.few_unread, settings.clock})) {
  zmq::socket_t& xpub = parts_->xpub;
  xpub.set(zmq::sockopt::sndhwm, settings.queue_messages);
  xpub.set(zmq::sockopt::linger, 500);
  xpub.set(zmq::sockopt::xpub_verbose,
           1);  // tells of every subscriber, not of the first to a topic
  parts_->bound = &wire.bind(xpub, {.key = settings.key,
                                    .domain = settings.domain,
                                    .endpoints = settings.endpoints,
                                    .most_bytes = kMaxSubscriptionBytes,
                                    .most_waiting = kWaitingSubscriptions});
}

PublishSocket::~PublishSocket() = default;

void PublishSocket::send(std::string_view text) {
  parts_->xpub.send(zmq::buffer(text), zmq::send_flags::dontwait);
}

void PublishSocket::take_subscriptions() {
  zmq::message_t message;
  for (int i = 0; i < kTakenAtOnce; ++i) {
    if (!parts_->xpub.recv(message, zmq::recv_flags::dontwait)) return;
    take(message.to_string_view(), zmq_msg_get(message.handle(), ZMQ_SRCFD),
         zmq_msg_gets(message.handle(), "User-Id"));
  }
}

/// @param text  1 (subscribed) or 0 (the last one no longer), then what messages are to begin with
/// @param connection  its descriptor; -1 when it is gone
/// @param user_id  of a peer with a key; nullptr or "" of others
void PublishSocket::take(std::string_view text, int connection, const char* user_id) {
  Peer* peer = peer_at(connection, user_id);
  if (peer != nullptr) {
    if (peer->ended) return;  // libzmq had read more before the end
    // Where there are keys, libzmq lets a handshake's length through.
    const bool too_long = text.size() > kMaxSubscriptionBytes;
    if (too_long || tells_too_much(*peer)) return end(*peer, connection);
  }
  const bool subscribes = text.starts_with('\1');
  const std::string_view beginning = text.substr(text.empty() ? 0 : 1);
  const auto has_beginning = [&](std::string_view topic) { return begins(topic, beginning); };
  if (std::none_of(kAllTopics.begin(), kAllTopics.end(), has_beginning)) {
    if (peer != nullptr) take_foreign(subscribes, beginning, connection, *peer);
  } else if (subscribes) {
    for (std::size_t i = 0; i < parts_->topics.size(); ++i)
      subscribed_ |= has_beginning(parts_->topics[i]) ? 1U << i : 0U;
  }
}

/// nullptr when the connection is gone.
PublishSocket::Peer* PublishSocket::peer_at(int connection, const char* user_id) {
  const ino_t inode = inode_of(connection);
  if (inode == 0) return nullptr;
  Peer& peer = peers_[connection];
  if (peer.inode != inode) {
    if (!is_connection_to(parts_->bound->endpoints(), connection)) return nullptr;
    peer = {};
    peer.inode = inode;
    if (parts_->few_unread) shrink_buffer(connection);
  }
  if (user_id != nullptr && *user_id != '\0') parts_->bound->introduce(connection, inode, user_id);
  return &peer;
}

bool PublishSocket::tells_too_much(Peer& peer) const {
  const std::int64_t now_ns = parts_->clock();
  if (now_ns - peer.minute_ns >= kMinuteNs) {
    peer.minute_ns = now_ns;
    peer.told = 0;
  }
  return ++peer.told > kMostTold;
}

void PublishSocket::take_foreign(bool subscribes, std::string_view beginning, int connection,
                                 Peer& peer) {
  if (!subscribes) {
    if (const auto found = peer.foreign.find(beginning); found != peer.foreign.end()) {
      peer.foreign.erase(found);
    }
  } else if (peer.foreign.size() < kMostForeign) {
    peer.foreign.emplace(beginning);
  } else if (!peer.foreign.contains(beginning)) {
    end(peer, connection);
  }
}

/// libzmq then forgets its subscriptions.
void PublishSocket::end(Peer& peer, int connection) {
  peer.ended = true;
  parts_->wire.count_ended();
  end_connection(parts_->bound->endpoints(), connection);
}

}  // namespace driftd::daemon
