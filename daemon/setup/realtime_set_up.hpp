// SPDX-License-Identifier: MIT
// Real-time scheduling of the daemon's threads as `realtime` configures it, and the report of what
// was refused. Made by the service; each thread calls schedule() for itself, housekeeping reads.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/process/realtime.hpp"
#include "config/config.hpp"

namespace driftd::daemon {

/// The calls that may be refused; tests put refusals here.
struct RealTimeCalls {
  std::function<std::optional<std::string>()> keep_in_memory = driftd::keep_in_memory;
  std::function<std::optional<std::string>(int priority, int cpu, const char* thread_name)>
      schedule = driftd::schedule_this_thread;
};

class RealTimeSetUp {
 public:
  /// Locks the memory, and tries on a thread of its own what the loop will need, so that `require`
  /// fails before the start. @throws RealTimeError
  explicit RealTimeSetUp(const config::RealTime& settings, RealTimeCalls calls = {});

  // Each on the thread that it is about.
  /// Called at each connection.
  void schedule_camera();
  void schedule_publisher();
  void schedule_loop();

  RealTimeReport report();

 private:
  bool schedule(int priority, int cpu, const char* thread_name);

  config::RealTime settings_;
  RealTimeCalls calls_;
  bool memory_locked_ = false;
  std::mutex mutex_;  // for what follows: threads report their scheduling at their start
  bool scheduled_ = false;
  std::map<std::string, std::string> refusals_;  // of each thread, and of the memory
};

}  // namespace driftd::daemon
