// SPDX-License-Identifier: MIT
#include "control/lock/lock_state.hpp"

#include <limits>

namespace driftd::control {
namespace {

Lock changed(LockState state, LockReason reason, std::int64_t now_ns) noexcept {
  return {.state = state, .reason = reason, .since_ns = now_ns};
}

/// At 1000 frames/s an int overflows after 25 days.
void count(int& counter) noexcept {
  if (counter < std::numeric_limits<int>::max()) ++counter;
}

Lock with_good_frame(Lock lock) noexcept {
  count(lock.good_frames);
  lock.bad_frames = 0;
  return lock;
}

Lock with_bad_frame(Lock lock, LockReason reason) noexcept {
  count(lock.bad_frames);
  lock.good_frames = 0;
  if (reason != lock.last_bad) lock.alike = 0;
  lock.last_bad = reason;
  count(lock.alike);
  return lock;
}

Lock held(LockReason reason, std::int64_t now_ns) noexcept {
  Lock lock = changed(LockState::Holding, reason, now_ns);
  lock.at_first = reason;
  return lock;
}

/// A clock that went backwards has not timed out.
bool timed_out(const Lock& lock, std::int64_t now_ns, std::int64_t timeout_ns) noexcept {
  return now_ns >= lock.since_ns &&
         static_cast<std::uint64_t>(now_ns) - static_cast<std::uint64_t>(lock.since_ns) >=
             static_cast<std::uint64_t>(timeout_ns > 0 ? timeout_ns : 0);
}

/// A frame to coast through is bad here: only while locked is it neither good nor bad.
bool is_bad_frame(LockEvent event) noexcept {
  return event == LockEvent::FewMarkers || event == LockEvent::Coasting ||
         event == LockEvent::StaleFrame || event == LockEvent::NoFrame ||
         event == LockEvent::Jump || event == LockEvent::NotSent;
}

/// What the driver of the stage says keeps corrections from being carried out.
bool is_stage_report(LockEvent event) noexcept {
  return event == LockEvent::StageError || event == LockEvent::StageLimit ||
         event == LockEvent::StageSilent;
}

/// One of these is enough to hold a lock, or to say what holds it.
bool holds_at_once(LockEvent event) noexcept {
  return event == LockEvent::NoFrame || event == LockEvent::RangeExceeded ||
         event == LockEvent::StageNotFollowing || is_stage_report(event);
}

LockReason reason_of(LockEvent event) noexcept {
  switch (event) {
    case LockEvent::FewMarkers:
    case LockEvent::Coasting:
      return LockReason::TooFewMarkers;
    case LockEvent::StaleFrame:
      return LockReason::StaleFrame;
    case LockEvent::NoFrame:
      return LockReason::NoFrames;
    case LockEvent::Jump:
      return LockReason::ImplausibleJump;
    case LockEvent::NotSent:
      return LockReason::CorrectionsNotSent;
    case LockEvent::RangeExceeded:
      return LockReason::RangeExceeded;
    case LockEvent::StageNotFollowing:
      return LockReason::StageNotFollowing;
    case LockEvent::StageError:
      return LockReason::StageError;
    case LockEvent::StageLimit:
      return LockReason::StageLimit;
    case LockEvent::StageSilent:
      return LockReason::StageSilent;
    default:
      return LockReason::None;
  }
}

Lock timed_out_reference(const Lock& lock, std::int64_t now_ns) noexcept {
  Lock idle = changed(LockState::Idle, LockReason::ReferenceTimeout, now_ns);
  if (lock.bad_frames > 0) idle.held_for = lock.last_bad;
  return idle;
}

Lock next_referencing(const Lock& lock, LockEvent event, std::int64_t now_ns,
                      const LockSettings& settings) noexcept {
  if (event == LockEvent::ReferenceDone)
    return changed(LockState::Locked, LockReason::ReferenceTaken, now_ns);
  if (timed_out(lock, now_ns, settings.reference_timeout_ns))
    return timed_out_reference(lock, now_ns);
  if (event == LockEvent::GoodFrame) return with_good_frame(lock);
  if (is_bad_frame(event)) return with_bad_frame(lock, reason_of(event));
  return lock;
}

Lock next_locked(const Lock& lock, LockEvent event, std::int64_t now_ns,
                 const LockSettings& settings) noexcept {
  if (event == LockEvent::GoodFrame) return with_good_frame(lock);
  if (holds_at_once(event)) return held(reason_of(event), now_ns);
  if (!is_bad_frame(event) || event == LockEvent::Coasting) return lock;
  const Lock counted = with_bad_frame(lock, reason_of(event));
  if (counted.bad_frames >= settings.bad_frames_to_hold) return held(reason_of(event), now_ns);
  return counted;
}

/// Good frames alone do not resume a lock that is held because of its stage. At its range limit it
/// would go in and out for ever, so the user unlocks it, or it is lost. A stage that does not
/// follow has to be seen to follow.
bool resumes_by_good_frames(LockReason reason) noexcept {
  return reason != LockReason::RangeExceeded && reason != LockReason::StageNotFollowing;
}

/// Another reason holds it once as many frames have shown it as begin a hold.
Lock held_on(const Lock& lock, LockEvent event, const LockSettings& settings) noexcept {
  Lock counted = with_bad_frame(lock, reason_of(event));
  if (holds_at_once(event) || counted.alike >= settings.bad_frames_to_hold)
    counted.reason = counted.last_bad;
  return counted;
}

Lock next_holding(const Lock& lock, LockEvent event, std::int64_t now_ns,
                  const LockSettings& settings) noexcept {
  if (timed_out(lock, now_ns, settings.hold_timeout_ns)) {
    Lock lost = changed(LockState::Lost, LockReason::HeldTooLong, now_ns);
    lost.held_for = lock.reason;
    lost.at_first = lock.at_first;
    return lost;
  }
  if (event == LockEvent::GoodFrame) {
    Lock counted = with_good_frame(lock);
    if (counted.good_frames < settings.good_frames_to_resume) return counted;
    if (resumes_by_good_frames(lock.at_first))
      return changed(LockState::Locked, LockReason::Recovered, now_ns);
    counted.reason = lock.at_first;  // what came after it is over
    return counted;
  }
  if (event == LockEvent::StageFollows && lock.at_first == LockReason::StageNotFollowing)
    return changed(LockState::Locked, LockReason::StageFollows, now_ns);
  if (is_bad_frame(event) || event == LockEvent::RangeExceeded || is_stage_report(event))
    return held_on(lock, event, settings);
  return lock;
}

Lock next_calibrating(const Lock& lock, LockEvent event, std::int64_t now_ns) noexcept {
  if (event == LockEvent::CalibrationOver)
    return changed(LockState::Idle, LockReason::CalibrationOver, now_ns);
  if (event == LockEvent::GoodFrame) return with_good_frame(lock);
  if (is_bad_frame(event) || is_stage_report(event)) return with_bad_frame(lock, reason_of(event));
  return lock;
}

}  // namespace

Lock next(const Lock& lock, LockEvent event, std::int64_t now_ns,
          const LockSettings& settings) noexcept {
  if (event == LockEvent::CommandReset &&
      (lock.state == LockState::Lost || lock.state == LockState::Fault))
    return changed(LockState::Idle, LockReason::ResetCommanded, now_ns);
  if (lock.state == LockState::Fault) return lock;
  if (event == LockEvent::InternalFault)
    return changed(LockState::Fault, LockReason::InternalFault, now_ns);
  if (event == LockEvent::CommandUnlock && lock.state != LockState::Idle)
    return changed(LockState::Idle, LockReason::UnlockCommanded, now_ns);
  if (event == LockEvent::CommandLock &&
      (lock.state == LockState::Idle || lock.state == LockState::Lost))
    return changed(LockState::Referencing, LockReason::LockCommanded, now_ns);
  if (event == LockEvent::CommandCalibrate && lock.state == LockState::Idle)
    return changed(LockState::Calibrating, LockReason::CalibrationCommanded, now_ns);
  if (event <= LockEvent::CommandReset) return lock;  // a command that changes nothing here
  switch (lock.state) {
    case LockState::Referencing:
      return next_referencing(lock, event, now_ns, settings);
    case LockState::Locked:
      return next_locked(lock, event, now_ns, settings);
    case LockState::Holding:
      return next_holding(lock, event, now_ns, settings);
    case LockState::Calibrating:
      return next_calibrating(lock, event, now_ns);
    default:
      return lock;
  }
}

const char* name_of(LockState state) noexcept {
  switch (state) {
    case LockState::Idle:
      return "idle";
    case LockState::Referencing:
      return "referencing";
    case LockState::Locked:
      return "locked";
    case LockState::Holding:
      return "holding";
    case LockState::Lost:
      return "lost";
    case LockState::Fault:
      return "fault";
    case LockState::Calibrating:
      return "calibrating";
  }
  return "unknown";
}

const char* name_of(LockReason reason) noexcept {
  switch (reason) {
    case LockReason::None:
      return "none";
    case LockReason::LockCommanded:
      return "lock_commanded";
    case LockReason::UnlockCommanded:
      return "unlock_commanded";
    case LockReason::ResetCommanded:
      return "reset_commanded";
    case LockReason::ReferenceTaken:
      return "reference_taken";
    case LockReason::ReferenceTimeout:
      return "reference_timeout";
    case LockReason::TooFewMarkers:
      return "too_few_markers";
    case LockReason::StaleFrame:
      return "stale_frame";
    case LockReason::NoFrames:
      return "no_frames";
    case LockReason::ImplausibleJump:
      return "implausible_jump";
    case LockReason::Recovered:
      return "recovered";
    case LockReason::HeldTooLong:
      return "held_too_long";
    case LockReason::RangeExceeded:
      return "range_exceeded";
    case LockReason::CorrectionsNotSent:
      return "corrections_not_sent";
    case LockReason::StageNotFollowing:
      return "stage_not_following";
    case LockReason::StageFollows:
      return "stage_follows";
    case LockReason::StageError:
      return "stage_error";
    case LockReason::StageLimit:
      return "stage_limit";
    case LockReason::StageSilent:
      return "stage_silent";
    case LockReason::CalibrationCommanded:
      return "calibration_commanded";
    case LockReason::CalibrationOver:
      return "calibration_over";
    case LockReason::InternalFault:
      return "internal_fault";
  }
  return "unknown";
}

}  // namespace driftd::control
