// SPDX-License-Identifier: MIT
// Receives published messages: one socket on one or more PUB endpoints, each message split into its
// topic and its JSON, losses counted by `seq` and restarts seen by `session`
// (docs/reference/protocol.md). Owned and called by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "clients/common/server_keys.hpp"

namespace driftd::clients {

struct Message {
  std::string topic;
  std::string text;  ///< the JSON as it was sent
  nlohmann::json body;
  std::uint64_t lost = 0;  ///< messages of this topic missing right before this one
  bool restarted = false;  ///< the publisher is another one than for the message before
};

/// Splits "topic {json}". Empty when it is not that, or the JSON is not an object.
std::optional<Message> parse_message(std::string_view data);

class Subscriber {
 public:
  /// @param endpoints  PUB endpoints; one that nobody serves yet is retried until somebody does
  /// @param topics     whole topic names; none: all topics
  /// @param queue_messages  how many may wait here before the newest are dropped (and counted lost)
  /// @throws zmq::error_t when an endpoint is malformed
  Subscriber(const std::vector<std::string>& endpoints, const std::vector<std::string>& topics,
             int queue_messages = 10'000, const ServerKeys& keys = {});

  /// The next message, or nothing within `timeout` (or when a signal came). Not a message of the
  /// protocol: counted in malformed() and skipped.
  std::optional<Message> receive(std::chrono::milliseconds timeout);

  std::uint64_t lost() const noexcept { return lost_; }
  std::uint64_t malformed() const noexcept { return malformed_; }

 private:
  struct Position {
    std::uint64_t next_seq = 0;
    std::string session;
  };
  void follow(Message& message);

  zmq::context_t context_{1};
  zmq::socket_t socket_;
  std::map<std::string, Position, std::less<>> topics_;
  std::uint64_t lost_ = 0;
  std::uint64_t malformed_ = 0;
};

}  // namespace driftd::clients
