// SPDX-License-Identifier: MIT
// What a daemon publishes, as text: most of it is looked at without being taken apart (hundreds of
// positions a second). One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace driftd::web {

class Inbox {
 public:
  /// Which messages wait for their reader.
  enum class Keep { All, Newest };

  /// @param topics  whole topic names. @throws zmq::error_t where the endpoint is malformed
  Inbox(zmq::context_t& context, const std::string& endpoint,
        const std::vector<std::string>& topics, Keep keep);

  /// The next message, "TOPIC {json}"; nothing where none is there. It lasts until the next call.
  std::optional<std::string_view> next();

 private:
  zmq::socket_t socket_;
  zmq::message_t message_;
};

}  // namespace driftd::web
