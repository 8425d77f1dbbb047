// SPDX-License-Identifier: MIT
#include "clients/web/requests.hpp"

#include <vector>

#include "clients/common/plain.hpp"

namespace driftd::web {

using nlohmann::json;

Requests::Requests(zmq::context_t& context, const std::string& endpoint)
    : socket_(context, zmq::socket_type::dealer) {
  constexpr int kReconnectMs = 50;
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::immediate, true);  // to a connection, or not at all
  socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket_.connect(endpoint);
}

bool Requests::send(json command, std::int64_t until_ns, Done done) {
  command["id"] = next_id_;
  const std::string text = command.dump(-1, ' ', false, json::error_handler_t::replace);
  if (!socket_.send(zmq::buffer(text), zmq::send_flags::dontwait)) return false;
  waiting_.emplace(next_id_++, Waiting{until_ns, std::move(done)});
  return true;
}

void Requests::turn(std::int64_t now_ns) {
  for (;;) {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) break;
    clients::Reply reply;
    reply.body = clients::parse_plain(part.to_string_view());
    bool first = true;
    while (part.more()) {  // a message comes whole
      if (!socket_.recv(part, zmq::recv_flags::none)) return;
      if (std::exchange(first, false)) reply.attachment = part.to_string();
    }
    if (!reply.body.is_object()) continue;
    const auto id = reply.body.find("id");
    if (id == reply.body.end() || !id->is_number_unsigned()) continue;
    auto answered = waiting_.extract(id->get<std::uint64_t>());
    reply.body.erase("id");
    if (answered) answered.mapped().done(std::move(reply));
  }
  std::vector<Done> given_up;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (now_ns < at->second.until_ns) {
      ++at;
      continue;
    }
    given_up.push_back(std::move(at->second.done));
    at = waiting_.erase(at);
  }
  for (const Done& done : given_up) done(std::nullopt);
}

void Requests::give_up() {
  for (const auto& [id, waiting] : std::exchange(waiting_, {})) waiting.done(std::nullopt);
}

}  // namespace driftd::web
