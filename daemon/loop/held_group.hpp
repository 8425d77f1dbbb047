// SPDX-License-Identifier: MIT
// One lock in the tracking loop, of x and y or of z: its supervisor, session, observer and gate,
// what its outlet did with the corrections before, and its part of the loop's report. Two of them
// see the same frames and know nothing of one another: what is bad for one holds that one alone.
// Tracking loop; noexcept; no allocation after construction.
#pragma once

#include <cstdint>
#include <memory>

#include "control/lock/supervisor.hpp"
#include "daemon/loop/group_reference.hpp"
#include "daemon/loop/lock_session.hpp"
#include "daemon/loop/loop_ports.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/observer_link.hpp"
#include "daemon/loop/outlet.hpp"
#include "daemon/loop/stage_offset.hpp"

namespace driftd::daemon {

class HeldGroup {
 public:
  struct Ways {
    GroupReference& reference;
    const std::unique_ptr<MarkerSet>& set;  ///< the loop's present markers
    LoopPorts& ports;
    Outlet& outlet;
    LockReport& report;  ///< that it fills
  };

  HeldGroup(AxisGroup group, const control::SupervisorSettings& settings,
            const control::GateSettings& gate, std::int64_t frame_period_ns, const Ways& ways);
  HeldGroup(const HeldGroup&) = delete;
  HeldGroup& operator=(const HeldGroup&) = delete;

  /// A command of this lock: all kinds but Markers, MoveRois, Settings and SpotZero.
  void obey(LoopCommand& command) noexcept;
  void change_settings(const control::SupervisorSettings& settings,
                       const control::GateSettings& gate) noexcept;
  /// The markers were replaced.
  void forget_drift() noexcept;
  /// A reference half from before and half from after a jump would be of neither place.
  void begin_reference_anew() noexcept;

  void saw_frame(std::uint64_t frame_id, std::int64_t arrival_ns) noexcept;
  void without_frame(std::int64_t last_arrival_ns, std::int64_t now_ns, bool away) noexcept;
  /// Whether the frame's drift is the first against a new reference. @param completed  the
  /// reference that was being taken is complete with it
  bool sees_new_reference(bool completed, const control::DriftEstimate& drift) noexcept;
  /// Looks at what the outlet did with the corrections before, then judges this frame.
  /// @param facts  what both locks know of it; the rest is added
  void supervise(control::FrameFacts& facts, HeldResult& result) noexcept;

  // Once the frame's correction is on its way.
  void prepare() noexcept { supervisor_.prepare(); }
  /// @param taken_ns  of the frame
  void teach_observer(std::int64_t taken_ns) noexcept { observer_.give(taken_ns); }
  bool wants_slower_frames() const noexcept { return observer_.wants_slower_frames(); }
  void tell_slower(bool slower) noexcept { observer_.tell_slower(slower); }
  void compare_place() noexcept;
  /// What the frame adds to what is known of the lock. @returns whether it was held by the law
  bool learn(const control::DriftEstimate& drift, const HeldResult& result,
             double interval_s) noexcept;
  void account(const control::DriftEstimate& drift) noexcept;
  /// Fills the report.
  void report(std::int64_t now_ns) noexcept;

  const control::Supervisor& supervisor() const noexcept { return supervisor_; }
  const LockSession& session() const noexcept { return session_; }
  const control::GateState& gate() const noexcept { return gate_.state(); }
  bool is_idle() const noexcept { return supervisor_.lock().state == control::LockState::Idle; }
  /// The frame judged last was the first against a new reference.
  bool has_new_reference() const noexcept { return has_new_reference_; }

 private:
  void see_late_send(const Outlet::Sent& sent, std::int64_t now_ns) noexcept;
  void see_residual(const control::FrameFacts& facts) noexcept;
  void report_move() noexcept;

  GroupReference& reference_;
  LoopPorts& ports_;
  LockPorts& own_ports_;
  Outlet& outlet_;
  LockReport& report_;
  int bad_frames_to_hold_;
  control::Supervisor supervisor_;
  LockSession session_;
  ObserverLink observer_;
  control::AcquisitionGate gate_;
  control::ResidualStatistics residual_;
  StageOffset stage_off_;
  std::int64_t place_ns_ = 0;  ///< of the last that was compared
  bool has_new_reference_ = false;
  int coasted_frames_ = 0;  ///< in a row
  double mean_square_x_nm2_ = 0, mean_square_y_nm2_ = 0;
  std::uint64_t chain_ = 0;         ///< Outlet::broken() as far as it was dealt with
  std::uint64_t refused_seen_ = 0;  ///< Outlet::refused() likewise
  /// When the last correction that left late was handed over, and since when it counts.
  std::int64_t late_ns_ = 0, left_ns_ = 0;
};

}  // namespace driftd::daemon
