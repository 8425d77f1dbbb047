// SPDX-License-Identifier: MIT
// Runs the lock that was ordered last, or the calibration, in the tracking loop: its number,
// whether it takes a reference or keeps an earlier one, and what follows from a change of its
// state. The supervisor decides; this class obeys commands and tells housekeeping. Tracking loop;
// noexcept; no allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "control/lock/supervisor.hpp"
#include "daemon/loop/group_reference.hpp"
#include "daemon/loop/loop_ports.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/stage_run.hpp"

namespace driftd::daemon {

class LockSession {
 public:
  /// @param set  the loop's present markers; null while there are none
  LockSession(AxisGroup group, control::Supervisor& supervisor, GroupReference& reference,
              const std::unique_ptr<MarkerSet>& set, LoopPorts& ports)
      : group_(group), supervisor_(supervisor), reference_(reference), set_(set), ports_(ports) {}

  // Commands.
  void lock(const LoopCommand& command) noexcept;
  void calibrate(LoopCommand& command) noexcept;
  void order(control::LockEvent command) noexcept;

  // With each frame.
  void saw_frame(std::uint64_t frame_id) noexcept { frame_id_ = frame_id; }
  /// Where the stage is to go, while it is calibrated.
  std::optional<control::Vec2> excitation_nm(std::int64_t now_ns) noexcept;
  /// Whether a lock that keeps its reference engages with this frame's drift.
  bool kept_reference_is_due(const control::DriftEstimate& drift) noexcept;
  /// Counts good frames from the next one on. A lock that keeps its reference needs them only until
  /// the stage monitor has seen enough.
  void begin_reference() noexcept;
  /// What was told after `sent_ns` never left; `total_nm` was the last that did.
  void take_back(control::Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// The last correction left only then.
  void left_at(std::int64_t sent_ns) noexcept;
  /// Tells what the supervisor has changed of the lock's state since the last call.
  void tell_change() noexcept;
  /// Tells a calibration what became of its frame.
  void saw(const control::FrameFacts& facts, const control::Decision& decision) noexcept;
  void without_frame(std::int64_t now_ns) noexcept;
  /// Gives a calibration that is over back to housekeeping; the lock is idle then.
  void end_calibration_if_over() noexcept;

  std::uint64_t id() const noexcept { return id_; }
  /// The last lock that engaged, whose total the controller has.
  std::uint64_t engaged_id() const noexcept { return engaged_id_; }
  bool is_resumed() const noexcept { return resumption_.has_value(); }
  /// Good frames until it engages; 0 where it takes no reference.
  int reference_left() const noexcept;
  /// The calibration that is under way; else null.
  StageRun* calibration() const noexcept { return calibration_.get(); }

 private:
  const AxisGroup group_;
  control::Supervisor& supervisor_;
  GroupReference& reference_;
  const std::unique_ptr<MarkerSet>& set_;
  LoopPorts& ports_;
  std::uint64_t id_ = 0;
  std::uint64_t engaged_id_ = 0;
  std::uint64_t frame_id_ = 0;  ///< of the newest frame
  control::LockState told_ = control::LockState::Idle;
  control::LockReason told_reason_ = control::LockReason::None;
  std::optional<LockResumption> resumption_;  ///< of the last lock that was ordered
  int frames_to_resume_ = 0;                  ///< good ones; 0: none is to be resumed
  std::unique_ptr<StageRun> calibration_;
};

}  // namespace driftd::daemon
