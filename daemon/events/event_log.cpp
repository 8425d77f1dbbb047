// SPDX-License-Identifier: MIT
#include "daemon/events/event_log.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace driftd::daemon {
namespace {

std::int64_t second_of(std::int64_t time_ns) {
  return time_ns / kNanosecondsPerSecond;
}

/// The lock changes at most once with each frame or command, and whoever follows it needs each
/// change; markers' health is told of all markers at once, and only after it has settled.
bool is_bounded_by_its_source(const std::string& code) {
  return code == "state_changed" || code == "axial_state_changed" || code == "marker_health";
}

const char* name_of(EventLog::Level level) {
  switch (level) {
    case EventLog::Level::Info:
      return "info";
    case EventLog::Level::Warning:
      return "warning";
    case EventLog::Level::Error:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum log_level(EventLog::Level level) {
  return level == EventLog::Level::Info      ? spdlog::level::info
         : level == EventLog::Level::Warning ? spdlog::level::warn
                                             : spdlog::level::err;
}

}  // namespace

std::string fields_of(const nlohmann::json& object) {
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

void EventLog::raise(Level level, const std::string& code, const std::string& text,
                     const nlohmann::json& fields) {
  const std::int64_t now_ns = clock_();
  Event event{level,
              {{"time_ns", now_ns}, {"level", name_of(level)}, {"code", code}, {"text", text}}};
  event.message.update(fields);
  if (is_bounded_by_its_source(code)) return tell(event);
  Budget& budget = budgets_[code];
  if (second_of(now_ns) != budget.second) {
    tell_waiting(budget);
    budget.second = second_of(now_ns);
    budget.used = 0;
  }
  if (++budget.used <= kMostPerSecond) return tell(event);
  if (budget.waiting) budget.left_out++;
  budget.waiting = std::move(event);
}

void EventLog::turn() {
  const std::int64_t second = second_of(clock_());
  for (auto& [code, budget] : budgets_) {
    if (budget.second != second) tell_waiting(budget);
  }
}

void EventLog::tell_waiting(Budget& budget) {
  if (!budget.waiting) return;
  if (budget.left_out > 0) budget.waiting->message["left_out"] = budget.left_out;
  tell(*budget.waiting);
  budget.waiting.reset();
  budget.left_out = 0;
}

void EventLog::tell(const Event& event) {
  const std::string code = event.message["code"];
  const std::uint64_t left_out = event.message.value("left_out", std::uint64_t{0});
  spdlog::log(log_level(event.level), "{}: {}{}", code, event.message["text"].get<std::string>(),
              left_out == 0 ? "" : fmt::format(" ({} before it were left out)", left_out));
  if (!send_({TextMessage::Topic::Event, fields_of(event.message)})) {
    spdlog::error("the publisher's queue is full: event {} was not published", code);
  }
  for (const auto& listener : listeners_) listener(event.message);
}

}  // namespace driftd::daemon
