// SPDX-License-Identifier: MIT
// The last step of one lock's corrections: whether one may leave, what left last, and how many did
// not. The publisher has one for each group of axes, so that neither holds the other up.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/monotonic.hpp"
#include "base/process/latest_value.hpp"
#include "control/law/limits.hpp"
#include "daemon/loop/correction_gate.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

class Outlet {
 public:
  struct Sent {
    std::uint64_t lock_id = 0;
    control::Vec2 total_nm;
    std::int64_t handed_ns = 0;
    std::int64_t left_ns = 0;
  };

  // Tracking loop.
  /// Grows when a correction did not leave. Each correction is a step from the one before, so none
  /// leaves until the loop has taken notice (HeldResult::chain).
  std::uint64_t broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// The newest correction that did leave for this lock; zeros when none has.
  Sent last_sent(std::uint64_t lock_id) noexcept {
    last_sent_.refresh();
    const Sent& sent = last_sent_.reading();
    return sent.lock_id == lock_id ? sent : Sent{};
  }

  // Any thread.
  CorrectionGate& gate() noexcept { return gate_; }
  /// Corrections that did not leave. Withheld: the lock was disabled meanwhile. Expired: they were
  /// too old, or steps from one that was. Refused: they were outside the limits.
  std::uint64_t withheld() const noexcept { return withheld_.load(std::memory_order_relaxed); }
  std::uint64_t expired() const noexcept { return expired_.load(std::memory_order_relaxed); }
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  /// Publisher: sends it if it may leave; if not, nothing that was computed on top of it leaves
  /// either.
  /// @param send  given the sequence number of the message
  /// @returns whether it left
  template <typename Send>
  bool pass(const FrameResult& frame, const HeldResult& held, Clock clock, Send&& send) {
    const bool in_chain = held.chain == broken_.load(std::memory_order_relaxed);
    const bool same_lock = sent_.lock_id == held.lock_id;
    const control::Vec2 from_nm = same_lock ? sent_.total_nm : control::Vec2{};
    if (!in_chain || clock() > frame.expires_ns) {
      expired_.fetch_add(1, std::memory_order_relaxed);
    } else if (!control::keeps(held.limits, from_nm, held.correction.total_nm)) {
      refused_.fetch_add(1, std::memory_order_relaxed);
    } else {
      if (gate_.pass(held.lock_id, [&] { send(sequence_++); })) {
        sent_ = {held.lock_id, held.correction.total_nm, frame.handed_ns, clock()};
        last_sent_.writing() = sent_;
        last_sent_.publish();
        return true;
      }
      withheld_.fetch_add(1, std::memory_order_relaxed);
    }
    if (in_chain) broken_.fetch_add(1, std::memory_order_release);
    return false;
  }

 private:
  CorrectionGate gate_;
  Sent sent_;                    ///< the publisher's
  LatestValue<Sent> last_sent_;  ///< the same, for the loop
  std::uint64_t sequence_ = 0;
  std::atomic<std::uint64_t> broken_{0};
  std::atomic<std::uint64_t> withheld_{0};
  std::atomic<std::uint64_t> expired_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace driftd::daemon
