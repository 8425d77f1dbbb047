// SPDX-License-Identifier: MIT
#include "daemon/loop/tracking_loop.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/monotonic.hpp"
#include "control/values/arithmetic.hpp"
#include "daemon/loop/surroundings.hpp"

namespace driftd::daemon {
namespace {

constexpr auto kPopTimeout =
    std::chrono::milliseconds(5);  // how soon commands are seen without frames
/// How long the loop rests for the publisher to send, which may share its core and says when it is
/// done. Not so short that the kernel has to set a timer for it: that costs the publisher 7 us on a
/// virtual machine.
constexpr auto kSendingTime = std::chrono::milliseconds(4);

/// Whether not all pixels are equal: a fit takes those for bad input, too, as what is saturated.
bool differ(const std::uint16_t* pixels, int count) noexcept {
  return std::any_of(pixels, pixels + count, [first = *pixels](auto p) { return p != first; });
}

void nap() noexcept {
  constexpr timespec kMillisecond{0, 1'000'000};
  nanosleep(&kMillisecond, nullptr);
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
      supervisor_(settings.supervisor, control::FramePeriod(settings.frame_period_ns)),
      session_(supervisor_, set_, ports_),
      observer_(supervisor_, ports_.observer),
      gate_(settings.gate) {}

void TrackingLoop::run() noexcept {
  last_arrival_ns_ = ports_.clock();
  while (!ports_.stop.load(std::memory_order_relaxed)) {
    camera::Frame frame;
    const auto timeout = unfinished_ ? kSendingTime : kPopTimeout;
    const camera::PopStatus status = source_.pop(timeout, frame);
    if (unfinished_) {
      finish();
      if (status == camera::PopStatus::Timeout) continue;
    }
    take_commands();
    if (status == camera::PopStatus::Frame) {
      handle(frame);
      copy_out(frame);
      keep_raw(frame);
    } else {
      without_frame(status);
      if (report_.ended) return;
    }
  }
  if (unfinished_) finish();
}

void TrackingLoop::take_commands() noexcept {
  LoopCommand command;
  while (ports_.commands.pop(command)) {
    obey(command);
    report_.commands_taken++;
  }
}

void TrackingLoop::obey(LoopCommand& command) noexcept {
  switch (command.kind) {
    case LoopCommand::Kind::None:
      break;
    case LoopCommand::Kind::Lock:
      session_.lock(command);
      break;
    case LoopCommand::Kind::Unlock:
      session_.order(control::LockEvent::CommandUnlock);
      break;
    case LoopCommand::Kind::Reset:
      session_.order(control::LockEvent::CommandReset);
      break;
    case LoopCommand::Kind::Calibrate:
      session_.calibrate(command);
      break;
    case LoopCommand::Kind::StopCalibration:
      if (session_.calibration()) session_.calibration()->stop(CalibrationEnd::Stopped);
      break;
    case LoopCommand::Kind::Markers:
      std::swap(set_, command.markers);
      reflection_.forget();
      ++references_;
      supervisor_.forget_drift();
      residual_.new_reference();
      report_.markers_gone_since_ns = 0;
      forget_fits();
      if (command.markers) ports_.retired_sets.push(std::move(command.markers));
      break;
    case LoopCommand::Kind::MoveRois:
      move_rois(command.displacement_px);
      break;
    case LoopCommand::Kind::Travelled:
      if (session_.id() == 0) supervisor_.set_travelled(command.travelled_nm);
      break;
    case LoopCommand::Kind::KnowStage:
      if (session_.id() == 0) supervisor_.know_stage(command.knowledge);
      break;
    case LoopCommand::Kind::ForgetStage:
      supervisor_.forget_found_stage();
      break;
    case LoopCommand::Kind::Move:
      supervisor_.begin_move(*command.move);
      ports_.retired_moves.push(std::move(command.move));
      break;
    case LoopCommand::Kind::StopMove:
      supervisor_.stop_move();
      break;
    case LoopCommand::Kind::Settings:
      change_z(*command.settings);
      std::swap(settings_, *command.settings);  // the old curve is not freed here
      supervisor_.change_settings(settings_.supervisor);
      gate_.change_settings(settings_.gate);
      ports_.retired_settings.push(std::move(command.settings));
      break;
  }
}

/// What would be read otherwise by the next settings has a new zero.
void TrackingLoop::change_z(const LoopSettings& next) noexcept {
  if (set_ && settings_.curve != next.curve) set_->axial.change_curve();
  if (settings_.reflection.nm_per_px != next.reflection.nm_per_px ||
      settings_.reflection.angle_rad != next.reflection.angle_rad)
    reflection_.forget();
}

/// Markers were found again away from their ROIs. Their references stay, so that the drift is how
/// far they really moved; whether that may be corrected is for the supervisor to say.
void TrackingLoop::move_rois(control::Vec2 displacement_px) noexcept {
  if (!set_ || report_.markers_gone_since_ns == 0) return;  // they have come back by themselves
  set_->tracker.move_all(set_->estimator.reference_px(), displacement_px);
  forget_fits();
  // A reference half from before and half from after the jump would be of neither place.
  if (supervisor_.lock().state == control::LockState::Referencing) session_.begin_reference();
}

/// The next fits start from estimates of their own.
void TrackingLoop::forget_fits() noexcept {
  for (fitter::Localization& fit : last_fits_) fit.status = fitter::FitStatus::BadInput;
}

void TrackingLoop::without_frame(camera::PopStatus status) noexcept {
  const std::int64_t now_ns = ports_.clock();
  if (status == camera::PopStatus::EndOfStream) {
    report_.ended = true;
  } else {
    const bool away = status == camera::PopStatus::Disconnected;
    if (away) camera_clock_.restart();
    if (supervisor_.without_frame(last_arrival_ns_, now_ns, away)) restart_average();
    session_.tell_change();
    session_.without_frame(now_ns);
    session_.end_calibration_if_over();
  }
  report(now_ns);
}

TrackingLoop::Timing TrackingLoop::time(const camera::Frame& frame) noexcept {
  camera_clock_.set_rate(source_.clock_rate(camera_clock_.wants_rate()));
  const std::int64_t delay_ns =
      camera_clock_.delay_ns(frame.id, frame.camera_time_ns, frame.arrival_ns);
  const std::int64_t due_ns = frame.arrival_ns - delay_ns;
  return {.taken_ns = due_ns - settings_.readout_ns - settings_.exposure_ns / 2,
          .expires_ns = due_ns + settings_.max_frame_age_ns};
}

void TrackingLoop::handle(const camera::Frame& frame) noexcept {
  session_.saw_frame(frame.id);
  report_.frame_ns = frame.arrival_ns;
  last_arrival_ns_ = frame.arrival_ns;
  supervisor_.arrived(frame.arrival_ns);
  const Timing timing = time(frame);
  taken_ns_ = timing.taken_ns;
  if (lossless_) wait_for_markers(frame);
  if (!lossless_ && ports_.clock() > timing.expires_ns) {
    report_.stale++;
    control::FrameFacts facts{.taken_ns = timing.taken_ns, .stale = true};
    FrameResult nothing;
    supervise(facts, nothing);
    record_stale(frame, timing);
    report(ports_.clock());
    return;
  }
  track(frame, timing);
}

/// One frame that may be used, from its pixels to the result handed over.
void TrackingLoop::track(const camera::Frame& frame, const Timing& timing) noexcept {
  FrameResult& result = result_;
  result = {.frame_id = frame.id,
            .camera_time_ns = frame.camera_time_ns,
            .arrival_ns = frame.arrival_ns,
            .expires_ns = timing.expires_ns};
  control::FrameFacts facts{.taken_ns = timing.taken_ns};
  std::int64_t measured_ns = 0;
  if (set_) {
    measure(frame);
    measured_ns = ports_.clock();
    estimate(frame, result, facts);
  }
  if (ports_.reflection)
    result.axial = reflection_.update(settings_.reflection, ports_.reflection->read(frame),
                                      set_ ? &set_->estimator : nullptr);
  supervise(facts, result);
  if (set_) ports_.control.record(ports_.clock() - measured_ns);
  result.state = supervisor_.lock().state;
  result.lock_id = session_.id();
  hand_over(result);
  has_new_reference_ = facts.new_reference;
  unfinished_ = true;
  if (lossless_) finish();
}

/// Does what the next frame needs and what others ask for, while the correction of the frame handed
/// over last is on its way.
void TrackingLoop::finish() noexcept {
  unfinished_ = false;
  if (set_) follow_rois(result_, has_new_reference_);
  supervisor_.prepare();
  if (!lossless_) observer_.give(taken_ns_);  // of a recording nothing: no stage answers
  compare_place();
  learn_of_frame();
  report_.tracked_ns = result_.arrival_ns;
  account(result_.drift);
  record_frame();
  report_markers();
  report(result_.handed_ns);
}

void TrackingLoop::measure(const camera::Frame& frame) noexcept {
  fitter::LiveFitter& fits_markers = fitter();
  const std::size_t markers = set_->estimator.markers().size();
  const std::size_t count = std::min(markers, fits_markers.capacity());
  for (std::size_t i = count; i < markers; ++i) observations_[i] = {};  // whoever was there before
  const int side_px = fits_markers.roi_px();
  for (std::size_t i = 0; i < count; ++i) {
    const control::RoiOrigin roi = set_->tracker.origin(i);
    auto* slot = fits_markers.staging(i);
    observations_[i].inside_frame = camera::cut_roi(frame, roi.x_px - frame.offset_x_px,
                                                    roi.y_px - frame.offset_y_px, side_px, slot);
    if (!observations_[i].inside_frame) {  // constant pixels: the fitter answers BadInput
      std::memset(slot, 0, sizeof *slot * static_cast<std::size_t>(side_px * side_px));
    }
    const fitter::Localization& last = last_fits_[i];
    starts_[i] = {};
    if (fitter::converged(last.status)) {
      starts_[i] = {last.x_px + static_cast<float>(last_origins_[i].x_px - roi.x_px),
                    last.y_px + static_cast<float>(last_origins_[i].y_px - roi.y_px),
                    last.sigma_x_px, last.sigma_y_px};
    }
    last_origins_[i] = roi;
  }
  const std::int64_t cut_ns = ports_.clock();
  ports_.cut.record(cut_ns - frame.arrival_ns);

  const auto fits = fits_markers.fit(std::span<const fitter::Start>(starts_).first(count));
  fitter::Localization not_fitted{};
  not_fitted.status = fitter::FitStatus::BadInput;
  for (std::size_t i = 0; i < count; ++i) {
    const fitter::Localization& fit = i < fits.size() ? fits[i] : not_fitted;
    last_fits_[i] = fit;
    const bool inside = observations_[i].inside_frame;
    observations_[i] = {.fitted = fitter::converged(fit.status),
                        .inside_frame = inside,
                        .x_px = last_origins_[i].x_px + static_cast<double>(fit.x_px),
                        .y_px = last_origins_[i].y_px + static_cast<double>(fit.y_px),
                        .x_sd_px = fit.x_sd_px,
                        .y_sd_px = fit.y_sd_px,
                        .sigma_px = control::mean_width(fit.sigma_x_px, fit.sigma_y_px),
                        .amplitude_adu = fit.amplitude_adu,
                        .background_adu = fit.background_adu,
                        .sigma_x_px = fit.sigma_x_px,
                        .sigma_y_px = fit.sigma_y_px,
                        .sigma_x_sd_px = fit.sigma_x_sd_px,
                        .sigma_y_sd_px = fit.sigma_y_sd_px,
                        .chi_square = fit.chi_square,
                        .saturated = inside && fit.status == fitter::FitStatus::BadInput &&
                                     differ(fits_markers.staging(i), side_px * side_px)};
    if (settings_.curve && inside) {
      observations_[i].surroundings_adu =
          surroundings_adu(frame, last_origins_[i].x_px - frame.offset_x_px,
                           last_origins_[i].y_px - frame.offset_y_px, side_px);
    }
  }
  ports_.fit.record(ports_.clock() - cut_ns);
}

void TrackingLoop::estimate(const camera::Frame& frame, FrameResult& result,
                            control::FrameFacts& facts) noexcept {
  control::DriftEstimator& estimator = set_->estimator;
  const bool was_referencing = estimator.referencing();
  const auto observations =
      std::span<const control::MarkerObservation>(observations_).first(estimator.markers().size());
  result.drift = estimator.update(observations);
  if (settings_.curve) {
    const int side_px = fitter().roi_px();
    control::FitUnits units = settings_.fit_units;
    units.pixels = side_px * side_px;
    result.axial = set_->axial.update(*settings_.curve, units, observations, estimator);
  }
  facts.drift = &result.drift;
  facts.new_reference =
      (was_referencing && !estimator.referencing()) || session_.kept_reference_is_due(result.drift);
  report_.fitted++;
  if (result.drift.valid) {
    report_.valid++;
    report_.markers_gone_since_ns = 0;
  } else if (report_.markers_gone_since_ns == 0) {
    report_.markers_gone_since_ns = frame.arrival_ns;
  }
  if (facts.new_reference) mean_square_x_nm2_ = mean_square_y_nm2_ = 0;  // a new zero
}

void TrackingLoop::restart_average() noexcept {
  if (!set_) return;
  set_->estimator.restart_average();
  set_->axial.restart_average();
}

void TrackingLoop::follow_rois(const FrameResult& result, bool new_reference) noexcept {
  if (!result.drift.valid || new_reference) return;
  const double inverse_px = 1.0 / settings_.pixel_size_nm;
  const control::Vec2 drift_nm = result.drift.frame_drift_nm;
  set_->tracker.follow(observations_, set_->estimator.results(), set_->estimator.reference_px(),
                       {drift_nm.x * inverse_px, drift_nm.y * inverse_px});
}

/// Looks at what the publisher did with the corrections before, then judges this frame.
void TrackingLoop::supervise(control::FrameFacts& facts, FrameResult& result) noexcept {
  facts.now_ns = ports_.clock();
  facts.not_sent = !lossless_ && publisher_.is_behind(facts.now_ns);
  facts.refused = publisher_.refused() != refused_seen_;
  refused_seen_ = publisher_.refused();
  facts.unsent = !lossless_ && publisher_.is_sending();
  const std::uint64_t broken = publisher_.broken();
  // Read after it, this may be newer, never older.
  const Publisher::Sent sent = publisher_.last_sent(session_.engaged_id());
  if (broken != chain_) {
    chain_ = broken;
    session_.take_back(sent.total_nm, sent.handed_ns == late_ns_ ? left_ns_ : sent.handed_ns);
  }
  see_late_send(sent, facts.now_ns);
  observer_.take(facts.now_ns);
  facts.stage = ports_.stage_says.load(std::memory_order_relaxed);
  supervisor_.law().set_driver_hz(ports_.driver_hz.load(std::memory_order_relaxed));
  facts.excitation_nm = session_.excitation_nm(facts.now_ns);
  const control::Decision decision = supervisor_.decide(facts);
  if (decision.restart_average) restart_average();
  if (decision.has_correction) {
    result.has_correction = true;
    result.probe = decision.probe;
    result.coasting = decision.coasting;
    result.correction = decision.correction;
    result.limits = decision.limits;
    result.chain = chain_;
    // Moves that try the stage, a calibration's above all, go as fast as they may.
    if (!decision.probe) report_.limited = decision.correction.limited;
    report_.corrections++;
  }
  // The stage monitor has seen too little during this reference: one more is taken.
  if (facts.new_reference && supervisor_.lock().state == control::LockState::Referencing)
    session_.begin_reference();
  session_.tell_change();
  coasted_frames_ = decision.coasting ? coasted_frames_ + 1 : 0;
  see_residual(facts);
  result.in_lock = gate_.state().in_lock;
  result.moved_nm = supervisor_.moved_nm();
  result.moving = supervisor_.moving();
  session_.saw(facts, decision);
}

/// Corrections that a busy computer held up: from when they left the stage knew of them, and what
/// it did until then is no evidence against it.
void TrackingLoop::see_late_send(const Publisher::Sent& sent, std::int64_t now_ns) noexcept {
  constexpr std::int64_t kLateNs = 500'000;
  const bool is_newest = supervisor_.controller().sent_ns() <= sent.handed_ns;
  if (sent.lock_id == 0 || !is_newest || sent.handed_ns == late_ns_ ||
      sent.left_ns - sent.handed_ns < kLateNs)
    return;
  late_ns_ = sent.handed_ns;
  left_ns_ = std::min(sent.left_ns, now_ns - 1);
  session_.left_at(left_ns_);
}

void TrackingLoop::see_residual(const control::FrameFacts& facts) noexcept {
  const bool blind = coasted_frames_ >= settings_.supervisor.lock.bad_frames_to_hold;
  if (supervisor_.lock().state != control::LockState::Locked || blind)
    gate_.not_locked(facts.now_ns);
  else if (supervisor_.is_acquainting())
    gate_.getting_acquainted(facts.now_ns);
  else if (supervisor_.moving())
    gate_.moving(facts.now_ns);
  else if (facts.drift != nullptr && facts.drift->valid)
    gate_.measured(control::difference(facts.drift->frame_drift_nm, supervisor_.moved_nm()),
                   facts.now_ns);
}

void TrackingLoop::hand_over(FrameResult& result) noexcept {
  result.handed_ns = ports_.clock();
  while (!publisher_.hand_over(result)) {
    if (!lossless_ || ports_.stop.load(std::memory_order_relaxed)) {
      report_.queue_dropped++;
      return;
    }
    nap();
  }
}

/// Copies the frame for whoever asked, once the publisher has sent, and only while no other frame
/// waits.
void TrackingLoop::copy_out(const camera::Frame& frame) noexcept {
  if (!ports_.frame_copy.is_asked()) return;
  const bool waits = unfinished_ && source_.rest(kSendingTime);
  if (unfinished_ && !waits) finish();
  ports_.frame_copy.offer(frame, [this] { return source_.rest({}); });
}

/// Keeps a raw frame after the publisher has sent: the copy takes as long as a fit or more, and the
/// two may share a core.
void TrackingLoop::keep_raw(const camera::Frame& frame) noexcept {
  FrameRing* ring = ports_.raw_frames.get();
  if (ring == nullptr || !ring->wanted.load(std::memory_order_relaxed)) return;
  if (unfinished_) source_.rest(kSendingTime);
  ring->keep(frame, taken_ns_);
}

void TrackingLoop::wait_for_markers(const camera::Frame& frame) noexcept {
  const auto waits = [this] {
    return !ports_.markers_settled.load(std::memory_order_acquire) ||
           ports_.held.load(std::memory_order_acquire);
  };
  while (waits() && !ports_.stop.load(std::memory_order_relaxed)) {
    ports_.frame_copy.offer(frame);
    nap();
    take_commands();
    report(ports_.clock());
  }
  take_commands();  // the markers, handed over just before the recording may go on
}

}  // namespace driftd::daemon
