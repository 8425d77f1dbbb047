// SPDX-License-Identifier: MIT
// CLOCK_MONOTONIC of this process stands still until the thread that made VirtualTime lets time
// pass. What our own objects sleep (std::this_thread::sleep_for, nanosleep) is of that time: who
// has slept enough is woken, one after the other, and the clock waits until each sleeps again, or
// waits for another thread. So what happens depends on no machine's speed. Linked with --wrap of
// clock_gettime, nanosleep and std::condition_variable::wait. One object a process, made before any
// other thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driftd::virtual_time {

class VirtualTime {
 public:
  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  std::int64_t now_ns() const noexcept;
  /// Lets time pass; wakes who sleeps until then. A time in the past changes nothing.
  void pass_until(std::int64_t time_ns);
  /// Until so many threads sleep: of those that were just started.
  void await_sleepers(std::size_t count);
  /// From now on nobody's sleep lasts, so that threads may end; until `sleep_again()`, by when they
  /// have.
  void wake_all();
  void sleep_again();
};

}  // namespace driftd::virtual_time
