// SPDX-License-Identifier: MIT
// The fixed-size values that pass between the tracking loop, the publisher and housekeeping.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "camera/frame.hpp"
#include "control/axial/axial_estimator.hpp"
#include "control/axial/reflection_estimator.hpp"
#include "control/drift/drift_estimator.hpp"
#include "control/drift/marker_trust.hpp"
#include "control/drift/roi_tracker.hpp"
#include "control/law/limits.hpp"
#include "control/law/observer/residual_forecast.hpp"
#include "control/lock/acquisition_gate.hpp"
#include "control/lock/lock_state.hpp"
#include "control/lock/residual_statistics.hpp"
#include "control/lock/set_point.hpp"
#include "control/lock/supervisor.hpp"
#include "control/values/types.hpp"
#include "daemon/loop/axis_group.hpp"
#include "daemon/loop/camera_clock.hpp"
#include "daemon/loop/stage_run.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// What one lock made of a frame. Of z, a vector is {z, 0}.
struct HeldResult {
  control::LockState state = control::LockState::Idle;
  bool in_lock = false;  ///< control::AcquisitionGate
  /// While locked or held: where moves have the sample in this frame, and whether it is on its way.
  control::Vec2 moved_nm = {};
  bool moving = false;
  bool has_correction = false;
  bool coasting = false;  ///< no drift was measured: it follows what frames before have shown
  bool probe = false;     ///< the correction tries how the stage answers, or whether it does
  std::uint64_t lock_id = 0;
  control::Correction correction = {};
  control::CorrectionLimits limits = {};  ///< that the correction keeps
  /// Outlet::broken() as the loop knew it when it computed the correction.
  std::uint64_t chain = 0;
};

/// One fitted frame, loop to publisher. What it inherits is of the lock of x and y.
struct FrameResult : HeldResult {
  std::uint64_t frame_id = 0;
  std::int64_t camera_time_ns = 0;
  std::int64_t arrival_ns = 0;
  std::int64_t handed_ns = 0;   ///< when the loop was done with it
  std::int64_t expires_ns = 0;  ///< a correction may not leave later than this
  control::DriftEstimate drift = {};
  control::AxialEstimate axial = {};
  bool measures_z = false;  ///< else `axial` and `z` say nothing
  HeldResult z = {};        ///< of the lock of z
  bool z_missing = false;   ///< LoopReport::z_missing

  HeldResult& of(AxisGroup group) noexcept { return group == AxisGroup::Axial ? z : *this; }
  const HeldResult& of(AxisGroup group) const noexcept {
    return group == AxisGroup::Axial ? z : *this;
  }
  /// Whether every lock that is engaged, or should be, holds still; false where none is.
  bool all_in_lock() const noexcept {
    if (z.state == control::LockState::Idle) return in_lock && !z_missing;
    return z.in_lock && (in_lock || state == control::LockState::Idle);
  }
};

/// Whether there is a place where the lock is to hold the sample.
inline bool has_set_point(const HeldResult& result) noexcept {
  return result.state == control::LockState::Locked || result.state == control::LockState::Holding;
}

/// Markers, their estimator and their windows: made by housekeeping, used by the loop, and given
/// back to housekeeping for destruction.
struct MarkerSet {
  control::DriftEstimator estimator;
  control::RoiTracker tracker;
  control::MarkerTrust trust;
  control::AxialEstimator axial;
  /// A fitter for ROIs of the markers' side; none: the loop's first fitter.
  std::shared_ptr<fitter::LiveFitter> fitter = nullptr;
  bool roles_stay = false;  ///< somebody chose them: witnesses do not take turns
};

/// What the loop reports of each marker after each frame (latest value).
struct MarkersReport {
  std::uint64_t frame_id = 0;
  std::int64_t arrival_ns = 0;
  std::uint64_t commands_taken = 0;  ///< the loop's, before that frame
  bool measures_z = false;           ///< from widths; else entries say nothing of it
  std::size_t count = 0;
  struct Entry {
    control::Marker marker;
    control::MarkerObservation observation;
    control::MarkerResult result;
    control::RoiOrigin roi;
    control::MarkerReference reference;
    control::MarkerStanding standing;
    control::AxialResult axial;
  };
  std::array<Entry, control::kMaxMarkers> entries;
};

/// How many frames have to agree on something before it is acted on or told.
constexpr double kFramesToSettle = 2;

/// The lock's set-point and its path. While there is no lock, `stage_nm` is still of the last one.
struct MoveReport {
  std::uint64_t id = 0;  ///< of the path begun last
  control::SetPointPhase phase = control::SetPointPhase::Resting;
  control::MoveEnd end = control::MoveEnd::None;  ///< of that path, once it rests
  bool moving = false;                            ///< the sample has not arrived
  control::Vec2 set_nm, goal_nm;                  ///< where it is, and where the path ends
  control::Vec2 stage_nm;                         ///< the part of `total_nm` for it
  std::size_t place = 0, places = 0;              ///< the path's place that it goes to, of so many
  std::uint32_t repeats_left = 0;
};

/// What the loop reports of one of its locks. Of z, a vector is {z, 0}.
struct LockReport {
  control::Lock lock;
  control::GateState gate;
  control::LawState law;
  std::array<control::AxisMotion, control::kAxes> motion;  ///< as the observer sees it
  /// How still this lock will be, by the observer's thread; nothing: not known yet.
  std::array<std::optional<control::ResidualForecast>, control::kAxes> forecast;
  std::uint64_t lock_id = 0;
  bool resumed = false;               ///< that lock goes back to references of before
  control::DriftEstimate drift;       ///< of the newest frame
  double rms_x_nm = 0, rms_y_nm = 0;  ///< of the last seconds
  control::ResidualState residual;    ///< while locked, since the reference
  control::Vec2 total_nm;
  control::Vec2 travelled_nm, carried_nm;  ///< the controller's, as is `total_nm`
  MoveReport move;
  std::uint8_t limited = 0;
  std::uint64_t corrections = 0;  ///< computed and handed over
  control::StageLooks stage = control::StageLooks::Following;
  control::StageAcquaintance acquaintance = control::StageAcquaintance::Told;
  bool acquainting = false;  ///< locked, and no law acts yet
  /// What was found out of the stage, and how often that has changed.
  std::optional<control::StageKnowledge> stage_knowledge;
  std::uint32_t stage_findings = 0;
  control::Vec2 jumped_nm;  ///< of the last frame that was an implausible jump
  int reference_left = 0;   ///< referencing: good frames until there is a reference
  CalibrationPhase calibration = CalibrationPhase::Over;
  double calibration_progress = 0;
  /// How far the place that the stage tells is from that of the stage model, nm; rms of the last
  /// seconds; not a number: the stage tells none.
  double stage_off_nm = std::numeric_limits<double>::quiet_NaN();

  bool is_idle() const noexcept { return lock.state == control::LockState::Idle; }
  /// There is a place where it holds the sample, or will again.
  bool holds() const noexcept {
    return lock.state == control::LockState::Locked || lock.state == control::LockState::Holding;
  }
};

/// What the loop reports of itself after each frame and time-out (latest value). What it inherits
/// is of the lock of x and y.
struct LoopReport : LockReport {
  std::uint64_t turns = 0;  ///< heartbeat: grows with every frame and every time-out
  std::int64_t time_ns = 0;
  std::uint64_t commands_taken = 0;  ///< since the start: all here is from after them
  std::int64_t frame_ns = 0;         ///< arrival of the newest frame; 0: none yet
  std::int64_t tracked_ns = 0;  ///< of the newest that was young enough to be used; 0: none yet
  double frame_rate_hz = 0;     ///< 0: not known yet
  std::uint64_t fitted = 0;     ///< frames that were fitted
  std::uint64_t valid = 0;      ///< of these, with enough healthy markers
  std::uint64_t stale = 0;      ///< frames skipped for their age
  std::uint64_t queue_dropped = 0;
  /// When the first of the present row of frames without a drift arrived; 0: the last frame had
  /// one.
  std::int64_t markers_gone_since_ns = 0;
  ClockTrust clock_trust = ClockTrust::Checking;  ///< whether frames' ages are known
  std::uint64_t clock_steps = 0, clock_jumps = 0;
  double clock_slow = 0;         ///< proven so, by so much of real time; 0: not
  bool measures_z = false;       ///< else `axial` and `z` say nothing
  control::AxialEstimate axial;  ///< of the newest frame, as `drift` is
  LockReport z;                  ///< of the lock of z
  bool z_missing = false;        ///< z is to be held beside x and y, and is not: it is idle
  std::optional<control::SpotZero> spot_zero;  ///< of that `axial`; none: not of a reflected spot
  bool ended = false;                          ///< the recording is over
  int roi_px = 0;                              ///< side of the markers' ROIs
  const char* fitter = "";                     ///< what fits now; the fitter's own text
  const char* fitter_error = nullptr;          ///< why it is no longer the one chosen at start

  LockReport& of(AxisGroup group) noexcept { return group == AxisGroup::Axial ? z : *this; }
  const LockReport& of(AxisGroup group) const noexcept {
    return group == AxisGroup::Axial ? z : *this;
  }
  /// Neither lock is engaged, lost or in fault.
  bool all_idle() const noexcept { return is_idle() && z.is_idle(); }
  /// The name of a lock's state in which the markers' references are needed; null where both are
  /// `idle` or `lost`.
  const char* blocking_state() const noexcept {
    for (const LockReport* held : {static_cast<const LockReport*>(this), &z})
      if (!held->is_idle() && held->lock.state != control::LockState::Lost)
        return control::name_of(held->lock.state);
    return nullptr;
  }
  /// FrameResult::all_in_lock()
  bool all_in_lock() const noexcept {
    return z.is_idle() ? gate.in_lock && !z_missing : z.gate.in_lock && (gate.in_lock || is_idle());
  }
  /// The longer of `at_least_ns` and so many times the time between two frames, where that is
  /// known.
  std::int64_t timeout_ns(std::int64_t at_least_ns, double frames) const noexcept {
    if (!(frame_rate_hz > 0)) return at_least_ns;
    return std::max(at_least_ns, static_cast<std::int64_t>(frames * 1e9 / frame_rate_hz));
  }
  /// Whether what a frame showed that arrived then (0: none did) still holds at `now_ns`.
  bool is_current(std::int64_t arrival_ns, std::int64_t now_ns) const noexcept {
    constexpr std::int64_t kCurrentNs = 500'000'000;
    constexpr double kCurrentFrames = 3;
    return arrival_ns != 0 && now_ns - arrival_ns <= timeout_ns(kCurrentNs, kCurrentFrames);
  }
  bool has_frames() const noexcept { return is_current(frame_ns, time_ns); }
  /// Whether the group's `drift` is where the sample is now.
  bool sees_drift(AxisGroup group = AxisGroup::Lateral) const noexcept {
    return of(group).drift.valid && is_current(tracked_ns, time_ns);
  }
};

/// A change of a lock's state or, while it holds, of what holds it; loop to housekeeping.
struct LockChange {
  AxisGroup group = AxisGroup::Lateral;
  std::int64_t time_ns = 0;  ///< of the change of the state
  std::uint64_t frame_id = 0;
  control::LockState previous = control::LockState::Idle;
  control::LockState state = control::LockState::Idle;
  control::LockReason reason = control::LockReason::None;
  control::StageLooks stage = control::StageLooks::Following;
  control::Vec2 jumped_nm = {};  ///< an implausible jump, from the last plausible place
  control::LockReason held_for = control::LockReason::None;    ///< Lock::held_for
  control::LockReason held_first = control::LockReason::None;  ///< control::held_before()
};

/// Where the stage says that it is, housekeeping to loop.
struct StageReadback {
  std::int64_t time_ns = 0;  ///< when it was there; 0: not known
  std::uint64_t lock_id = 0;
  control::Vec2 total_nm;  ///< against its zero of this lock; of z {z, 0}
};

/// The settings that the loop can take over between two frames; loop_settings() makes them.
struct LoopSettings {
  control::SupervisorSettings supervisor;
  control::GateSettings gate;
  control::SupervisorSettings axial_supervisor;  ///< of z: with a curve or a reflection alone
  control::GateSettings axial_gate;              ///< likewise
  double rotate_witness_s;                       ///< 0: witnesses stay witnesses
  std::int64_t frame_period_ns;                  ///< as configured; 0: to be measured
  std::int64_t max_frame_age_ns;
  double pixel_size_nm;
  std::int64_t exposure_ns;  ///< the frame was taken in the middle of it ...
  std::int64_t readout_ns;   ///< ... and popped this long after its end
  /// That z is read by, from widths; none: it is not.
  std::shared_ptr<const control::BrightnessCurves> curve;  ///< none: not calibrated
  bool holds_z = false;                    ///< beside x and y, but where a command says otherwise
  bool z_by_widths = false;                ///< z is to be read from the markers' widths
  bool fits_by_likelihood = false;         ///< their chi-square is a deviance
  control::FitUnits fit_units;             ///< of the fits that it reads, but for their pixels
  control::ReflectionSettings reflection;  ///< with LoopPorts::reflection alone
};

/// A lock goes back to the references that the markers have, instead of taking new ones.
struct LockResumption {
  control::Vec2 carried_nm;   ///< Controller::reset()
  control::Vec2 drift_nm;     ///< as it was when that was decided ...
  double largest_move_nm;     ///< ... and how much it may have changed by when the lock engages
  control::Vec2 set_nm = {};  ///< the set-point that it goes back to
};

/// Housekeeping to loop.
struct LoopCommand {
  enum class Kind : std::uint8_t {
    None,
    Lock,
    Unlock,
    Reset,
    Calibrate,
    StopCalibration,
    Markers,
    MoveRois,
    Settings,
    Travelled,
    KnowStage,
    ForgetStage,  ///< what was found of it; passed over while a lock depends on it
    Move,
    StopMove,
    SpotZero  ///< passed over while z is engaged
  };
  Kind kind = Kind::None;
  /// Whose lock it is for; of Markers, MoveRois, Settings and SpotZero neither's.
  AxisGroup group = AxisGroup::Lateral;
  std::uint64_t lock_id = 0;          ///< Lock, Calibrate
  double stage_waiting_us = 0;        ///< Lock: Controller::set_waiting_us()
  std::optional<bool> leaves_z = {};  ///< Lock of x and y, Unlock of z: whatever holds_z says
  std::optional<LockResumption> resumption = {};  ///< Lock
  control::Vec2 travelled_nm = {};  ///< Travelled: Controller::set_travelled(); before any lock
  control::StageKnowledge knowledge = {};        ///< KnowStage: before any lock
  std::unique_ptr<MarkerSet> markers = nullptr;  ///< Markers
  control::Vec2 displacement_px = {};            ///< MoveRois: the markers' from their references
  control::SpotZero spot_zero = {};              ///< SpotZero
  std::unique_ptr<LoopSettings> settings = nullptr;   ///< Settings
  std::unique_ptr<StageRun> calibration = nullptr;    ///< Calibrate
  std::unique_ptr<control::MovePath> move = nullptr;  ///< Move
};

}  // namespace driftd::daemon
