// SPDX-License-Identifier: MIT
// The ROUTER socket: takes a request apart, lets the handler answer it, sends the reply. Whatever
// comes in, from whomever, is answered or dropped; nothing gets past here as an exception.
// Housekeeping thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace driftd::daemon {

/// Why a command was not carried out; `code` as in docs/protocol.md.
struct CommandRefused {
  std::string code;
  std::string text;
};

class CommandServer {
 public:
  /// Carries out a request (a JSON object with a string `command`); throws CommandRefused.
  using Handler = std::function<void(const nlohmann::json& request, nlohmann::json& reply,
                                     std::vector<std::uint8_t>& attachment)>;

  /// Binds. @throws SocketError
  CommandServer(const std::string& endpoint, Handler handler);
  ~CommandServer();
  CommandServer(const CommandServer&) = delete;
  CommandServer& operator=(const CommandServer&) = delete;

  /// Waits up to timeout_ms for a request or for `other_fd` to become readable; answers every
  /// request that is there. Returns true when other_fd is readable.
  bool serve(int timeout_ms, int other_fd);

 private:
  class Socket;
  void answer_one();

  std::unique_ptr<Socket> socket_;
  Handler handler_;
};

}  // namespace driftd::daemon
