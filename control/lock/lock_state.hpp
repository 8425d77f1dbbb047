// SPDX-License-Identifier: MIT
// The lock's state machine as a pure function: (lock, event, time) -> lock, with the reason of
// every change. The loop feeds it one event per frame or time-out, and commands before the next
// frame.
#pragma once

#include <cstdint>

namespace driftd::control {

enum class LockState : std::uint8_t {
  Idle,
  Referencing,
  Locked,
  Holding,
  Lost,
  Fault,
  Calibrating,  ///< no lock: the stage is moved to see how it answers
};

enum class LockReason : std::uint8_t {
  None,
  LockCommanded,
  UnlockCommanded,
  ResetCommanded,
  ReferenceTaken,
  ReferenceTimeout,  ///< too few good frames within the time allowed
  TooFewMarkers,
  StaleFrame,  ///< frames arrive too old
  NoFrames,    ///< none arrives (camera away, stream stalled)
  ImplausibleJump,
  Recovered,
  HeldTooLong,
  RangeExceeded,       ///< the correction stayed at its range limit too long
  CorrectionsNotSent,  ///< the publisher cannot send in time
  StageNotFollowing,   ///< the image does not move as the stage was told to
  StageFollows,        ///< it does again
  StageError,          ///< the stage's driver reports an error
  StageLimit,          ///< it reports that the stage cannot go further
  StageSilent,         ///< it has reported nothing for too long
  CalibrationCommanded,
  CalibrationOver,
  InternalFault,
};

/// What a frame, a time-out or a command means for the lock. Each frame has exactly one.
enum class LockEvent : std::uint8_t {
  CommandLock,
  CommandUnlock,
  CommandCalibrate,
  CommandReset,
  GoodFrame,  ///< fresh, enough healthy markers, plausible
  FewMarkers,
  Coasting,  ///< likewise, but frames before tell well enough where the sample is
  StaleFrame,
  NoFrame,  ///< time passed without a frame
  Jump,
  NotSent,        ///< what was computed before could not leave in time, or still waits
  ReferenceDone,  ///< the estimator has its new references
  RangeExceeded,
  StageNotFollowing,
  StageFollows,
  StageError,  ///< what the stage's driver reports: error, limit, or nothing any more
  StageLimit,
  StageSilent,
  CalibrationOver,
  InternalFault,
};

/// The defaults that users get are those of the option table, but for what is no option.
struct LockSettings {
  std::int64_t hold_timeout_ns;       ///< holding -> lost
  std::int64_t reference_timeout_ns;  ///< referencing -> idle
  int bad_frames_to_hold;             ///< this many bad frames in a row: locked -> holding
  /// This many good frames in a row: holding -> locked. One alone may be good by chance.
  int good_frames_to_resume = 5;
};

struct Lock {
  LockState state = LockState::Idle;
  LockReason reason = LockReason::None;  ///< of the last change; holding: what holds it now
  std::int64_t since_ns = 0;             ///< of the last change of the state
  int bad_frames = 0;                    ///< in a row
  int good_frames = 0;                   ///< in a row
  /// Lost: what held it in the end; after a reference that timed out, what was wrong with its last
  /// frames; else None.
  LockReason held_for = LockReason::None;
  LockReason at_first = LockReason::None;  ///< holding, lost: what it was held for at first
  LockReason last_bad = LockReason::None;  ///< of the newest bad frame since `since_ns`
  int alike = 0;                           ///< so many of the newest bad frames were of that reason
};

/// What held it before that which does now, or did in the end; None where nothing else did.
constexpr LockReason held_before(const Lock& lock) noexcept {
  const LockReason told = lock.state == LockState::Holding ? lock.reason : lock.held_for;
  return lock.at_first == told ? LockReason::None : lock.at_first;
}

/// The lock after `event` at `now_ns`. A change shows as a new `state` (or `since_ns`), of what
/// holds it as a new `reason`.
Lock next(const Lock& lock, LockEvent event, std::int64_t now_ns,
          const LockSettings& settings) noexcept;

/// True when a correction computed from this frame may be sent: Locked, and this frame was good.
constexpr bool may_correct(const Lock& lock) noexcept {
  return lock.state == LockState::Locked && lock.bad_frames == 0;
}
/// Held at first because the stage does not follow: after a good frame it may be tried whether it
/// does.
constexpr bool may_probe(const Lock& lock) noexcept {
  return lock.state == LockState::Holding && lock.at_first == LockReason::StageNotFollowing &&
         lock.bad_frames == 0;
}

/// While the stage is measured it is moved as the measurement asks.
constexpr bool may_excite(const Lock& lock) noexcept {
  return lock.state == LockState::Calibrating;
}

const char* name_of(LockState state) noexcept;
const char* name_of(LockReason reason) noexcept;

}  // namespace driftd::control
