// SPDX-License-Identifier: MIT
// Real-time set-up: memory locking for the process, SCHED_FIFO priority and CPU for a thread.
#pragma once

#include <sched.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace driftd {

struct RealTimeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a process has of it.
struct RealTimeReport {
  std::string mode;  ///< as it is configured
  bool scheduled = false;
  bool memory_locked = false;
  std::vector<std::string> notes;  ///< what is refused now; one a thread at most
};

/// Locks present and future memory. Returns why not, or nothing when it is locked.
/// Refuses, instead of letting later allocations fail, where RLIMIT_MEMLOCK is finite.
std::optional<std::string> keep_in_memory();

/// SCHED_FIFO at `priority` for the calling thread, pinned to `cpu` (-1: not pinned).
/// Returns why not, or nothing.
std::optional<std::string> schedule_this_thread(int priority, int cpu, const char* thread_name);

/// No real-time priority for the calling thread, whatever the process was started with, and its
/// name. For threads that calculate or wait for a disk: started by `chrt -f`, one of equal priority
/// that calculates for 0.1 s keeps libzmq's from sending corrections for as long.
void schedule_as_ordinary(const char* thread_name) noexcept;

/// The calling thread has SCHED_FIFO at `priority` while this lives, if that is allowed, and then
/// again what it had before. Threads that it starts meanwhile keep it: so do a library's own, such
/// as libzmq's, which starts them with a context's first socket and aborts when it may not set them
/// itself.
class ScheduledMeanwhile {
 public:
  explicit ScheduledMeanwhile(int priority) noexcept;
  ~ScheduledMeanwhile();
  ScheduledMeanwhile(const ScheduledMeanwhile&) = delete;
  ScheduledMeanwhile& operator=(const ScheduledMeanwhile&) = delete;

 private:
  int policy_ = 0;
  sched_param before_{};
  bool changed_ = false;
};

}  // namespace driftd
