// SPDX-License-Identifier: MIT
// Real-time set-up: memory locking for the process, SCHED_FIFO priority and CPU for a thread.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace driftd::daemon {

struct RealTimeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Locks present and future memory. Returns why not, or nothing when it is locked.
/// Refuses, instead of letting later allocations fail, where RLIMIT_MEMLOCK is finite.
std::optional<std::string> lock_memory();

/// SCHED_FIFO at `priority` for the calling thread, pinned to `cpu` (-1: not pinned).
/// Returns why not, or nothing.
std::optional<std::string> schedule_this_thread(int priority, int cpu, const char* thread_name);

}  // namespace driftd::daemon
