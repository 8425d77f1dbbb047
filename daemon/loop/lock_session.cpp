// SPDX-License-Identifier: MIT
#include "daemon/loop/lock_session.hpp"

#include <cmath>
#include <utility>

namespace driftd::daemon {

void LockSession::lock(const LoopCommand& command) noexcept {
  id_ = command.lock_id;
  resumption_ = command.resumption;
  supervisor_.set_stage_waiting_us(command.stage_waiting_us);
  supervisor_.set_carried(resumption_ ? resumption_->carried_nm : control::Vec2{},
                          resumption_ ? resumption_->set_nm : control::Vec2{});
  order(control::LockEvent::CommandLock);
}

/// Runs a calibration under a lock's number: it tells the stage where to go as a lock does.
void LockSession::calibrate(LoopCommand& command) noexcept {
  id_ = command.lock_id;
  order(control::LockEvent::CommandCalibrate);
  if (supervisor_.lock().state != control::LockState::Calibrating) {
    ports_.of(group_).retired_calibrations.push(std::move(command.calibration));
    return;
  }
  engaged_id_ = id_;
  if (calibration_) ports_.of(group_).retired_calibrations.push(std::move(calibration_));
  calibration_ = std::move(command.calibration);
}

void LockSession::order(control::LockEvent command) noexcept {
  supervisor_.command(command, ports_.clock());
  tell_change();
}

std::optional<control::Vec2> LockSession::excitation_nm(std::int64_t now_ns) noexcept {
  if (!calibration_) return std::nullopt;
  return calibration_->wanted_nm(now_ns);
}

/// False where the sample has moved since the return was decided: it may then be another one.
bool LockSession::kept_reference_is_due(const control::DriftEstimate& drift) noexcept {
  if (frames_to_resume_ == 0 || supervisor_.lock().state != control::LockState::Referencing)
    return false;
  if (!drift.valid || --frames_to_resume_ > 0) return false;
  const control::Vec2 before_nm = resumption_->drift_nm;
  const bool is_near =
      std::abs(drift.frame_drift_nm.x - before_nm.x) <= resumption_->largest_move_nm &&
      std::abs(drift.frame_drift_nm.y - before_nm.y) <= resumption_->largest_move_nm;
  if (!is_near) frames_to_resume_ = 1;
  if (is_near) reference_.restart_average();  // the stage moves from the next frame on
  return is_near;
}

void LockSession::begin_reference() noexcept {
  if (!reference_.is_possible()) return;
  frames_to_resume_ = resumption_ ? supervisor_.frames_to_know_rest() : 0;
  if (!resumption_) reference_.begin(supervisor_.reference_frames());
}

int LockSession::reference_left() const noexcept {
  if (!reference_.is_possible() || supervisor_.lock().state != control::LockState::Referencing)
    return 0;
  return resumption_ ? frames_to_resume_ : reference_.left();
}

/// The stage stands where the last lock that engaged told it to be; what was computed and then
/// withheld is not part of its travel.
void LockSession::take_back(control::Vec2 total_nm, std::int64_t sent_ns) noexcept {
  supervisor_.take_back(total_nm, sent_ns);
  if (calibration_) calibration_->take_back(total_nm, sent_ns);
}

void LockSession::left_at(std::int64_t sent_ns) noexcept {
  supervisor_.left_at(sent_ns);
  if (calibration_) calibration_->left_at(sent_ns);
}

void LockSession::tell_change() noexcept {
  const control::Lock& lock = supervisor_.lock();
  const control::LockState before = std::exchange(told_, lock.state);
  const control::LockReason reason_before = std::exchange(told_reason_, lock.reason);
  const bool held_anew = lock.state == control::LockState::Holding && lock.reason != reason_before;
  if (lock.state == before && !held_anew) return;
  if (before == control::LockState::Calibrating && calibration_) {
    calibration_->abandon(lock.state == control::LockState::Fault ? CalibrationEnd::Fault
                                                                  : CalibrationEnd::Unlocked);
  }
  if (before == control::LockState::Referencing && lock.state == control::LockState::Locked)
    engaged_id_ = id_;
  if (lock.state == control::LockState::Referencing) begin_reference();
  ports_.of(group_).lock_changes.push(LockChange{
      group_, lock.since_ns, frame_id_, before, lock.state, lock.reason, supervisor_.stage_looks(),
      supervisor_.jumped_nm(), lock.held_for, control::held_before(lock)});
}

void LockSession::saw(const control::FrameFacts& facts,
                      const control::Decision& decision) noexcept {
  if (!calibration_) return;
  calibration_->saw(facts, decision);
  if (facts.drift != nullptr && set_)
    calibration_->saw_markers(set_->estimator.results(), *facts.drift);
}

void LockSession::without_frame(std::int64_t now_ns) noexcept {
  if (calibration_) calibration_->without_frame(now_ns);
}

void LockSession::end_calibration_if_over() noexcept {
  if (!calibration_ || !calibration_->over()) return;
  if (supervisor_.lock().state == control::LockState::Calibrating) {
    supervisor_.end_calibration(ports_.clock());
    tell_change();
  }
  ports_.of(group_).retired_calibrations.push(std::move(calibration_));
}

}  // namespace driftd::daemon
