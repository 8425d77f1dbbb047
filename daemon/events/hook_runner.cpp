// SPDX-License-Identifier: MIT
#include "daemon/events/hook_runner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/process/realtime.hpp"
#include "config/hook_program.hpp"
#include "config/names.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

constexpr const char* kFailed = "hook_failed";
constexpr std::int64_t kMinuteNs = 60 * kNanosecondsPerSecond;
constexpr std::size_t kMostTextBytes = 4096;
constexpr std::size_t kMostJsonBytes = 65'536;  // Linux takes 128 KiB a variable

/// An environment's text ends at a zero byte.
std::string without_zeros(std::string text) {
  std::ranges::replace(text, '\0', ' ');
  return text;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string one_line(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Names of levels are the same in events and in the configuration.
bool is_serious(const std::string& level, config::EventLevel least) {
  const auto known = config::value_named<config::EventLevel>(level);
  return !known || *known >= least;
}

}  // namespace

std::vector<std::string> hook_environment(const json& event, std::uint64_t left_out,
                                          const std::string& config_file) {
  const auto field = [&](const char* key) { return without_zeros(event.value(key, "")); };
  std::string whole = one_line(event);
  if (whole.size() > kMostJsonBytes) {
    whole = one_line({{"code", field("code")}, {"level", field("level")}, {"shortened", true}});
  }
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          "LANG=C.UTF-8",
          "DRIFTD_EVENT=" + field("code"),
          "DRIFTD_LEVEL=" + field("level"),
          "DRIFTD_TEXT=" + field("text").substr(0, kMostTextBytes),
          "DRIFTD_TIME=" + utc_now(),
          "DRIFTD_JSON=" + whole,
          "DRIFTD_LEFT_OUT=" + std::to_string(left_out),
          "DRIFTD_CONFIG=" + config_file};
}

HookRunner::HookRunner(const config::Hook& hook, const std::filesystem::path& file,
                       EventLog& events, Clock clock)
    : hook_(hook),
      file_(std::filesystem::absolute(file).string()),
      events_(events),
      clock_(clock),
      thread_([this](const std::stop_token& stop) { work(stop); }) {
  events_.hear([this](const json& event) { offer(event); });
}

void HookRunner::turn() {
  look_at_program();
  std::vector<Failure> failures;
  {
    const std::lock_guard guard(mutex_);
    failures.swap(failures_);
  }
  for (const Failure& failure : failures) {
    events_.raise(EventLog::Level::Warning, kFailed,
                  fmt::format("hook.on_event for {} {}", failure.code, failure.text),
                  {{"event", failure.code}});
  }
  const std::int64_t now_ns = clock_();
  for (auto& [code, budget] : budgets_) {
    if (!budget.waiting || now_ns - budget.since_ns < kMinuteNs) continue;
    budget.since_ns = now_ns;
    budget.used = 0;
    if (!queue(*budget.waiting, budget.left_out)) continue;
    budget.used = 1;
    budget.waiting.reset();
    budget.left_out = 0;
  }
}

/// Says at once what a run would say only with the first event.
void HookRunner::look_at_program() {
  if (hook_.on_event == known_program_) return;
  known_program_ = hook_.on_event;
  const std::string problem = config::hook_problem(known_program_);
  if (!problem.empty())
    events_.raise(EventLog::Level::Warning, kFailed, "hook.on_event will not be run: " + problem);
}

void HookRunner::offer(const json& event) {
  const std::string code = event.value("code", "");
  if (hook_.on_event.empty() || code == kFailed) return;
  if (!is_serious(event.value("level", ""), hook_.level)) return;
  Budget& budget = budgets_[code];
  const std::int64_t now_ns = clock_();
  if (!budget.waiting && (budget.used == 0 || now_ns - budget.since_ns >= kMinuteNs)) {
    budget.since_ns = now_ns;
    budget.used = 0;
  }
  if (!budget.waiting && budget.used < hook_.per_minute && queue(event, 0)) {
    ++budget.used;
    return;
  }
  if (budget.waiting) ++budget.left_out;
  budget.waiting = event;
}

/// False where too many wait.
bool HookRunner::queue(const json& event, std::uint64_t left_out) {
  const std::string code = event.value("code", "");
  Job job{code,
          {.program = hook_.on_event,
           .environment = hook_environment(event, left_out, file_),
           .time_limit = std::chrono::milliseconds(std::llround(hook_.time_limit_s * 1000)),
           .line = [](const std::string& line) { spdlog::info("hook: {}", line); }}};
  const std::lock_guard guard(mutex_);
  if (jobs_.size() >= kMostQueued) return false;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void HookRunner::work(const std::stop_token& stop) {
  schedule_as_ordinary("driftd-hook");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !jobs_.empty(); }) && !stop.stop_requested()) {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const std::int64_t begin_ns = monotonic_ns();
    auto failure = run_child(job.run, stop);
    spdlog::info("hook.on_event for {} {} ({:.2f} s)", job.code,
                 failure ? *failure : "ended with exit status 0",
                 static_cast<double>(monotonic_ns() - begin_ns) * 1e-9);
    lock.lock();
    if (failure) failures_.push_back({job.code, std::move(*failure)});
  }
}

}  // namespace driftd::daemon
