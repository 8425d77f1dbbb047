// SPDX-License-Identifier: MIT
// The ROUTER socket: takes a request apart, hands it to the handler with a way to answer it, sends
// the reply when the handler has one, in whatever order. Whatever comes in, from whomever, is
// answered or dropped; nothing gets past here as an exception. Housekeeping thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/wire/answer.hpp"
#include "daemon/wire/wire_context.hpp"

namespace zmq {
class message_t;
}  // namespace zmq

namespace driftd::daemon {

class CommandServer {
 public:
  /// Begins to carry out a request (a JSON object with a string `command`), which is answered now
  /// or later; or throws CommandRefused. Answers are of no use after the server is gone.
  using Handler = std::function<void(const config::Client& client, const nlohmann::json& request,
                                     Answer answer)>;

  /// Binds. @throws SocketError
  CommandServer(WireContext& wire, const config::Endpoints& endpoints, Handler handler);
  ~CommandServer();
  CommandServer(const CommandServer&) = delete;
  CommandServer& operator=(const CommandServer&) = delete;

  /// Waits up to timeout_ms for a request or for `other_fd` to become readable; handles the
  /// requests that are there. Returns true when other_fd is readable.
  bool serve(int timeout_ms, int other_fd);
  /// Handles what is there, and closes the socket at once: what is sent from then on waits for the
  /// next daemon at this place, but for what was on its way in that moment, which is lost. (To
  /// unbind first would lose more: libzmq ends the connections that a listener took with it.)
  /// Later answers are dropped.
  void end();

 private:
  class Socket;
  struct Envelope;
  void handle_one();
  config::Client client_of(zmq::message_t& part);
  void send(const Envelope& envelope, const Outcome& outcome);

  WireContext& wire_;
  std::unique_ptr<Socket> socket_;
  Handler handler_;
};

}  // namespace driftd::daemon
