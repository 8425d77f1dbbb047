// SPDX-License-Identifier: MIT
// What the thread that moves a group of axes leaves for the one that reports, and the few words
// that go the other way. The port's thread writes, the main thread reads; each holds the lock only
// to copy.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "base/process/latency_histogram.hpp"
#include "clients/stage/correction.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

/// Events of the last second, counted in tenths of it.
class RateMeter {
 public:
  void record(std::int64_t now_ns) noexcept {
    forget(now_ns);
    ++counts_[static_cast<std::size_t>(newest_ % kBuckets)];
  }
  /// Counts the ten whole tenths before the present one.
  double per_second(std::int64_t now_ns) noexcept {
    forget(now_ns);
    std::uint64_t sum = 0;
    for (const std::uint32_t count : counts_) sum += count;
    return static_cast<double>(sum - counts_[static_cast<std::size_t>(newest_ % kBuckets)]);
  }

 private:
  static constexpr std::int64_t kBuckets = 11;
  void forget(std::int64_t now_ns) noexcept {
    const std::int64_t bucket = now_ns / (kNanosecondsPerSecond / 10);
    if (bucket - newest_ >= kBuckets) counts_.fill(0);
    while (newest_ < bucket && bucket - newest_ < kBuckets)
      counts_[static_cast<std::size_t>(++newest_ % kBuckets)] = 0;
    newest_ = bucket;
  }
  std::array<std::uint32_t, kBuckets> counts_{};
  std::int64_t newest_ = 0;
};

/// An axis as a report tells it.
struct AxisState {
  char letter = 'x';  ///< of the corrections
  Axis axis;          ///< min_nm to max_nm: where the driver sends it
  std::optional<double> position_nm, target_nm;
};

struct DriverState {
  bool connected = false;
  bool ever_connected = false;
  std::uint64_t failed_attempts = 0;  ///< to connect, since the last connection
  std::string trouble;                ///< why it is not connected
  std::string description;
  std::vector<AxisState> axes;  ///< none before the first connection
  std::int64_t position_ns = 0;
  Health health;
  bool refuses = false;    ///< the controller did not take the last target
  Health refusal;          ///< what it said then
  std::string range_text;  ///< the last target was held back by its range; how
  std::optional<std::string> session;
  std::int64_t lock_id = 0;
  std::optional<PerAxis> total_nm;  ///< measured
  std::uint64_t carried_out = 0, ignored = 0, refused = 0;
  RateMeter rate;
};

class Board {
 public:
  /// Changes the state; `change` is called with the lock held.
  template <typename Change>
  void update(Change&& change) {
    const std::scoped_lock lock(mutex_);
    change(state_);
  }
  DriverState state() const {
    const std::scoped_lock lock(mutex_);
    return state_;
  }

  LatencyHistogram latency;              ///< from a correction's sent_ns to the command written
  std::atomic<std::uint64_t> beats = 0;  ///< grows while the port's thread gets on
  std::atomic<std::int64_t> waits_since_ns = 0;  ///< for the controller; 0: it does not
  std::atomic<std::uint64_t> changes = 0;        ///< grows when a report is due at once
  /// Another driver reports to the daemon: this one leaves the axes where they are.
  std::atomic<bool> muted = false;
  /// The daemon answers reports: its sockets need not be looked for.
  std::atomic<bool> daemon_answers = false;
  /// The daemon says that no lock is under way; a range limit reached in it is over.
  std::atomic<bool> lock_is_over = false;

 private:
  mutable std::mutex mutex_;
  DriverState state_;
};

}  // namespace driftd::stage
