// SPDX-License-Identifier: MIT
#include "daemon/setup/realtime_set_up.hpp"

#include <spdlog/spdlog.h>

#include <optional>
#include <thread>

#include "base/process/realtime.hpp"
#include "config/names.hpp"

namespace driftd::daemon {

RealTimeSetUp::RealTimeSetUp(const config::RealTime& settings, RealTimeCalls calls)
    : settings_(settings), calls_(std::move(calls)) {
  if (settings_.mode == config::RealTimeMode::Off) return;
  const std::optional<std::string> refused = calls_.keep_in_memory();
  memory_locked_ = !refused;
  if (refused) refusals_["memory"] = *refused;
  std::optional<std::string> unscheduled;
  std::thread([&] {
    unscheduled = calls_.schedule(settings_.priority, settings_.loop_cpu, "driftd-probe");
  }).join();
  if (settings_.mode == config::RealTimeMode::Require && (refused || unscheduled)) {
    throw RealTimeError("realtime.mode is `require`: " + (refused ? *refused : *unscheduled));
  }
}

void RealTimeSetUp::schedule_camera() {
  schedule(settings_.stream_priority(), settings_.stream_cpu, "camera");
}

void RealTimeSetUp::schedule_publisher() {
  schedule(settings_.publisher_priority(), settings_.loop_cpu, "driftd-publish");
}

void RealTimeSetUp::schedule_loop() {
  const bool scheduled = schedule(settings_.priority, settings_.loop_cpu, "driftd-loop");
  const std::lock_guard guard(mutex_);
  scheduled_ = scheduled;
}

bool RealTimeSetUp::schedule(int priority, int cpu, const char* thread_name) {
  if (settings_.mode == config::RealTimeMode::Off) return false;
  const auto refused = calls_.schedule(priority, cpu, thread_name);
  const std::lock_guard guard(mutex_);
  std::string& known = refusals_[thread_name];
  if (refused && *refused != known) spdlog::warn("{}", *refused);
  known = refused.value_or("");
  return !refused;
}

RealTimeReport RealTimeSetUp::report() {
  const std::lock_guard guard(mutex_);
  RealTimeReport report{.mode = std::string(config::text_of(settings_.mode)),
                        .scheduled = scheduled_,
                        .memory_locked = memory_locked_,
                        .notes = {}};
  for (const auto& [thread, refusal] : refusals_) {
    if (!refusal.empty()) report.notes.push_back(refusal);
  }
  return report;
}

}  // namespace driftd::daemon
