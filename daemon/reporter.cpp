// SPDX-License-Identifier: MIT
#include "daemon/reporter.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "daemon/status_messages.hpp"

namespace driftd::daemon {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;  // ns
// Noise makes any good marker an outlier in some frame every few seconds.
constexpr std::int64_t kHealthSettlesNs = 200 * kMillisecond;

}  // namespace

void Reporter::tell(const LockChange& change) {
  using control::LockState;
  const bool bad = change.state == LockState::Holding || change.state == LockState::Lost ||
                   change.state == LockState::Fault;
  const auto level = change.state == LockState::Fault ? EventLog::Level::Error
                     : bad                            ? EventLog::Level::Warning
                                                      : EventLog::Level::Info;
  std::string reason = control::name_of(change.reason);
  std::string words = reason;
  std::replace(words.begin(), words.end(), '_', ' ');
  nlohmann::json fields = {{"state", control::name_of(change.state)},
                           {"previous", control::name_of(change.previous)},
                           {"reason", reason},
                           {"frame_id", change.frame_id},
                           {"since_ns", change.time_ns}};
  if (change.reason == control::LockReason::StageNotFollowing) {
    words += std::string(", it looks ") + control::name_of(change.stage);
    fields["stage"] = control::name_of(change.stage);
  }
  events_.raise(level, "state_changed", std::string(control::name_of(change.state)) + ": " + words,
                fields);
}

void Reporter::tell_changes(const LoopReport& loop, const MarkersReport& markers,
                            std::int64_t now_ns) {
  tell_health(markers, now_ns, loop.timeout_ns(kHealthSettlesNs, kFramesToSettle));
  const bool fitter_told = std::exchange(told_fitter_failed_, loop.fitter_error != nullptr);
  if (loop.fitter_error != nullptr && !fitter_told) {
    events_.raise(EventLog::Level::Error, "fitter_failed",
                  fmt::format("{}; from now on {}", loop.fitter_error, loop.fitter));
  }
  if (loop.queue_dropped != known_dropped_) {
    events_.raise(EventLog::Level::Error, "slow_publisher",
                  fmt::format("{} records were dropped: the publisher is too slow",
                              loop.queue_dropped - known_dropped_));
    known_dropped_ = loop.queue_dropped;
  }
  tell_limits(loop.limited);
  tell_clock(loop);
}

void Reporter::tell_connections(std::uint64_t ended, std::int64_t now_ns) {
  constexpr std::int64_t kMinuteNs = 60 * kNanosecondsPerSecond;
  if (ended == known_ended_ || now_ns < next_ended_ns_) return;
  next_ended_ns_ = now_ns + kMinuteNs;
  events_.raise(EventLog::Level::Warning, "connections_ended",
                fmt::format("connections ended: {}; too many at once, or too many subscriptions",
                            ended - known_ended_),
                {{"ended", ended}});
  known_ended_ = ended;
}

void Reporter::tell_refusals(const std::vector<Refused>& refused) {
  for (const Refused& peer : refused) {
    std::string text = fmt::format("{} was refused at {}: {}", peer.peer, peer.socket, peer.why);
    if (peer.untold > 0) text += fmt::format(" (and {} times before that)", peer.untold);
    events_.raise(
        EventLog::Level::Warning, "peer_refused", text,
        {{"peer", peer.peer}, {"socket", peer.socket}, {"why", peer.why}, {"untold", peer.untold}});
  }
}

void Reporter::tell_clock(const LoopReport& loop) {
  if (loop.clock_steps != known_clock_steps_) {
    known_clock_steps_ = loop.clock_steps;
    events_.raise(EventLog::Level::Warning, "camera_clock", "the camera's clock stepped",
                  {{"trust", name_of(loop.clock_trust)}, {"steps", loop.clock_steps}});
  }
  const bool unusable = loop.clock_trust == ClockTrust::Unusable;
  if (unusable == told_clock_unusable_) return;
  told_clock_unusable_ = unusable;
  nlohmann::json fields = {{"trust", name_of(loop.clock_trust)}, {"steps", loop.clock_steps}};
  std::string text = "the camera's clock runs like real time again";
  if (unusable) {
    std::string slow;
    if (loop.clock_slow > 0) {
      slow = fmt::format(", it is {:.2g} % slow", 100 * loop.clock_slow);
      fields["slow"] = loop.clock_slow;
    }
    text = "the camera's clock does not run like real time" + slow +
           ": frames' ages count from their arrival";
  }
  events_.raise(unusable ? EventLog::Level::Warning : EventLog::Level::Info, "camera_clock", text,
                fields);
}

/// One event for all markers whose health settled at once: what hides one often hides all.
void Reporter::tell_health(const MarkersReport& markers, std::int64_t now_ns,
                           std::int64_t settle_ns) {
  if (health_.size() != markers.count) {
    health_.assign(markers.count, Settled(control::MarkerHealth::Good));
  }
  nlohmann::json changed = nlohmann::json::array();
  std::map<control::MarkerHealth, std::string> ids;
  for (std::size_t i = 0; i < markers.count; ++i) {
    const MarkersReport::Entry& entry = markers.entries[i];
    if (!health_[i].update(entry.result.health, now_ns, settle_ns)) continue;
    const control::MarkerHealth health = entry.result.health;
    changed.push_back({{"id", entry.marker.id}, {"health", control::name_of(health)}});
    std::string& list = ids[health];
    list += (list.empty() ? "" : ", ") + std::to_string(entry.marker.id);
  }
  if (changed.empty()) return;
  std::string text;
  for (const auto& [health, list] : ids) {
    const bool one = list.find(',') == std::string::npos;
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", one ? "marker" : "markers", list,
                        control::name_of(health));
  }
  const bool good = ids.size() == 1 && ids.begin()->first == control::MarkerHealth::Good;
  nlohmann::json fields = {{"markers", changed}};
  if (changed.size() == 1) fields.update(changed[0]);
  events_.raise(good ? EventLog::Level::Info : EventLog::Level::Warning, "marker_health", text,
                fields);
}

void Reporter::tell_limits(std::uint8_t limited) {
  if (limited == known_limited_) return;
  known_limited_ = limited;
  if (limited == control::kLimitNone) return;
  events_.raise(EventLog::Level::Warning, "correction_limited",
                fmt::format("the correction is held back by its{}{}{} limit",
                            limited & control::kLimitStep ? " step" : "",
                            limited & control::kLimitRate ? " rate" : "",
                            limited & control::kLimitRange ? " range" : ""));
}

void Reporter::publish(const MarkersReport& markers, std::int64_t now_ns) {
  if (now_ns >= next_status_ns_) {
    next_status_ns_ = now_ns + config_.wire.status_interval_ms * kMillisecond;
    send_({TextMessage::Topic::Status, fields_of(status_())});
  }
  if (markers.count == 0 || now_ns < next_markers_ns_ || markers.frame_id == markers_frame_id_)
    return;
  next_markers_ns_ = now_ns + config_.wire.markers_interval_ms * kMillisecond;
  markers_frame_id_ = markers.frame_id;
  send_({TextMessage::Topic::Markers,
         fields_of(markers_json(markers, config_.optics.pixel_size_nm))});
}

}  // namespace driftd::daemon
