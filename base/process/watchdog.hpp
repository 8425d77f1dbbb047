// SPDX-License-Identifier: MIT
// When systemd's watchdog is fed: only while the loop turns (it does so without frames, too) and
// the publisher sends what it is given. Housekeeping thread.
#pragma once

#include <cstdint>
#include <functional>

namespace driftd {

/// What shows that the other threads live.
struct Heartbeat {
  std::uint64_t loop_turns = 0;
  bool loop_ended = false;  ///< at the end of a recording: it will not turn any more
  std::uint64_t messages_sent = 0;
  bool publisher_idle = false;  ///< nothing waits to be sent
};

class Watchdog {
 public:
  /// @param period_us  within which systemd wants to be fed; 0: not at all
  Watchdog(std::uint64_t period_us, std::function<void()> feed)
      : interval_ns_(static_cast<std::int64_t>(period_us) * 1000 / 4), feed_(std::move(feed)) {}

  void turn(const Heartbeat& now, std::int64_t now_ns) {
    if (interval_ns_ == 0 || now_ns < next_ns_) return;
    next_ns_ = now_ns + interval_ns_;
    const bool loop_turns = now.loop_turns != last_.loop_turns || now.loop_ended;
    const bool publisher_sends = now.messages_sent != last_.messages_sent || now.publisher_idle;
    last_ = now;
    if (loop_turns && publisher_sends) feed_();
  }

 private:
  std::int64_t interval_ns_;
  std::function<void()> feed_;
  std::int64_t next_ns_ = 0;
  Heartbeat last_;
};

}  // namespace driftd
