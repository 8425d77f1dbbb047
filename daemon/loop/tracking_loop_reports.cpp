// SPDX-License-Identifier: MIT
// The part of the tracking loop that tells others about a frame: its report, the markers and the
// row of its record. The loop's thread runs it, as all of tracking_loop.hpp.
#include "control/law/observer/line_verifier.hpp"
#include "daemon/loop/frame_rows.hpp"
#include "daemon/loop/tracking_loop.hpp"

namespace driftd::daemon {
void TrackingLoop::account() noexcept {
  const double period_ns = xy_.supervisor().period().ns();
  report_.measures_z = measures_z();
  report_.axial = result_.axial;
  if (ports_.reflection) report_.spot_zero = reflection_.zero();
  report_.frame_rate_hz = period_ns > 0 ? 1e9 / period_ns : 0;
  xy_.account(result_.drift);
  if (z_) z_->account(z_drift_);
}

/// What one frame adds to what is known of the lock and of each marker; it changes how much the
/// markers count in the next frame.
void TrackingLoop::learn_of_frame() noexcept {
  const double interval_s =
      learnt_ns_ > 0 ? 1e-9 * static_cast<double>(result_.arrival_ns - learnt_ns_) : 0;
  learnt_ns_ = result_.arrival_ns;
  const control::DriftEstimate& drift = result_.drift;
  const bool locked = xy_.learn(drift, result_, interval_s);
  if (z_) z_->learn(z_drift_, result_.z, interval_s);
  if (!set_) return;
  set_->trust.after_frame(set_->estimator, drift, observations_,
                          {.interval_s = interval_s,
                           .locked = locked,
                           .period_s = set_->roles_stay ? 0 : settings_.rotate_witness_s});
}

void TrackingLoop::report(std::int64_t now_ns) noexcept {
  report_.turns++;
  report_.time_ns = now_ns;
  each([now_ns](HeldGroup& group) { group.report(now_ns); });
  report_.z_missing = misses_z();
  if (report_.all_in_lock() != told_in_lock_) {
    told_in_lock_ = report_.all_in_lock();
    source_.set_in_lock(told_in_lock_);
  }
  bool slower = false;
  each([&slower](const HeldGroup& group) { slower = slower || group.wants_slower_frames(); });
  if (slower != told_slower_) {
    told_slower_ = slower;
    each([slower](HeldGroup& group) { group.tell_slower(slower); });
    source_.set_slowness(slower ? control::kSlowerShare : 0);
  }
  report_.clock_trust = camera_clock_.trust();
  report_.clock_steps = camera_clock_.steps();
  report_.clock_jumps = camera_clock_.jumps();
  report_.clock_slow = camera_clock_.slow();
  report_.roi_px = fitter().roi_px();
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
  if (xy_.has_new_reference()) ++references_;
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

void TrackingLoop::record_stale(const camera::Frame& frame, const Timing& timing,
                                const FrameResult& judged) noexcept {
  RecordFeed* feed = ports_.record.get();
  if (feed == nullptr || !feed->wanted.load(std::memory_order_relaxed)) return;
  RecordedFrame stale;
  stale.row.frame_id = frame.id;
  stale.row.camera_time_ns = frame.camera_time_ns;
  stale.row.arrival_ns = frame.arrival_ns;
  stale.row.taken_ns = timing.taken_ns;
  stale.row.reference = references_;
  stale.row.lock_id = static_cast<std::uint32_t>(judged.lock_id);
  stale.row.state = static_cast<std::uint8_t>(judged.state);
  stale.row.stale = true;
  stale.row.in_lock = judged.all_in_lock();
  stale.row.z_lock_id = static_cast<std::uint32_t>(judged.z.lock_id);
  stale.row.z_state = static_cast<std::uint8_t>(judged.z.state);
  if (!feed->frames.push(stale)) feed->not_recorded.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace driftd::daemon
