// SPDX-License-Identifier: MIT
#include "daemon/event_log.hpp"

#include <spdlog/spdlog.h>

#include "daemon/clock.hpp"
#include "daemon/publisher.hpp"

namespace driftd::daemon {
namespace {

constexpr int kMostPerSecond = 10;

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
  const std::int64_t now_ns = monotonic_ns();
  Budget& budget = budgets_[code];
  if (now_ns / 1'000'000'000 != budget.second) {
    budget.second = now_ns / 1'000'000'000;
    budget.used = 0;
  }
  if (++budget.used > kMostPerSecond) {
    budget.left_out++;
    return;
  }
  nlohmann::json message = {
      {"time_ns", now_ns}, {"level", name_of(level)}, {"code", code}, {"text", text}};
  if (budget.left_out > 0) {
    message["left_out"] = budget.left_out;
    spdlog::warn("{}: {} events of this kind were left out", code, budget.left_out);
    budget.left_out = 0;
  }
  message.update(fields);
  spdlog::log(log_level(level), "{}: {}", code, text);
  if (!publisher_.send({TextMessage::Topic::Event, fields_of(message)})) {
    spdlog::error("the publisher does not get on: event {} was not published", code);
  }
}

}  // namespace driftd::daemon
