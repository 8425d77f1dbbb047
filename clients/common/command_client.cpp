// SPDX-License-Identifier: MIT
#include "clients/common/command_client.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "clients/common/plain.hpp"

namespace driftd::clients {
namespace {

/// Waits for a reply to begin. False: none came in time, or a signal did.
bool wait_for_reply(zmq::socket_t& socket, std::chrono::milliseconds timeout,
                    const std::function<bool()>& give_up) {
  constexpr std::chrono::milliseconds kAskEvery(20);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    auto wait = std::max(left, std::chrono::milliseconds(0));
    if (give_up) wait = std::min(wait, kAskEvery);
    zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
    if (zmq::poll(&item, 1, wait) > 0) return true;
    if (give_up && give_up()) throw Interrupted();
    if (left.count() <= 0) return false;
  }
}

/// All parts of the reply; empty when none came in time.
std::vector<zmq::message_t> receive(zmq::socket_t& socket, std::chrono::milliseconds timeout,
                                    const std::function<bool()>& give_up) {
  std::vector<zmq::message_t> parts;
  try {
    if (!wait_for_reply(socket, timeout, give_up)) return {};
    do {  // a message comes whole
      zmq::message_t part;
      if (!socket.recv(part)) return {};
      parts.push_back(std::move(part));
    } while (parts.back().more());
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return {};
    throw;
  }
  return parts;
}

}  // namespace

CommandClient::CommandClient(std::string endpoint, std::chrono::milliseconds timeout,
                             ServerKeys keys)
    : endpoint_(std::move(endpoint)), timeout_(timeout), keys_(std::move(keys)) {}

Reply CommandClient::request(const nlohmann::json& command, const std::function<bool()>& give_up) {
  const std::string daemon = listener_at(endpoint_);
  zmq::socket_t socket(context_, zmq::socket_type::req);
  socket.set(zmq::sockopt::linger, 0);
  use_keys(socket, keys_);
  socket.connect(endpoint_);
  // One whose key is refused has no connection any more, and sending would wait for ever.
  socket.set(zmq::sockopt::sndtimeo, static_cast<int>(timeout_.count()));
  // What is no UTF-8, from a command line, is sent as U+FFFD.
  const std::string text = command.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  constexpr std::size_t kMostBytes = 4096;  // a longer one ends the connection
  if (text.size() > kMostBytes)
    throw Refused(fmt::format("a command has at most {} bytes, and this one has {}: give less at "
                              "once",
                              kMostBytes, text.size()),
                  "bad_request");
  const bool sent = socket.send(zmq::buffer(text), zmq::send_flags::none).has_value();

  std::vector<zmq::message_t> parts;
  if (sent) parts = receive(socket, timeout_, give_up);
  if (parts.empty()) {
    const char* keyed =
        keys_.empty() ? "" : ": it does not let in this key, or it is not the daemon of that one";
    throw Unreachable(fmt::format("{} runs at {} but did not answer within {:.1f} s{}", daemon,
                                  endpoint_, std::chrono::duration<double>(timeout_).count(),
                                  keyed));
  }
  Reply reply;
  reply.body = parse_plain(parts.front().to_string_view());
  if (!reply.body.is_object() || !reply.body.contains("ok") || !reply.body["ok"].is_boolean()) {
    throw Refused(fmt::format("{} answered something that driftd does not", endpoint_),
                  "bad_reply");
  }
  if (!reply.body["ok"].get<bool>()) {
    throw Refused(reply.body.value("error", "no reason given"), reply.body.value("code", ""));
  }
  if (parts.size() > 1) reply.attachment = parts[1].to_string();
  return reply;
}

Reply CommandClient::request(const char* name) {
  return request(nlohmann::json{{"command", name}});
}

}  // namespace driftd::clients
