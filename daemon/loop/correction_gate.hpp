// SPDX-License-Identifier: MIT
// Decides at the moment of sending whether a correction may leave. Housekeeping opens the gate for
// one lock and closes it; the publisher passes each correction through it. After close() has
// returned, no correction of any lock is being sent or will be.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace driftd::daemon {

class CorrectionGate {
 public:
  /// Housekeeping. lock_id > 0.
  void open(std::uint64_t lock_id) noexcept { permitted_.store(lock_id); }
  /// Housekeeping. Waits for a send that is under way (microseconds).
  void close() noexcept {
    permitted_.store(0);
    while (sending_.load()) std::this_thread::yield();
  }
  /// Publisher: runs `send` if a correction of this lock may leave. Sequentially consistent on both
  /// sides (Dekker): either close() sees sending_, or this sees permitted_ == 0.
  template <typename Send>
  bool pass(std::uint64_t lock_id, Send&& send) {
    sending_.store(true);
    const bool may = lock_id != 0 && permitted_.load() == lock_id;
    if (may) send();
    sending_.store(false);
    return may;
  }

 private:
  std::atomic<std::uint64_t> permitted_{0};
  std::atomic<bool> sending_{false};
};

}  // namespace driftd::daemon
