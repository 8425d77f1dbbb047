// SPDX-License-Identifier: MIT
#include "daemon/wire/command_server.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <zmq.hpp>

#include "daemon/wire/command_rights.hpp"
#include "daemon/wire/connection_bound.hpp"
#include "daemon/wire/peer_connection.hpp"
#include "daemon/wire/request.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

/// Several times the longest request with every character of its id escaped.
constexpr std::int64_t kMaxRequestBytes = 4096;
/// Messages a peer may leave unsent or unread before its further ones wait or are dropped. Enough
/// for the replies to all the requests that serve() may take from one peer at once; the memory of
/// unread snapshots, which are as large as the sensor, Snapshots bounds for all peers together.
constexpr int kQueuedRequests = 64;
constexpr int kUnreadReplies = 128;
constexpr int kLingerMs = 1000;  // for the last replies
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

}  // namespace

/// Whose request it was.
struct CommandServer::Envelope {
  std::string peer;          ///< the ROUTER's name for it
  bool delimited = false;    ///< a REQ peer expects an empty part first
  json id = json::object();  ///< {"id": ...} when one was given
  bool answered = false;
};

class CommandServer::Socket {
 public:
  Socket(WireContext& wire, const config::Endpoints& endpoints)
      : router(wire.socket(zmq::socket_type::router)) {
    router.set(zmq::sockopt::linger, kLingerMs);
    router.set(zmq::sockopt::sndhwm, kUnreadReplies);
    bound = &wire.bind(router, {.key = "wire.commands",
                                .domain = "commands",
                                .endpoints = endpoints,
                                .most_bytes = kMaxRequestBytes,
                                .most_waiting = kQueuedRequests});
  }
  zmq::socket_t router;
  ConnectionBound* bound = nullptr;
};

CommandServer::CommandServer(WireContext& wire, const config::Endpoints& endpoints, Handler handler)
    : wire_(wire),
      socket_(std::make_unique<Socket>(wire, endpoints)),
      handler_(std::move(handler)) {}

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

void CommandServer::end() {
  constexpr int kMostTurns = 100;  // a flood must not keep the daemon from its end
  // libzmq's thread fetches what a peer's full queue had no room for.
  constexpr std::chrono::milliseconds kQuiet(5);
  std::array<zmq::pollitem_t, 1> item = {{{socket_->router.handle(), 0, ZMQ_POLLIN, 0}}};
  for (int i = 0; i < kMostTurns && zmq::poll(item.data(), 1, kQuiet) > 0; ++i) serve(0, -1);
  socket_.reset();
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
    if (parts.size() < 1 + kMaxRequestParts) {
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
    const json request =
        read_request(parts.back().to_string_view(), parts.size() - 1 + beyond, envelope->id);
    const config::Client client = client_of(parts.back());
    try {
      check_right(client, request);
    } catch (const CommandRefused& refused) {
      wire_.refusals().note(client.name, "wire.commands", refused.text);
      throw;
    }
    handler_(client, request, answer);
  } catch (const CommandRefused& refused) {
    answer(refused);
  } catch (const std::exception& error) {
    answer(CommandRefused{Refusal::Internal, error.what()});
  }
}

/// Whose request it is. @throws CommandRefused when its key or group was taken back
config::Client CommandServer::client_of(zmq::message_t& part) {
  // cppzmq's own gets() throws where there is none.
  const int fd = zmq_msg_get(part.handle(), ZMQ_SRCFD);
  const std::string who = user_id_of(zmq_msg_gets(part.handle(), "User-Id"),
                                     zmq_msg_gets(part.handle(), "Peer-Address"));
  socket_->bound->introduce(fd, inode_of(fd), who);
  const auto client = wire_.client(who);
  if (!client)
    throw CommandRefused{Refusal::Forbidden, "the key or group that you came with is not let in"};
  return *client;
}

void CommandServer::send(const Envelope& envelope, const Outcome& outcome) {
  std::shared_ptr<const std::vector<std::uint8_t>> attachment;
  if (const auto* reply = std::get_if<Reply>(&outcome)) attachment = reply->attachment;
  if (!socket_) return;
  // A peer that has gone away, or does not read, makes the ROUTER drop the reply: nothing to do
  // about it.
  const auto more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  const auto last = zmq::send_flags::dontwait;
  const std::string text = reply_text(envelope.id, outcome);
  zmq::socket_t& router = socket_->router;
  router.send(zmq::buffer(envelope.peer), more);
  if (envelope.delimited) router.send(zmq::message_t(), more);
  router.send(zmq::buffer(text), attachment ? more : last);
  if (attachment) router.send(shared_message(attachment), last);
}

}  // namespace driftd::daemon
