// SPDX-License-Identifier: MIT
// A message of housekeeping's, for the publisher to send.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace driftd::daemon {

/// `fields`: the JSON object's text without `v`, `seq`, `session` and braces.
struct TextMessage {
  enum class Topic : std::uint8_t { Markers, Status, Event } topic = Topic::Event;
  std::string fields;
};

/// Publishes a message; false, with nothing sent, when the publisher has no room for it.
using SendText = std::function<bool(TextMessage)>;

}  // namespace driftd::daemon
