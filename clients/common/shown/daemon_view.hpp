// SPDX-License-Identifier: MIT
// What a person is shown of the daemon: the newest message of each topic, and the lines of text
// made from them. No terminal in here (common/shown/display.hpp) and no socket. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/shown/line.hpp"
#include "clients/common/subscriber.hpp"

namespace driftd::clients {

class DaemonView {
 public:
  void update(const Message& message, std::int64_t now_ns);
  /// The same from the `status` of a reply.
  void set_status(const nlohmann::json& status, std::int64_t now_ns);
  /// The same from a reply to the command `markers`.
  void set_markers(const nlohmann::json& reply) { markers_ = reply; }

  /// The state named last by any message; "unknown" before the first.
  const std::string& state() const noexcept { return state_; }
  const nlohmann::json& status() const noexcept { return status_; }
  /// Seconds since the last message; negative before the first.
  double silence_s(std::int64_t now_ns) const noexcept;

  /// State, camera, drift, correction, latency: at most 80 columns.
  std::vector<Line> summary(std::int64_t now_ns) const;
  /// One line a marker below a heading; at most max_lines, the last then says how many more.
  std::vector<Line> marker_table(std::size_t max_lines) const;
  /// The newest events, the newest last.
  std::vector<Line> events() const;
  /// Everything of interest in one line, for output that is not a terminal.
  std::string one_line(std::int64_t now_ns) const;

 private:
  Line state_line(std::int64_t now_ns) const;

  // Each is the body of the newest message of its topic; null before the first.
  nlohmann::json status_, position_, correction_, axial_, markers_;
  std::deque<Line> events_;
  std::string state_ = "unknown";
  std::int64_t last_ns_ = 0;
  std::int64_t status_ns_ = 0;  ///< when the status came
  std::uint64_t lost_ = 0;
  std::uint64_t restarts_ = 0;
};

}  // namespace driftd::clients
