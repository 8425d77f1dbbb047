// SPDX-License-Identifier: MIT
// What the daemon tells of itself unasked: `status` and `markers` at their intervals, and an event
// for each change of the lock, of a marker's health, of the fitter and of the limits. Housekeeping
// thread.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "config/config.hpp"
#include "daemon/events/debounced.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/wire/refusals.hpp"
#include "daemon/wire/text_message.hpp"

namespace driftd::daemon {

class Reporter {
 public:
  /// @param status  composes the object of `status`
  Reporter(const config::Config& config, EventLog& events, SendText send,
           std::function<nlohmann::json()> status)
      : config_(config), events_(events), send_(std::move(send)), status_(std::move(status)) {}

  void tell(const LockChange& change);
  void tell_changes(const LoopReport& loop, const MarkersReport& markers, std::int64_t now_ns);
  /// Tells of ended connections, once a minute at most: strangers have them ended as often as they
  /// like.
  /// @param ended  WireContext::ended()
  void tell_connections(std::uint64_t ended, std::int64_t now_ns);
  void tell_refusals(const std::vector<Refused>& refused);
  void publish(const MarkersReport& markers, std::int64_t now_ns);

 private:
  std::string why(const LockChange& change, control::LockReason reason,
                  nlohmann::json& fields) const;
  void tell_health(const MarkersReport& markers, std::int64_t now_ns, std::int64_t settle_ns);
  void tell_reputations(const MarkersReport& markers);
  void tell_roles(const MarkersReport& markers);
  void tell_lock(const LoopReport& loop, AxisGroup group);
  void tell_limits(const LockReport& lock, AxisGroup group);
  void tell_law(const control::LawState& law, AxisGroup group);
  void tell_acquaintance(const LoopReport& loop, AxisGroup group);
  void tell_clock(const LoopReport& loop);
  void raise(AxisGroup group, EventLog::Level level, const char* code, const std::string& text,
             nlohmann::json fields);

  const config::Config& config_;
  EventLog& events_;
  SendText send_;
  std::function<nlohmann::json()> status_;
  std::vector<Debounced<control::MarkerHealth>> health_;
  /// What was told last of a marker.
  struct Known {
    std::uint32_t id = 0;
    control::Vec2 found_px;  ///< ids begin anew with each search
    bool excluded = false;
    control::MarkerRole role = control::MarkerRole::Tracking;
  };
  std::vector<Known> known_;
  bool told_fitter_failed_ = false;
  /// What was told last of a lock.
  struct KnownLock {
    std::uint8_t limited = 0;
    std::uint8_t limits_told = 0;  ///< of z, in this lock:
    std::uint64_t limits_of = 0;
    std::uint32_t law_changes = 0;
    control::StageAcquaintance acquaintance = control::StageAcquaintance::Told;
    std::uint32_t findings = 0;
  };
  std::array<KnownLock, kAxisGroups> locks_;
  std::uint64_t known_clock_steps_ = 0;
  bool told_clock_unusable_ = false;
  std::uint64_t known_dropped_ = 0;
  std::uint64_t known_ended_ = 0;
  std::int64_t next_ended_ns_ = 0;
  std::int64_t next_status_ns_ = 0;
  std::int64_t next_markers_ns_ = 0;
  std::uint64_t markers_frame_id_ = 0;
};

}  // namespace driftd::daemon
