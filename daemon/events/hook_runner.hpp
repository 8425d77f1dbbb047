// SPDX-License-Identifier: MIT
// The hook on events: runs the program of section `hook` for each event that is serious enough, one
// at a time, on a thread of its own that nothing waits for. Events of one code are run at once only
// so many times a minute; the last of those beyond is run when the minute is over. Owned by the
// service; housekeeping calls, the worker only takes what is queued. The destructor waits at most
// two seconds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/events/hook_child.hpp"

namespace driftd::daemon {

class HookRunner {
 public:
  /// @param hook  as it is now: a reload changes it
  /// @param file  the daemon's configuration, which the program is told
  HookRunner(const config::Hook& hook, const std::filesystem::path& file, EventLog& events,
             Clock clock = monotonic_ns);
  HookRunner(const HookRunner&) = delete;
  HookRunner& operator=(const HookRunner&) = delete;

  /// Tells, as events `hook_failed`, what went wrong; runs what had to wait.
  void turn();

 private:
  struct Job {
    std::string code;
    ChildRun run;
  };
  struct Failure {
    std::string code, text;
  };
  struct Budget {
    std::int64_t since_ns = 0;
    int used = 0;
    std::optional<nlohmann::json> waiting;  ///< the last one, for when the minute is over
    std::uint64_t left_out = 0;             ///< before that
  };
  static constexpr std::size_t kMostQueued = 32;

  void offer(const nlohmann::json& event);
  bool queue(const nlohmann::json& event, std::uint64_t left_out);
  void look_at_program();
  void work(const std::stop_token& stop);

  const config::Hook& hook_;
  std::string file_;
  EventLog& events_;
  Clock clock_;
  std::filesystem::path known_program_;
  std::map<std::string, Budget> budgets_;

  std::mutex mutex_;  // for what follows
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  std::vector<Failure> failures_;
  std::jthread thread_;  // last: it uses what is above, and ends first
};

/// The variables that the program finds (docs/use/watching.md), and nothing else.
std::vector<std::string> hook_environment(const nlohmann::json& event, std::uint64_t left_out,
                                          const std::string& config_file);

}  // namespace driftd::daemon
