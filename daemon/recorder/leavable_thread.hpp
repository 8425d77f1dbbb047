// SPDX-License-Identifier: MIT
// A thread that writes to a disk and may be left behind: at the end its owner waits for it a few
// seconds, and goes on without one that a dead disk keeps. Its owner alone calls this.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace driftd::daemon {

class LeavableThread {
 public:
  /// @param name  as the system shows it, 15 characters at most; a literal
  /// @param work  holds all that it uses
  LeavableThread(const char* name, std::function<void()> work);
  LeavableThread(const LeavableThread&) = delete;
  LeavableThread& operator=(const LeavableThread&) = delete;

  /// Waits until the work has ended, which was told to. To be called before this is destroyed.
  /// False when the thread had to be left behind. Idempotent.
  bool join_or_leave(std::chrono::milliseconds patience = std::chrono::seconds(3)) noexcept;

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace driftd::daemon
