// SPDX-License-Identifier: MIT
// A PUB socket that its subscribers can neither hold up nor fill. libzmq keeps subscriptions on the
// publishing thread and without a limit; here each connection may have one of them waiting, the
// thread takes those of all at each turn, and who sends hundreds a minute, or more than some that
// match no topic of the daemon's, is disconnected. A slow subscriber finds no more than the queue
// that is set and, through `few_unread`, a few messages in the kernel. Owned and called by the
// publisher's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/monotonic.hpp"
#include "daemon/wire/wire_context.hpp"

namespace driftd::daemon {

class PublishSocket {
 public:
  struct Settings {
    std::string key;     ///< of the configuration, for messages
    std::string domain;  ///< "publish" or "corrections"
    config::Endpoints endpoints;
    int queue_messages;                        ///< kept for a subscriber that is slow
    std::span<const std::string_view> topics;  ///< what is published here; outlives the socket
    bool few_unread = false;  ///< give the kernel's buffer of a connection its least size
    Clock clock = monotonic_ns;
  };
  /// Binds. @throws SocketError
  PublishSocket(WireContext& wire, const Settings& settings);
  ~PublishSocket();
  PublishSocket(const PublishSocket&) = delete;
  PublishSocket& operator=(const PublishSocket&) = delete;

  /// Never blocks: a message is dropped for the subscriber whose queue is full.
  void send(std::string_view text);
  /// Takes the subscriptions that have come. To be called at each turn.
  void take_subscriptions();
  /// True once somebody has subscribed to that topic, or to a beginning of its name.
  bool has_subscriber(std::size_t topic = 0) const noexcept {
    return (subscribed_ >> topic & 1U) != 0;
  }

 private:
  struct Parts;
  struct Peer {
    ino_t inode = 0;  ///< of the connection that has this descriptor
    bool ended = false;
    int told = 0;  ///< subscriptions and their ends, in the minute that began
    std::int64_t minute_ns = 0;
    std::set<std::string, std::less<>> foreign;  ///< match no topic; held by libzmq
  };
  void take(std::string_view text, int connection, const char* user_id);
  Peer* peer_at(int connection, const char* user_id);
  bool tells_too_much(Peer& peer) const;
  void take_foreign(bool subscribes, std::string_view beginning, int connection, Peer& peer);
  void end(Peer& peer, int connection);

  std::unique_ptr<Parts> parts_;
  std::map<int, Peer> peers_;  ///< by descriptor
  unsigned subscribed_ = 0;    ///< a bit for each topic
};

}  // namespace driftd::daemon
