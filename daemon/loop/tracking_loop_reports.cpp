// SPDX-License-Identifier: MIT
// The part of the tracking loop that tells others about a frame: its report, the markers and the
// row of its record. The loop's thread runs it, as all of tracking_loop.hpp.
#include <algorithm>
#include <cmath>

#include "daemon/loop/frame_rows.hpp"
#include "daemon/loop/tracking_loop.hpp"

namespace driftd::daemon {
namespace {

constexpr double kRmsTimeConstantNs = 5e9;  // "the last seconds" of status.drift.rms

}  // namespace

void TrackingLoop::account(const control::DriftEstimate& drift) noexcept {
  const double period_ns = supervisor_.period().ns();
  report_.drift = drift;
  report_.measures_z = settings_.curve != nullptr || ports_.reflection != nullptr;
  report_.axial = result_.axial;
  // The controller has the last lock's until the next one engages.
  report_.total_nm = session_.engaged_id() == session_.id() ? supervisor_.controller().total_nm()
                                                            : control::Vec2{};
  report_.travelled_nm = supervisor_.controller().travelled_nm();
  report_.carried_nm = supervisor_.controller().carried_nm();
  report_.frame_rate_hz = period_ns > 0 ? 1e9 / period_ns : 0;
  if (!drift.valid) return;
  const double share = std::min(1.0, period_ns / kRmsTimeConstantNs);
  // Where moves have the sample by intention is none.
  const control::Vec2 moved_nm = drift.frames_averaged > 1
                                     ? supervisor_.mean_moved_nm(drift.frames_averaged)
                                     : supervisor_.moved_nm();
  const double x_nm = drift.drift_nm.x - moved_nm.x, y_nm = drift.drift_nm.y - moved_nm.y;
  mean_square_x_nm2_ += share * (x_nm * x_nm - mean_square_x_nm2_);
  mean_square_y_nm2_ += share * (y_nm * y_nm - mean_square_y_nm2_);
  report_.rms_x_nm = std::sqrt(mean_square_x_nm2_);
  report_.rms_y_nm = std::sqrt(mean_square_y_nm2_);
}

/// What one frame adds to what is known of the lock and of each marker; it changes how much the
/// markers count in the next frame.
void TrackingLoop::learn_of_frame() noexcept {
  const double interval_s =
      learnt_ns_ > 0 ? 1e-9 * static_cast<double>(result_.arrival_ns - learnt_ns_) : 0;
  learnt_ns_ = result_.arrival_ns;
  const control::DriftEstimate& drift = result_.drift;
  using control::LockState;
  const LockState state = result_.state;
  const bool locked = state == LockState::Locked && !supervisor_.is_acquainting();
  if (has_new_reference_ || state == LockState::Idle || state == LockState::Referencing)
    residual_.new_reference();
  else if (!locked || supervisor_.moving())
    residual_.not_locked();
  else if (drift.valid)
    residual_.measured(drift, supervisor_.moved_nm(), interval_s, 1e-9 * supervisor_.period().ns());
  report_.residual = residual_.state();
  if (!set_) return;
  set_->trust.after_frame(set_->estimator, drift, observations_,
                          {.interval_s = interval_s,
                           .locked = locked,
                           .period_s = set_->roles_stay ? 0 : settings_.rotate_witness_s});
}

/// What the stage says of its place against what the stage model has it be.
void TrackingLoop::compare_place() noexcept {
  ports_.stage_place.refresh();
  const StageReadback& place = ports_.stage_place.reading();
  if (place.time_ns == place_ns_) return;
  place_ns_ = place.time_ns;
  const bool locked = supervisor_.lock().state == control::LockState::Locked;
  if (place.time_ns == 0 || !locked || place.lock_id != session_.engaged_id()) {
    stage_off_.forget();
  } else {
    const control::Vec2 modelled_nm = supervisor_.controller().stage_at(place.time_ns);
    stage_off_.add({place.total_nm.x - modelled_nm.x, place.total_nm.y - modelled_nm.y});
  }
  report_.stage_off_nm = stage_off_.rms_nm();
}

void TrackingLoop::report_move() noexcept {
  const control::SetPoint& set_point = supervisor_.set_point();
  report_.move = {.id = set_point.id(),
                  .phase = set_point.phase(),
                  .end = supervisor_.move_end(),
                  .moving = supervisor_.moving(),
                  .set_nm = set_point.place_nm(),
                  .goal_nm = set_point.goal_nm(),
                  .stage_nm = supervisor_.controller().move_nm(),
                  .place = set_point.index(),
                  .places = set_point.count(),
                  .repeats_left = set_point.repeats_left()};
}

void TrackingLoop::report(std::int64_t now_ns) noexcept {
  session_.end_calibration_if_over();
  const CalibrationRun* calibration = session_.calibration();
  report_.calibration = calibration ? calibration->phase() : CalibrationPhase::Over;
  report_.calibration_progress = calibration ? calibration->progress() : 0;
  report_.turns++;
  report_.time_ns = now_ns;
  report_.lock = supervisor_.lock();
  report_move();
  if (report_.lock.state != control::LockState::Locked) gate_.not_locked(now_ns);
  report_.gate = gate_.state();
  if (report_.gate.in_lock != told_in_lock_) {
    told_in_lock_ = report_.gate.in_lock;
    source_.set_in_lock(told_in_lock_);
  }
  report_.law = supervisor_.law().state();
  report_.forecast = observer_.forecast();
  for (std::size_t i = 0; i < control::kAxes; ++i)
    report_.motion[i] = supervisor_.law().observer().motion(i);
  report_.stage = supervisor_.stage_looks();
  report_.acquaintance = supervisor_.acquaintance();
  report_.acquainting = supervisor_.is_acquainting();
  report_.stage_knowledge = supervisor_.stage_knowledge();
  report_.stage_findings = supervisor_.stage_findings();
  report_.jumped_nm = supervisor_.jumped_nm();
  report_.reference_left = session_.reference_left();
  report_.clock_trust = camera_clock_.trust();
  report_.clock_steps = camera_clock_.steps();
  report_.clock_jumps = camera_clock_.jumps();
  report_.clock_slow = camera_clock_.slow();
  report_.lock_id = session_.id();
  report_.resumed = session_.is_resumed();
  report_.fitter = fitter().description();
  report_.fitter_error = fitter().error();
  ports_.report.writing() = report_;
  ports_.report.publish();
}

void TrackingLoop::report_markers() noexcept {
  MarkersReport& out = ports_.markers.writing();
  out.frame_id = result_.frame_id;
  out.arrival_ns = result_.arrival_ns;
  out.commands_taken = report_.commands_taken;
  out.measures_z = settings_.curve != nullptr;
  out.count = set_ ? set_->estimator.markers().size() : 0;
  for (std::size_t i = 0; i < out.count; ++i) {
    out.entries[i] = {set_->estimator.markers()[i], observations_[i],
                      set_->estimator.results()[i], last_origins_[i],
                      set_->estimator.reference(i), set_->trust.standing(i),
                      set_->axial.results()[i]};
    set_->axial.add_reference(i, out.entries[i].reference);
  }
  ports_.markers.publish();
}

/// What has no room is counted: the disk stands still for seconds.
void TrackingLoop::record_frame() noexcept {
  if (has_new_reference_) ++references_;
  RecordFeed* feed = ports_.record.get();
  if (feed == nullptr || !feed->wanted.load(std::memory_order_relaxed)) return;
  const std::size_t count = set_ ? set_->estimator.markers().size() : 0;
  if (feed->frames.full() || feed->localizations.room() < count) {
    feed->not_recorded.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    feed->localizations.push(localization_row(
        result_.frame_id, set_->estimator.markers()[i], observations_[i],
        set_->estimator.results()[i], set_->axial.results()[i], settings_.curve != nullptr));
  }
  feed->frames.push({.row = frame_row(result_, taken_ns_, references_),
                     .handed_ns = result_.handed_ns,
                     .localizations = static_cast<std::uint16_t>(count)});
}

void TrackingLoop::record_stale(const camera::Frame& frame, const Timing& timing) noexcept {
  RecordFeed* feed = ports_.record.get();
  if (feed == nullptr || !feed->wanted.load(std::memory_order_relaxed)) return;
  RecordedFrame stale;
  stale.row.frame_id = frame.id;
  stale.row.camera_time_ns = frame.camera_time_ns;
  stale.row.arrival_ns = frame.arrival_ns;
  stale.row.taken_ns = timing.taken_ns;
  stale.row.reference = references_;
  stale.row.lock_id = static_cast<std::uint32_t>(session_.id());
  stale.row.state = static_cast<std::uint8_t>(supervisor_.lock().state);
  stale.row.stale = true;
  stale.row.in_lock = gate_.state().in_lock;
  if (!feed->frames.push(stale)) feed->not_recorded.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace driftd::daemon
