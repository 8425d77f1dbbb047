// SPDX-License-Identifier: MIT
// Commands to the daemon that nothing waits for: what answers them comes to a function later, in
// another order perhaps. Nothing is kept for a daemon that is not there, and none of it carried out
// when it comes. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "clients/common/command_client.hpp"

namespace driftd::web {

class Requests {
 public:
  /// Nothing: no answer came in time.
  using Done = std::function<void(std::optional<clients::Reply>)>;

  /// @param endpoint  as find_endpoint() has it. @throws zmq::error_t where it is malformed
  Requests(zmq::context_t& context, const std::string& endpoint);

  /// False: there is no connection, nothing was sent, and `done` is never called.
  bool send(nlohmann::json command, std::int64_t until_ns, Done done);
  /// Takes the answers that have come.
  void turn(std::int64_t now_ns);
  /// Waits for no answer any more: before it goes while others count on their `done`.
  void give_up();

 private:
  struct Waiting {
    std::int64_t until_ns;
    Done done;
  };
  zmq::socket_t socket_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_id_ = 1;
};

}  // namespace driftd::web
