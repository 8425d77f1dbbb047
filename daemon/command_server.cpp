// SPDX-License-Identifier: MIT
#include "daemon/command_server.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <zmq.hpp>

namespace driftd::daemon {
namespace {

/// Several times the longest request with every character of its id escaped.
constexpr std::int64_t kMaxRequestBytes = 4096;
/// Messages a peer may leave unsent or unread before its further ones wait or are dropped. Enough
/// for the replies to all the requests that serve() may take from one peer at once; the memory of
/// unread snapshots, which are as large as the sensor, Snapshots bounds for all peers together.
constexpr int kQueuedRequests = 64;
constexpr int kUnreadReplies = 128;
constexpr std::size_t kMaxIdBytes = 256;  // a reply that nobody reads holds it, too
constexpr std::size_t kMaxParts = 7;      // of a request, the empty one of a REQ peer among them
constexpr int kLingerMs = 1000;           // for the last replies
constexpr int kMostAtOnce = 64;  // a flood of requests must not starve the rest of housekeeping

/// A message that shares the bytes instead of copying them; ZeroMQ lets go of them on a thread of
/// its own.
zmq::message_t shared_message(const std::shared_ptr<const std::vector<std::uint8_t>>& bytes) {
  using Owner = std::shared_ptr<const std::vector<std::uint8_t>>;
  auto owner = std::make_unique<Owner>(bytes);
  // ZeroMQ does not write to it.
  auto* data = const_cast<std::uint8_t*>(bytes->data());  // NOLINT(*-const-cast)
  zmq::message_t message(
      data, bytes->size(), [](void*, void* hint) { delete static_cast<Owner*>(hint); },
      owner.get());
  owner.release();  // NOLINT(bugprone-unused-return-value): the message's now
  return message;
}

/// Looks at it without copying: nlohmann's copy and dump() recurse as deep as it is nested.
bool may_be_id(const nlohmann::json& id) {
  if (id.is_string()) return id.get_ref<const std::string&>().size() <= kMaxIdBytes;
  return id.is_number();
}

}  // namespace

/// Whose request it was.
struct CommandServer::Envelope {
  std::string peer;                              ///< the ROUTER's name for it
  bool delimited = false;                        ///< a REQ peer expects an empty part first
  nlohmann::json id = nlohmann::json::object();  ///< {"id": ...} when one was given
  bool answered = false;
};

class CommandServer::Socket {
 public:
  Socket(WireContext& wire, const std::string& endpoint)
      : router(wire.socket(zmq::socket_type::router, "commands")) {
    router.set(zmq::sockopt::linger, kLingerMs);
    router.set(zmq::sockopt::maxmsgsize, kMaxRequestBytes);
    router.set(zmq::sockopt::rcvhwm, kQueuedRequests);
    router.set(zmq::sockopt::sndhwm, kUnreadReplies);
    wire.bind(router, "wire.commands", endpoint);
  }
  zmq::socket_t router;
};

CommandServer::CommandServer(WireContext& wire, const std::string& endpoint, Handler handler)
    : socket_(std::make_unique<Socket>(wire, endpoint)), handler_(std::move(handler)) {}

CommandServer::~CommandServer() = default;

bool CommandServer::serve(int timeout_ms, int other_fd) {
  std::array<zmq::pollitem_t, 2> items = {
      {{socket_->router.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, other_fd, ZMQ_POLLIN, 0}}};
  zmq::poll(items.data(), items.size(), std::chrono::milliseconds(timeout_ms));
  for (int i = 0; i < kMostAtOnce; ++i) {
    if ((socket_->router.get(zmq::sockopt::events) & ZMQ_POLLIN) == 0) break;
    handle_one();
  }
  return (items[1].revents & ZMQ_POLLIN) != 0;
}

void CommandServer::handle_one() {
  // ROUTER: identity, then what the peer sent (a REQ peer puts an empty part before its text).
  std::vector<zmq::message_t> parts;
  std::size_t beyond = 0;
  bool more = true;
  while (more) {
    zmq::message_t part;
    if (!socket_->router.recv(part, zmq::recv_flags::dontwait)) return;
    more = part.more();
    if (parts.size() < 1 + kMaxParts) {
      parts.push_back(std::move(part));
    } else {
      ++beyond;
    }
  }
  if (parts.size() < 2) return;

  const auto envelope = std::make_shared<Envelope>();
  envelope->peer = parts.front().to_string();
  envelope->delimited = parts.size() > 2 && parts[1].size() == 0;
  const Answer answer = [this, envelope](const Outcome& outcome) {
    if (!std::exchange(envelope->answered, true)) send(*envelope, outcome);
  };
  try {
    if (beyond > 0) {
      throw CommandRefused{Refusal::BadRequest,
                           "a request has at most " + std::to_string(kMaxParts) + " parts"};
    }
    const auto request = nlohmann::json::parse(parts.back().to_string_view(), nullptr, false);
    if (request.is_discarded() || !request.is_object()) {
      throw CommandRefused{Refusal::BadRequest, "a request is one JSON object"};
    }
    if (request.contains("id")) {
      if (!may_be_id(request["id"])) {
        throw CommandRefused{Refusal::BadRequest, "`id` is a number or a string of at most " +
                                                      std::to_string(kMaxIdBytes) + " bytes"};
      }
      envelope->id = {{"id", request["id"]}};
    }
    if (!request.contains("command") || !request["command"].is_string()) {
      throw CommandRefused{Refusal::BadRequest, "a request needs a string `command`"};
    }
    handler_(request, answer);
  } catch (const CommandRefused& refused) {
    answer(refused);
  } catch (const std::exception& error) {
    answer(CommandRefused{Refusal::Internal, error.what()});
  }
}

void CommandServer::send(const Envelope& envelope, const Outcome& outcome) {
  nlohmann::json body = envelope.id;
  std::shared_ptr<const std::vector<std::uint8_t>> attachment;
  if (const auto* reply = std::get_if<Reply>(&outcome)) {
    body.update(reply->fields);
    body["ok"] = true;
    attachment = reply->attachment;
  } else {
    const auto& refused = std::get<CommandRefused>(outcome);
    body.update(refused.fields);
    body["ok"] = false;
    body["code"] = name_of(refused.code);
    body["error"] = refused.text;
  }
  // A peer that has gone away, or does not read, makes the ROUTER drop the reply: nothing to do
  // about it.
  const auto more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  const auto last = zmq::send_flags::dontwait;
  const std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  zmq::socket_t& router = socket_->router;
  router.send(zmq::buffer(envelope.peer), more);
  if (envelope.delimited) router.send(zmq::message_t(), more);
  router.send(zmq::buffer(text), attachment ? more : last);
  if (attachment) router.send(shared_message(attachment), last);
}

}  // namespace driftd::daemon
