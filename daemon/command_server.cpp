// SPDX-License-Identifier: MIT
#include "daemon/command_server.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "daemon/publisher.hpp"  // SocketError

namespace driftd::daemon {
namespace {

constexpr std::int64_t kMaxRequestBytes = 65'536;
constexpr int kMaxParts = 8;
constexpr int kMostAtOnce = 64;  // a flood of requests must not starve the rest of housekeeping

}  // namespace

class CommandServer::Socket {
 public:
  explicit Socket(const std::string& endpoint) : router(context, zmq::socket_type::router) {
    router.set(zmq::sockopt::linger, 200);
    router.set(zmq::sockopt::maxmsgsize, kMaxRequestBytes);
    try {
      router.bind(endpoint);
    } catch (const zmq::error_t& error) {
      throw SocketError("wire.commands: cannot bind " + endpoint + ": " + error.what());
    }
  }
  zmq::context_t context{1};
  zmq::socket_t router;
};

CommandServer::CommandServer(const std::string& endpoint, Handler handler)
    : socket_(std::make_unique<Socket>(endpoint)), handler_(std::move(handler)) {}

CommandServer::~CommandServer() = default;

bool CommandServer::serve(int timeout_ms, int other_fd) {
  std::array<zmq::pollitem_t, 2> items = {
      {{socket_->router.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, other_fd, ZMQ_POLLIN, 0}}};
  zmq::poll(items.data(), items.size(), std::chrono::milliseconds(timeout_ms));
  for (int i = 0; i < kMostAtOnce; ++i) {
    if ((socket_->router.get(zmq::sockopt::events) & ZMQ_POLLIN) == 0) break;
    answer_one();
  }
  return (items[1].revents & ZMQ_POLLIN) != 0;
}

void CommandServer::answer_one() {
  // ROUTER: identity, then what the peer sent (a REQ peer puts an empty part before its text).
  std::vector<zmq::message_t> parts;
  bool more = true;
  while (more) {
    zmq::message_t part;
    if (!socket_->router.recv(part, zmq::recv_flags::dontwait)) return;
    more = part.more();
    if (parts.size() < kMaxParts) parts.push_back(std::move(part));
  }
  if (parts.size() < 2) return;

  nlohmann::json reply = {{"ok", true}};
  std::vector<std::uint8_t> attachment;
  const auto refuse = [&](const CommandRefused& refused) {
    attachment.clear();
    nlohmann::json refusal = {{"ok", false}, {"code", refused.code}, {"error", refused.text}};
    if (reply.contains("id")) refusal["id"] = reply["id"];
    reply = std::move(refusal);
  };
  try {
    const auto request = nlohmann::json::parse(parts.back().to_string_view(), nullptr, false);
    if (request.is_discarded() || !request.is_object()) {
      throw CommandRefused{"bad_request", "a request is one JSON object"};
    }
    if (request.contains("id")) reply["id"] = request["id"];
    if (!request.contains("command") || !request["command"].is_string()) {
      throw CommandRefused{"bad_request", "a request needs a string `command`"};
    }
    handler_(request, reply, attachment);
  } catch (const CommandRefused& refused) {
    refuse(refused);
  } catch (const std::exception& error) {
    refuse({"bad_request", error.what()});
  }
  // A peer that has gone away makes the ROUTER drop the reply: nothing to do about it.
  const std::string text = reply.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  socket_->router.send(parts.front(), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
  if (parts.size() > 2 && parts[1].size() == 0) {
    socket_->router.send(zmq::message_t(), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
  }
  const auto last = attachment.empty() ? zmq::send_flags::dontwait
                                       : zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  socket_->router.send(zmq::buffer(text), last);
  if (!attachment.empty()) {
    socket_->router.send(zmq::buffer(attachment), zmq::send_flags::dontwait);
  }
}

}  // namespace driftd::daemon
