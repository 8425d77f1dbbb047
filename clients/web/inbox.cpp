// SPDX-License-Identifier: MIT
#include "clients/web/inbox.hpp"

namespace driftd::web {

Inbox::Inbox(zmq::context_t& context, const std::string& endpoint,
             const std::vector<std::string>& topics, Keep keep)
    : socket_(context, zmq::socket_type::sub) {
  constexpr int kQueueMessages = 20'000;
  constexpr int kReconnectMs = 50;
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, kQueueMessages);
  socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  if (keep == Keep::Newest) socket_.set(zmq::sockopt::conflate, true);
  // The space keeps a topic from matching a longer one that it begins.
  for (const std::string& topic : topics) socket_.set(zmq::sockopt::subscribe, topic + ' ');
  socket_.connect(endpoint);
}

std::optional<std::string_view> Inbox::next() {
  if (!socket_.recv(message_, zmq::recv_flags::dontwait)) return std::nullopt;
  return message_.to_string_view();
}

}  // namespace driftd::web
