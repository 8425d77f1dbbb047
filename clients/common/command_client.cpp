// SPDX-License-Identifier: MIT
#include "clients/common/command_client.hpp"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <vector>

namespace driftd::clients {
namespace {

/// All parts of the reply; empty when none came in time.
std::vector<zmq::message_t> receive(zmq::socket_t& socket, std::chrono::milliseconds timeout) {
  socket.set(zmq::sockopt::rcvtimeo, static_cast<int>(timeout.count()));
  std::vector<zmq::message_t> parts;
  do {
    zmq::message_t part;
    try {
      if (!socket.recv(part)) return {};
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) return {};
      throw;
    }
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return parts;
}

}  // namespace

CommandClient::CommandClient(std::string endpoint, std::chrono::milliseconds timeout)
    : endpoint_(std::move(endpoint)), timeout_(timeout) {}

Reply CommandClient::request(const nlohmann::json& command) {
  const std::string daemon = listener_at(endpoint_);
  zmq::socket_t socket(context_, zmq::socket_type::req);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint_);
  socket.send(zmq::buffer(command.dump()), zmq::send_flags::none);

  const std::vector<zmq::message_t> parts = receive(socket, timeout_);
  if (parts.empty()) {
    throw Unreachable(fmt::format("{} runs at {} but did not answer within {:.1f} s", daemon,
                                  endpoint_, std::chrono::duration<double>(timeout_).count()));
  }
  Reply reply;
  reply.body = nlohmann::json::parse(parts.front().to_string_view(), nullptr, false);
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
