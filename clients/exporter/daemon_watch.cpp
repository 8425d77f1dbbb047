// SPDX-License-Identifier: MIT
#include "clients/exporter/daemon_watch.hpp"

#include <algorithm>

#include "base/monotonic.hpp"

namespace driftd::exporter {
namespace {

using nlohmann::json;

/// A status may come late by this much on a busy machine.
constexpr std::int64_t kLeastPatienceNs = 5 * kNanosecondsPerSecond;
constexpr std::int64_t kIntervals = 3;
constexpr std::int64_t kLatestNs = 4'000'000'000'000'000'000;      // a century and more
constexpr std::int64_t kLongestNs = 3600 * kNanosecondsPerSecond;  // between two
/// Each is a time series in Prometheus, for ever.
constexpr std::size_t kMostCodes = 200;

std::int64_t whole(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

void DaemonWatch::take(const clients::Message& message, std::int64_t now_ns) {
  const std::lock_guard guard(mutex_);
  lost_ += message.lost;
  if (message.topic == "status") take_status(message, now_ns);
  if (message.topic == "event") count_event(message.body);
}

void DaemonWatch::take_status(const clients::Message& message, std::int64_t now_ns) {
  const std::string session = text(message.body, "session");
  const bool same = session == session_;
  if (!session_.empty() && !same) ++restarts_;
  session_ = session;
  if (const std::int64_t before_ns = whole(status_, "time_ns");
      same && before_ns > 0 && before_ns < kLatestNs)
    interval_ns_ =
        std::clamp(whole(message.body, "time_ns"), before_ns, before_ns + kLongestNs) - before_ns;
  status_ = message.body;
  status_ns_ = now_ns;
}

void DaemonWatch::count_event(const json& event) {
  auto& codes = events_[text(event, "level")];
  const std::string code = text(event, "code");
  if (!codes.contains(code) && codes_++ >= kMostCodes) return;
  ++codes[code];
}

bool DaemonWatch::is_up(std::int64_t now_ns) const {
  return status_ns_ != 0 &&
         now_ns - status_ns_ <= std::max(kLeastPatienceNs, kIntervals * interval_ns_);
}

bool DaemonWatch::is_silent(std::int64_t now_ns) const {
  const std::lock_guard guard(mutex_);
  return !is_up(now_ns);
}

json DaemonWatch::document(std::int64_t now_ns) const {
  const std::lock_guard guard(mutex_);
  const auto seconds = [](std::int64_t ns) {
    const std::int64_t ms = ns / 1'000'000;
    return static_cast<double>(ms) * 1e-3;
  };
  json exporter = {{"up", is_up(now_ns) ? 1 : 0},
                   {"restarts", restarts_},
                   {"lost", lost_},
                   {"events", events_},
                   {"version", version_}};
  if (status_ns_ == 0) return {{"exporter", exporter}};
  exporter["age_s"] = seconds(now_ns - status_ns_);
  // Time up to the status counts by the daemon's clock, which may be another computer's, and since
  // by ours.
  const std::int64_t since_ns = whole(status_, "state_since_ns");
  const std::int64_t told_ns = whole(status_, "time_ns");
  if (since_ns > 0 && told_ns >= since_ns && told_ns < kLatestNs)
    exporter["state_s"] = seconds(told_ns - since_ns + (now_ns - status_ns_));
  return {{"exporter", exporter}, {"status", status_}};
}

}  // namespace driftd::exporter
