// SPDX-License-Identifier: MIT
// The protocol's examples as a person is shown them, and a line of that.
#pragma once

#include <string>
#include <vector>

#include "clients/common/shown/daemon_view.hpp"
#include "support/catch.hpp"
#include "support/protocol_examples.hpp"

namespace driftd::test {

using clients::DaemonView;
using clients::Line;
using clients::Message;
using clients::Tone;
using nlohmann::json;

constexpr std::int64_t kNow_ns = 90'818'000'000;  // time_ns of the status example

inline Message message(const std::string& topic, const json& body) {
  Message made;
  made.topic = topic;
  made.body = body;
  return made;
}

inline DaemonView view_of_examples() {
  DaemonView view;
  for (const auto& [topic, body] : protocol_examples()) {
    view.update(message(topic, body), kNow_ns);
  }
  return view;
}

/// The line that starts with `label`; a blank one when there is none.
inline Line line_of(const std::vector<Line>& lines, const std::string& label) {
  for (const Line& line : lines) {
    if (line.text.starts_with(label)) return line;
  }
  return {};
}

inline bool contains(const Line& line, const std::string& text) {
  INFO(line.text);
  return line.text.find(text) != std::string::npos;
}

}  // namespace driftd::test
