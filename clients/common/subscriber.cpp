// SPDX-License-Identifier: MIT
#include "clients/common/subscriber.hpp"

#include <cerrno>

#include "clients/common/plain.hpp"

namespace driftd::clients {

std::optional<Message> parse_message(std::string_view data) {
  const std::size_t space = data.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  Message message;
  message.topic = data.substr(0, space);
  message.text = data.substr(space + 1);
  message.body = parse_plain(message.text);
  if (!message.body.is_object()) return std::nullopt;
  return message;
}

Subscriber::Subscriber(const std::vector<std::string>& endpoints,
                       const std::vector<std::string>& topics, int queue_messages,
                       const ServerKeys& keys)
    : socket_(context_, zmq::socket_type::sub) {
  constexpr int kReconnectMs = 50;  // a daemon that restarts is heard again soon
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, queue_messages);
  socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  use_keys(socket_, keys);
  if (topics.empty()) socket_.set(zmq::sockopt::subscribe, "");
  // The space keeps a topic from matching a longer one that it begins.
  for (const std::string& topic : topics) socket_.set(zmq::sockopt::subscribe, topic + ' ');
  for (const std::string& endpoint : endpoints) socket_.connect(endpoint);
}

std::optional<Message> Subscriber::receive(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const auto wait = std::max(left, std::chrono::milliseconds(0));
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(wait.count()));
    zmq::message_t part;
    try {
      if (!socket_.recv(part)) return std::nullopt;
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return std::nullopt;
      throw;
    }
    auto message = parse_message(part.to_string_view());
    if (message) {
      follow(*message);
      return message;
    }
    ++malformed_;
  }
}

void Subscriber::follow(Message& message) {
  const auto seq = message.body.find("seq");
  if (seq == message.body.end() || !seq->is_number_unsigned()) return;
  const auto number = seq->get<std::uint64_t>();
  std::string session;
  const auto named = message.body.find("session");
  if (named != message.body.end() && named->is_string()) session = named->get<std::string>();

  const auto [place, first] = topics_.try_emplace(message.topic);
  Position& position = place->second;
  if (!first) {
    message.restarted = session != position.session || number < position.next_seq;
    if (!message.restarted) message.lost = number - position.next_seq;
  }
  lost_ += message.lost;
  position = {number + 1, session};
}

}  // namespace driftd::clients
