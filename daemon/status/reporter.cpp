// SPDX-License-Identifier: MIT
#include "daemon/status/reporter.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/counted.hpp"
#include "base/in_words.hpp"
#include "daemon/status/stage_words.hpp"
#include "daemon/status/status_messages.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;  // ns
// Noise makes any good marker an outlier in some frame every few seconds.
constexpr std::int64_t kHealthSettlesNs = 200 * kMillisecond;

std::string why_excluded(const control::MarkerStanding& standing) {
  using control::StandingReason;
  switch (standing.reason) {
    case StandingReason::Moved: {
      std::string text = fmt::format("it moved by {:.2g} nm against the others",
                                     std::hypot(standing.moved_nm.x, standing.moved_nm.y));
      const double walk = std::hypot(standing.walk_nm_per_min.x, standing.walk_nm_per_min.y);
      if (std::isfinite(walk)) text += fmt::format(", and walks by {:.2g} nm/min", walk);
      return text;
    }
    case StandingReason::Noisy:
      return fmt::format("it scatters {:.2g} times as far as its fits promise",
                         std::sqrt(standing.chi_square));
    case StandingReason::SeldomSeen:
      return fmt::format("it was good in {:.0f} % of the frames of the last minute",
                         100 * standing.good_share);
    case StandingReason::Good:
    case StandingReason::Returning:
      break;
  }
  return "it was bad for a moment";
}

}  // namespace

void Reporter::tell(const LockChange& change) {
  using control::LockReason;
  using control::LockState;
  const bool bad = change.state == LockState::Holding || change.state == LockState::Lost ||
                   change.state == LockState::Fault;
  const auto level = change.state == LockState::Fault ? EventLog::Level::Error
                     : bad                            ? EventLog::Level::Warning
                                                      : EventLog::Level::Info;
  nlohmann::json fields = {{"state", control::name_of(change.state)},
                           {"previous", control::name_of(change.previous)},
                           {"reason", control::name_of(change.reason)},
                           {"frame_id", change.frame_id},
                           {"since_ns", change.time_ns}};
  std::string text = std::string(control::name_of(change.state)) + ": ";
  std::string first;
  if (change.held_first != LockReason::None) {
    fields["held_first"] = control::name_of(change.held_first);
    first = ", at first " + in_words(control::name_of(change.held_first));
  }
  if (change.held_for == LockReason::None) {
    text += why(change, change.reason, fields) + first;
  } else {
    fields["held_for"] = control::name_of(change.held_for);
    text += in_words(control::name_of(change.reason)) + " (" +
            why(change, change.held_for, fields) + first + ')';
  }
  if (change.group == AxisGroup::Axial)
    events_.raise(level, "axial_state_changed", "z " + text, fields);
  else
    events_.raise(level, "state_changed", text, fields);
}

/// Why the state changed, in words; what more is known of it goes into the fields, too.
std::string Reporter::why(const LockChange& change, control::LockReason reason,
                          nlohmann::json& fields) const {
  std::string words = in_words(control::name_of(reason));
  if (reason == control::LockReason::StageNotFollowing) {
    words += ", it " + looks_in_words(control::name_of(change.stage));
    fields["stage"] = control::name_of(change.stage);
  }
  if (reason == control::LockReason::ImplausibleJump) {
    const double jumped_nm = std::hypot(change.jumped_nm.x, change.jumped_nm.y);
    const bool axial = change.group == AxisGroup::Axial;
    words +=
        fmt::format(" of {:.1f} nm ({}.max_jump_nm is {:g})", jumped_nm, axial ? "axial" : "lock",
                    axial ? config_.axial.max_jump_nm : config_.lock.max_jump_nm);
    fields["jump_nm"] = jumped_nm;
  }
  return words;
}

void Reporter::tell_changes(const LoopReport& loop, const MarkersReport& markers,
                            std::int64_t now_ns) {
  tell_health(markers, now_ns, loop.timeout_ns(kHealthSettlesNs, kFramesToSettle));
  tell_reputations(markers);
  const bool fitter_told = std::exchange(told_fitter_failed_, loop.fitter_error != nullptr);
  if (loop.fitter_error != nullptr && !fitter_told) {
    events_.raise(EventLog::Level::Error, "fitter_failed",
                  fmt::format("{}; from now on {}", loop.fitter_error, loop.fitter));
  }
  if (loop.queue_dropped != known_dropped_) {
    events_.raise(
        EventLog::Level::Error, "slow_publisher",
        fmt::format("{} dropped: the publisher is too slow",
                    counted(loop.queue_dropped - known_dropped_, "record was", "records were")));
    known_dropped_ = loop.queue_dropped;
  }
  for (const AxisGroup group : {AxisGroup::Lateral, AxisGroup::Axial}) tell_lock(loop, group);
  tell_clock(loop);
}

void Reporter::tell_lock(const LoopReport& loop, AxisGroup group) {
  const LockReport& lock = loop.of(group);
  tell_limits(lock, group);
  if (lock.holds()) tell_law(lock.law, group);
  tell_acquaintance(loop, group);
}

/// That a lock gets to know its stage, and what it found.
void Reporter::tell_acquaintance(const LoopReport& loop, AxisGroup group) {
  using control::StageAcquaintance;
  const LockReport& lock = loop.of(group);
  KnownLock& known = locks_[static_cast<std::size_t>(group)];
  const bool changed = lock.acquaintance != known.acquaintance;
  const bool found = lock.stage_findings != known.findings && lock.stage_knowledge;
  const StageAcquaintance before = std::exchange(known.acquaintance, lock.acquaintance);
  known.findings = lock.stage_findings;
  const bool began = changed && lock.acquaintance == StageAcquaintance::UnderWay;
  const bool failed = lock.acquaintance == StageAcquaintance::NotFound &&
                      (changed || before == StageAcquaintance::UnderWay);
  if (!began && !found && !failed) return;
  const nlohmann::json now = acquaintance_json(lock, stage_of(config_, group), group);
  const bool differs =
      found && (lock.stage_knowledge->other_matrix || lock.stage_knowledge->other_response);
  raise(group, failed || differs ? EventLog::Level::Warning : EventLog::Level::Info,
        "stage_acquaintance", now.at("text").get<std::string>(),
        {{"state", now.at("state")}, {"stage", now.at("stage")}});
}

/// An event of one of the locks: that of z says so.
void Reporter::raise(AxisGroup group, EventLog::Level level, const char* code,
                     const std::string& text, nlohmann::json fields) {
  if (group == AxisGroup::Lateral) return events_.raise(level, code, text, fields);
  fields["axes"] = name_of(group);
  events_.raise(level, code, "z: " + text, fields);
}

/// Which law holds the lock that is held, and why another one did not go on.
void Reporter::tell_law(const control::LawState& law, AxisGroup group) {
  std::uint32_t& known = locks_[static_cast<std::size_t>(group)].law_changes;
  if (law.changes == known) return;
  const bool first = std::exchange(known, law.changes) == 0;
  if (first && law.reason == control::LawReason::NotReady) return;  // it will be in a moment
  const bool worse = law.reason == control::LawReason::WorseThanPi;
  const bool slow = law.reason == control::LawReason::DriverTooSlow;
  std::string text = law.observer ? "the observer holds the lock" : "PI holds the lock";
  if (law.reason == control::LawReason::NotReady)
    text += ": the observer has to learn anew for the stage or the frame rate";
  if (law.reason == control::LawReason::TriedAgain) text += " again";
  if (law.reason == control::LawReason::LearnsAnew)
    text += ": it learns anew, as frames come at another rate or the stage's axes are others";
  if (slow)
    text += fmt::format(
        ": the stage's driver takes one correction in about {:.0f} frames, too few for the "
        "observer: a faster driver or a slower camera lets it act",
        law.frames_a_correction);
  if (worse)
    text += fmt::format(
        ": the observer left {:.2f} nm (rms of an axis, noise included) where PI would have left "
        "{:.2f} nm",
        law.left_nm, law.pi_left_nm);
  raise(group, worse || slow ? EventLog::Level::Warning : EventLog::Level::Info, "control_law",
        text,
        {{"law", law.observer ? "observer" : "pi"},
         {"why", control::name_of(law.reason)},
         {"left_nm", number_or_null(law.left_nm, worse)},
         {"pi_left_nm", number_or_null(law.pi_left_nm, worse)}});
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
    if (peer.untold > 0) text += fmt::format(" (and {} before that)", counted(peer.untold, "time"));
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
    health_.assign(markers.count, Debounced(control::MarkerHealth::Good));
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
                        in_words(control::name_of(health)));
  }
  const bool good = ids.size() == 1 && ids.begin()->first == control::MarkerHealth::Good;
  nlohmann::json fields = {{"markers", changed}};
  if (changed.size() == 1) fields.update(changed[0]);
  events_.raise(good ? EventLog::Level::Info : EventLog::Level::Warning, "marker_health", text,
                fields);
}

/// Others, or in another order: what was told of those before does not count.
void Reporter::tell_reputations(const MarkersReport& markers) {
  bool others = known_.size() != markers.count;
  for (std::size_t i = 0; i < markers.count && !others; ++i) {
    const control::Marker& marker = markers.entries[i].marker;
    const Known& known = known_[i];
    others =
        known.id != marker.id || known.found_px.x != marker.x_px || known.found_px.y != marker.y_px;
  }
  if (others) {
    known_.assign(markers.count, {});
    for (std::size_t i = 0; i < markers.count; ++i) {
      const control::Marker& marker = markers.entries[i].marker;
      known_[i] = {.id = marker.id, .found_px = {marker.x_px, marker.y_px}, .role = marker.role};
    }
  }
  for (std::size_t i = 0; i < markers.count; ++i) {
    const control::MarkerStanding& standing = markers.entries[i].standing;
    if (std::exchange(known_[i].excluded, standing.excluded) == standing.excluded) continue;
    events_.raise(
        standing.excluded ? EventLog::Level::Warning : EventLog::Level::Info, "marker_reputation",
        standing.excluded
            ? fmt::format("marker {} no longer counts: {}", known_[i].id, why_excluded(standing))
            : fmt::format("marker {} counts again", known_[i].id),
        {{"id", known_[i].id},
         {"excluded", standing.excluded},
         {"reason", control::name_of(standing.reason)},
         {"reputation", standing.reputation}});
  }
  tell_roles(markers);
}

void Reporter::tell_roles(const MarkersReport& markers) {
  for (std::size_t i = 0; i < markers.count; ++i) {
    const control::MarkerRole role = markers.entries[i].marker.role;
    if (std::exchange(known_[i].role, role) == role) continue;
    const bool witness = role == control::MarkerRole::Witness;
    events_.raise(EventLog::Level::Info, "marker_role",
                  witness ? fmt::format("marker {} is a witness now", known_[i].id)
                          : fmt::format("marker {} is used for the drift now", known_[i].id),
                  {{"id", known_[i].id}, {"role", name_of(role)}});
  }
}

void Reporter::tell_limits(const LockReport& lock, AxisGroup group) {
  KnownLock& known = locks_[static_cast<std::size_t>(group)];
  const std::uint8_t limited = lock.limited;
  if (std::exchange(known.limited, limited) == limited || limited == control::kLimitNone) return;
  if (group == AxisGroup::Axial) {  // its limits are small and met often: each is told once a lock
    if (std::exchange(known.limits_of, lock.lock_id) != lock.lock_id)
      known.limits_told = control::kLimitNone;
    const auto told = static_cast<std::uint8_t>(known.limits_told | limited);
    if (std::exchange(known.limits_told, told) == told) return;
  }
  const std::string section = group == AxisGroup::Axial ? "axial" : "control";
  std::vector<std::string> limits;
  if (limited & control::kLimitStep) limits.push_back(section + ".step_limit_nm");
  if (limited & control::kLimitRate) limits.push_back(section + ".rate_limit_nm_per_s");
  if (limited & control::kLimitRange)
    limits.push_back(section + ".range_limit_nm or " + section + ".travel_limit_nm");
  raise(group, EventLog::Level::Warning, "correction_limited",
        fmt::format("the correction is held back by {}", fmt::join(limits, " and ")),
        nlohmann::json::object());
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
