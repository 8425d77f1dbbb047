// SPDX-License-Identifier: MIT
// Sends commands to the daemon and waits for the reply (docs/reference/protocol.md, "Commands").
// Each request has a socket of its own, so one that was never answered leaves nothing behind. One
// thread.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <zmq.hpp>

#include "clients/common/find_daemon.hpp"
#include "clients/common/server_keys.hpp"

namespace driftd::clients {

struct Reply {
  nlohmann::json body;
  std::string attachment;  ///< the second part, when the command has one (snapshot)
};

/// The daemon answered, and said no, or something that is not of the protocol.
struct Refused : std::runtime_error {
  Refused(const std::string& why, std::string error_code)
      : std::runtime_error(why), code(std::move(error_code)) {}
  std::string code;  ///< as in docs/reference/protocol.md; "bad_reply" when the reply is not of the
                     ///< protocol
};

/// The caller did not want to wait any longer; the command may have been carried out.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

class CommandClient {
 public:
  explicit CommandClient(std::string endpoint,
                         std::chrono::milliseconds timeout = std::chrono::seconds(2),
                         ServerKeys keys = {});

  /// @param give_up  asked every 20 ms whether not to wait any longer; none: never
  /// @throws Unreachable, Refused, Interrupted; zmq::error_t when the endpoint is malformed
  Reply request(const nlohmann::json& command, const std::function<bool()>& give_up = nullptr);
  /// The same for {"command": name}.
  Reply request(const char* name);

 private:
  std::string endpoint_;
  std::chrono::milliseconds timeout_;
  ServerKeys keys_;
  zmq::context_t context_{1};
};

}  // namespace driftd::clients
