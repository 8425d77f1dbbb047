// SPDX-License-Identifier: MIT
#include "daemon/tracking_loop.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "daemon/clock.hpp"
#include "daemon/publisher.hpp"

namespace driftd::daemon {
namespace {

constexpr auto kPopTimeout =
    std::chrono::milliseconds(5);           // how soon commands are seen without frames
constexpr double kRmsTimeConstantNs = 5e9;  // "the last seconds" of status.drift.rms

void nap() noexcept {
  constexpr timespec kMillisecond{0, 1'000'000};
  nanosleep(&kMillisecond, nullptr);
}

bool is_finite(control::Vec2 v) noexcept {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

}  // namespace

TrackingLoop::TrackingLoop(camera::FrameSource& source, fitter::LiveFitter& fitter,
                           Publisher& publisher, LoopPorts& ports, const LoopSettings& settings,
                           bool lossless)
    : source_(source),
      fitter_(fitter),
      publisher_(publisher),
      ports_(ports),
      settings_(settings),
      lossless_(lossless),
      controller_(settings.controller),
      starts_(fitter.capacity()),
      observations_(fitter.capacity()),
      last_fits_(fitter.capacity()),
      last_origins_(fitter.capacity()) {}

void TrackingLoop::run() noexcept {
  last_arrival_ns_ = monotonic_ns();
  while (!ports_.stop.load(std::memory_order_relaxed)) {
    camera::Frame frame;
    const camera::PopStatus status = source_.pop(kPopTimeout, frame);
    take_commands();
    if (status == camera::PopStatus::Frame) {
      handle(frame);
      ports_.frame_copy.offer(frame);
    } else {
      without_frame(status);
      if (report_.ended) return;
    }
  }
}

void TrackingLoop::take_commands() noexcept {
  LoopCommand command;
  while (ports_.commands.pop(command)) obey(command);
  // The publisher refused a correction (too late): the stage never got it, so neither shall the
  // controller believe that it did.
  const std::uint64_t withheld = publisher_.stale_corrections();
  if (withheld != withheld_seen_) {
    withheld_seen_ = withheld;
    controller_.resync(publisher_.last_sent_total_nm(lock_id_));
    feed(control::LockEvent::StaleFrame, monotonic_ns());
  }
}

void TrackingLoop::obey(LoopCommand& command) noexcept {
  const std::int64_t now_ns = monotonic_ns();
  switch (command.kind) {
    case LoopCommand::Kind::None:
      break;
    case LoopCommand::Kind::Lock:
      lock_id_ = command.lock_id;
      feed(control::LockEvent::CommandLock, now_ns);
      break;
    case LoopCommand::Kind::Unlock:
      feed(control::LockEvent::CommandUnlock, now_ns);
      break;
    case LoopCommand::Kind::Reset:
      feed(control::LockEvent::CommandReset, now_ns);
      break;
    case LoopCommand::Kind::Markers:
      std::swap(set_, command.markers);
      has_last_drift_ = false;
      report_.markers_gone_since_ns = 0;
      forget_fits();
      if (command.markers) ports_.retired_sets.push(std::move(command.markers));
      break;
    case LoopCommand::Kind::MoveRois:
      move_rois(command.displacement_px);
      break;
    case LoopCommand::Kind::Settings:
      settings_ = *command.settings;
      controller_.change_settings(settings_.controller);
      ports_.retired_settings.push(std::move(command.settings));
      break;
  }
}

/// Markers were found again away from their ROIs. Their references stay, so that the drift is how
/// far they really moved; whether that may be corrected is for judge() and the lock to say.
void TrackingLoop::move_rois(control::Vec2 displacement_px) noexcept {
  if (!set_ || report_.markers_gone_since_ns == 0) return;  // they have come back by themselves
  set_->tracker.move_all(set_->estimator.reference_px(), displacement_px);
  forget_fits();
  // A reference half from before and half from after the jump would be of neither place.
  if (lock_.state == control::LockState::Referencing)
    set_->estimator.begin_reference(settings_.reference_frames);
}

/// The next fits start from estimates of their own.
void TrackingLoop::forget_fits() noexcept {
  for (fitter::Localization& fit : last_fits_) fit.status = fitter::FitStatus::BadInput;
}

void TrackingLoop::without_frame(camera::PopStatus status) noexcept {
  const std::int64_t now_ns = monotonic_ns();
  if (status == camera::PopStatus::EndOfStream) {
    report_.ended = true;
  } else if (status == camera::PopStatus::Disconnected ||
             now_ns - last_arrival_ns_ > settings_.no_frame_timeout_ns) {
    if (status == camera::PopStatus::Disconnected) camera_clock_.restart();
    if (set_) set_->estimator.restart_average();
    feed(control::LockEvent::NoFrame, now_ns);
  }
  report(now_ns);
}

void TrackingLoop::handle(const camera::Frame& frame) noexcept {
  frame_id_ = frame.id;
  const std::int64_t delay_ns = camera_clock_.delay_ns(frame.camera_time_ns, frame.arrival_ns);
  const std::int64_t interval_ns = frame.arrival_ns - last_arrival_ns_;
  if (interval_ns < settings_.no_frame_timeout_ns) {  // a gap says nothing of the rate
    const auto interval = static_cast<double>(interval_ns);
    mean_period_ns_ += (mean_period_ns_ == 0 ? 1.0 : 0.01) * (interval - mean_period_ns_);
  }
  last_arrival_ns_ = frame.arrival_ns;
  if (lossless_) wait_for_markers(frame);
  if (is_stale(frame, delay_ns)) {
    report_.stale++;
    feed(control::LockEvent::StaleFrame, frame.arrival_ns);
    report(frame.arrival_ns);
    return;
  }
  FrameRecord record{.frame_id = frame.id,
                     .camera_time_ns = frame.camera_time_ns,
                     .arrival_ns = frame.arrival_ns,
                     .expires_ns = frame.arrival_ns - delay_ns + settings_.max_frame_age_ns};
  if (set_) {
    measure(frame);
    const std::int64_t measured_ns = monotonic_ns();
    const bool was_referencing = set_->estimator.referencing();
    record.drift = set_->estimator.update(std::span<const control::MarkerObservation>(observations_)
                                              .first(set_->estimator.markers().size()));
    if (record.drift.valid)
      report_.markers_gone_since_ns = 0;
    else if (report_.markers_gone_since_ns == 0)
      report_.markers_gone_since_ns = frame.arrival_ns;
    feed(judge(record.drift), measured_ns);
    const bool new_reference = was_referencing && !set_->estimator.referencing();
    if (new_reference) {  // a new zero: nothing measured against the old one is of use
      last_drift_nm_ = {};
      has_last_drift_ = true;
      mean_square_x_nm2_ = mean_square_y_nm2_ = 0;
      feed(control::LockEvent::ReferenceDone, measured_ns);
    } else if (control::may_correct(lock_)) {
      // Of an average, the middle of its frames' times.
      const auto averaged_ns =
          static_cast<std::int64_t>(0.5 * (record.drift.frames_averaged - 1) * mean_period_ns_);
      correct(record, frame.arrival_ns - delay_ns - settings_.readout_ns -
                          settings_.exposure_ns / 2 - averaged_ns);
    }
    const double inverse_px = 1.0 / settings_.pixel_size_nm;
    if (record.drift.valid && !new_reference) {
      set_->tracker.follow(
          observations_, set_->estimator.results(), set_->estimator.reference_px(),
          {record.drift.frame_drift_nm.x * inverse_px, record.drift.frame_drift_nm.y * inverse_px});
    }
    ports_.control.record(monotonic_ns() - measured_ns);
  }
  record.state = lock_.state;
  record.lock_id = lock_id_;
  hand_over(record);
  account(frame, record.drift);
  report_markers(frame);
  report(record.handed_ns);
}

bool TrackingLoop::is_stale(const camera::Frame& frame, std::int64_t delay_ns) noexcept {
  if (lossless_) return false;
  return delay_ns + (monotonic_ns() - frame.arrival_ns) > settings_.max_frame_age_ns;
}

void TrackingLoop::measure(const camera::Frame& frame) noexcept {
  const std::size_t count = std::min(set_->estimator.markers().size(), fitter_.capacity());
  const int side_px = fitter_.roi_px();
  for (std::size_t i = 0; i < count; ++i) {
    const control::RoiOrigin roi = set_->tracker.origin(i);
    auto* slot = fitter_.staging(i);
    observations_[i].inside_frame = camera::cut_roi(frame, roi.x_px - frame.offset_x_px,
                                                    roi.y_px - frame.offset_y_px, side_px, slot);
    if (!observations_[i].inside_frame) {  // constant pixels: the fitter answers BadInput
      std::memset(slot, 0, sizeof *slot * static_cast<std::size_t>(side_px * side_px));
    }
    const fitter::Localization& last = last_fits_[i];
    starts_[i] = {};
    if (settings_.warm_start && fitter::converged(last.status)) {
      starts_[i] = {last.x_px + static_cast<float>(last_origins_[i].x_px - roi.x_px),
                    last.y_px + static_cast<float>(last_origins_[i].y_px - roi.y_px),
                    last.sigma_x_px, last.sigma_y_px};
    }
    last_origins_[i] = roi;
  }
  const std::int64_t cut_ns = monotonic_ns();
  ports_.cut.record(cut_ns - frame.arrival_ns);

  const auto fits = fitter_.fit(std::span<const fitter::Start>(starts_).first(count));
  fitter::Localization not_fitted{};
  not_fitted.status = fitter::FitStatus::BadInput;
  for (std::size_t i = 0; i < count; ++i) {
    const fitter::Localization& fit = i < fits.size() ? fits[i] : not_fitted;
    last_fits_[i] = fit;
    observations_[i] = {.fitted = fitter::converged(fit.status),
                        .inside_frame = observations_[i].inside_frame,
                        .x_px = last_origins_[i].x_px + static_cast<double>(fit.x_px),
                        .y_px = last_origins_[i].y_px + static_cast<double>(fit.y_px),
                        .x_sd_px = fit.x_sd_px,
                        .y_sd_px = fit.y_sd_px,
                        .sigma_px = fit.sigma_x_px,
                        .amplitude_adu = fit.amplitude_adu,
                        .background_adu = fit.background_adu};
  }
  ports_.fit.record(monotonic_ns() - cut_ns);
}

control::LockEvent TrackingLoop::judge(const control::DriftEstimate& drift) noexcept {
  report_.fitted++;
  if (!drift.valid || !is_finite(drift.drift_nm)) return control::LockEvent::FewMarkers;
  report_.valid++;
  const control::Vec2 now_nm = drift.frame_drift_nm;
  const double jump_nm = has_last_drift_ ? std::max(std::abs(now_nm.x - last_drift_nm_.x),
                                                    std::abs(now_nm.y - last_drift_nm_.y))
                                         : 0.0;
  // Only while a correction depends on it is a jump held against the last plausible place; idle,
  // the sample may be moved about freely.
  const bool guarded =
      lock_.state == control::LockState::Locked || lock_.state == control::LockState::Holding;
  if (guarded && jump_nm > settings_.max_jump_nm) return control::LockEvent::Jump;
  last_drift_nm_ = now_nm;
  has_last_drift_ = true;
  return control::LockEvent::GoodFrame;
}

void TrackingLoop::correct(FrameRecord& record, std::int64_t taken_ns) noexcept {
  const std::int64_t now_ns = monotonic_ns();
  if (publisher_.busy()) {  // it could not leave in time: do not make the controller believe it did
    feed(control::LockEvent::StaleFrame, now_ns);
    return;
  }
  record.correction = controller_.update(record.drift.drift_nm, taken_ns, now_ns);
  const control::ControllerSettings& limits = settings_.controller;
  const control::Correction& c = record.correction;
  constexpr double kRounding = 1e-6;  // nm
  const bool sane = is_finite(c.total_nm) && is_finite(c.delta_nm) &&
                    std::abs(c.delta_nm.x) <= limits.step_limit_nm + kRounding &&
                    std::abs(c.delta_nm.y) <= limits.step_limit_nm + kRounding &&
                    std::abs(c.total_nm.x) <= limits.range_limit_nm + kRounding &&
                    std::abs(c.total_nm.y) <= limits.range_limit_nm + kRounding;
  if (!sane) {
    feed(control::LockEvent::InternalFault, now_ns);
    return;
  }
  record.has_correction = true;
  report_.limited = c.limited;
  report_.corrections++;
  if ((c.limited & control::kLimitRange) == 0) {
    at_range_since_ns_ = 0;
  } else if (at_range_since_ns_ == 0) {
    at_range_since_ns_ = now_ns;
  } else if (now_ns - at_range_since_ns_ > settings_.range_timeout_ns) {
    at_range_since_ns_ = 0;
    feed(control::LockEvent::RangeExceeded, now_ns);
  }
}

void TrackingLoop::feed(control::LockEvent event, std::int64_t now_ns) noexcept {
  const control::Lock before = lock_;
  lock_ = control::next(lock_, event, now_ns, settings_.lock);
  if (lock_.state == before.state) return;
  if (lock_.state == control::LockState::Referencing && set_) {
    set_->estimator.begin_reference(settings_.reference_frames);
  }
  if (lock_.state == control::LockState::Locked &&
      before.state == control::LockState::Referencing) {
    controller_.reset();
    at_range_since_ns_ = 0;
  }
  ports_.lock_changes.push(LockChange{now_ns, frame_id_, before.state, lock_.state, lock_.reason});
}

void TrackingLoop::hand_over(FrameRecord& record) noexcept {
  record.handed_ns = monotonic_ns();
  while (!publisher_.hand_over(record)) {
    if (!lossless_ || ports_.stop.load(std::memory_order_relaxed)) {
      report_.queue_dropped++;
      return;
    }
    nap();
  }
}

void TrackingLoop::account(const camera::Frame&, const control::DriftEstimate& drift) noexcept {
  report_.drift = drift;
  report_.total_nm = controller_.total_nm();
  report_.frame_rate_hz = mean_period_ns_ > 0 ? 1e9 / mean_period_ns_ : 0;
  if (!drift.valid) return;
  const double share = std::min(1.0, mean_period_ns_ / kRmsTimeConstantNs);
  mean_square_x_nm2_ += share * (drift.drift_nm.x * drift.drift_nm.x - mean_square_x_nm2_);
  mean_square_y_nm2_ += share * (drift.drift_nm.y * drift.drift_nm.y - mean_square_y_nm2_);
  report_.rms_x_nm = std::sqrt(mean_square_x_nm2_);
  report_.rms_y_nm = std::sqrt(mean_square_y_nm2_);
}

void TrackingLoop::report(std::int64_t now_ns) noexcept {
  report_.turns++;
  report_.time_ns = now_ns;
  report_.lock = lock_;
  report_.lock_id = lock_id_;
  report_.fitter = fitter_.description();
  report_.fitter_error = fitter_.error();
  ports_.report.writing() = report_;
  ports_.report.publish();
}

void TrackingLoop::report_markers(const camera::Frame& frame) noexcept {
  MarkersReport& out = ports_.markers.writing();
  out.frame_id = frame.id;
  out.arrival_ns = frame.arrival_ns;
  out.count = set_ ? set_->estimator.markers().size() : 0;
  for (std::size_t i = 0; i < out.count; ++i) {
    out.entries[i] = {set_->estimator.markers()[i], observations_[i], set_->estimator.results()[i],
                      last_origins_[i], set_->estimator.reference(i)};
  }
  ports_.markers.publish();
}

void TrackingLoop::wait_for_markers(const camera::Frame& frame) noexcept {
  while (!ports_.markers_settled.load(std::memory_order_acquire) &&
         !ports_.stop.load(std::memory_order_relaxed)) {
    ports_.frame_copy.offer(frame);
    nap();
    take_commands();
  }
}

}  // namespace driftd::daemon
