// SPDX-License-Identifier: MIT
#include "daemon/loop/tracking_loop.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/monotonic.hpp"
#include "control/axial/axial_drift.hpp"
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
      xy_reference_(set_),
      z_reference_(set_, ports.reflection ? &reflection_ : nullptr),
      xy_(AxisGroup::Lateral, settings.supervisor, settings.gate, settings.frame_period_ns,
          ways(AxisGroup::Lateral)) {
  if (measures_z() && !lossless)  // a recording cannot be held
    z_.emplace(AxisGroup::Axial, settings.axial_supervisor, settings.axial_gate,
               settings.frame_period_ns, ways(AxisGroup::Axial));
}

HeldGroup::Ways TrackingLoop::ways(AxisGroup group) noexcept {
  GroupReference& reference = group == AxisGroup::Axial
                                  ? static_cast<GroupReference&>(z_reference_)
                                  : static_cast<GroupReference&>(xy_reference_);
  return {reference, set_, ports_, publisher_.outlet(group), report_.of(group)};
}

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
    case LoopCommand::Kind::Markers:
      std::swap(set_, command.markers);
      ++marker_sets_;
      if (!z_ || z_->is_idle()) reflection_.forget();
      ++references_;
      each([](HeldGroup& group) { group.forget_drift(); });
      report_.markers_gone_since_ns = 0;
      forget_fits();
      if (command.markers) ports_.retired_sets.push(std::move(command.markers));
      break;
    case LoopCommand::Kind::MoveRois:
      move_rois(command.displacement_px);
      break;
    case LoopCommand::Kind::Settings:
      change_z(*command.settings);
      std::swap(settings_, *command.settings);  // the old curve is not freed here
      xy_.change_settings(settings_.supervisor, settings_.gate);
      if (z_) z_->change_settings(settings_.axial_supervisor, settings_.axial_gate);
      ports_.retired_settings.push(std::move(command.settings));
      break;
    case LoopCommand::Kind::SpotZero:
      if (z_ && z_->is_idle()) reflection_.set_zero(command.spot_zero);
      break;
    default:
      if (command.kind == LoopCommand::Kind::Lock)
        see_lock_order(command);
      else if (command.kind == LoopCommand::Kind::Unlock && command.group == AxisGroup::Axial)
        leaves_z_ = leaves_z_ || command.leaves_z.value_or(false);
      if (command.group == AxisGroup::Lateral)
        xy_.obey(command);
      else if (z_)
        z_->obey(command);
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
  each([](HeldGroup& group) { group.begin_reference_anew(); });
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
    each([&](HeldGroup& group) { group.without_frame(last_arrival_ns_, now_ns, away); });
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
  report_.frame_ns = frame.arrival_ns;
  last_arrival_ns_ = frame.arrival_ns;
  each([&](HeldGroup& group) { group.saw_frame(frame.id, frame.arrival_ns); });
  const Timing timing = time(frame);
  taken_ns_ = timing.taken_ns;
  if (lossless_) wait_for_markers(frame);
  if (!lossless_ && ports_.clock() > timing.expires_ns) {
    report_.stale++;
    Facts facts(timing.taken_ns);
    facts.xy.stale = facts.z.stale = true;
    FrameResult nothing;
    supervise(facts, nothing);
    record_stale(frame, timing, nothing);
    report(ports_.clock());
    return;
  }
  track(frame, timing);
}

/// One frame that may be used, from its pixels to the result handed over.
void TrackingLoop::track(const camera::Frame& frame, const Timing& timing) noexcept {
  FrameResult& result = result_;
  result = {};
  result.frame_id = frame.id;
  result.camera_time_ns = frame.camera_time_ns;
  result.arrival_ns = frame.arrival_ns;
  result.expires_ns = timing.expires_ns;
  result.measures_z = measures_z();
  Facts facts(timing.taken_ns);
  std::int64_t measured_ns = 0;
  if (z_) z_reference_.keep(!z_->is_idle());
  const bool took_z = z_reference_.left() > 0;
  const std::uint32_t z_zeros = z_reference_.zeros();
  if (set_) {
    measure(frame);
    measured_ns = ports_.clock();
    estimate(frame, result, facts.xy);
  }
  if (ports_.reflection) {
    spot_ = ports_.reflection->read(frame);
    if (settings_.reflection.nm_per_px != 0)
      result.axial =
          reflection_.update(settings_.reflection, spot_, set_ ? &set_->estimator : nullptr);
    else
      result.axial.reason = control::AxialReason::NotCalibrated;
  }
  z_drift_ = control::as_drift(result.axial);
  if (z_ && z_reference_.is_possible()) {
    facts.z.drift = &z_drift_;
    const bool by_others = z_->is_idle() && z_reference_.zeros() != z_zeros;
    const bool completed = by_others || (took_z && z_reference_.left() == 0);
    facts.z.new_reference = z_->sees_new_reference(completed, z_drift_);
  }
  show_sweep(timing, result);
  supervise(facts, result);
  if (set_) ports_.control.record(ports_.clock() - measured_ns);
  hand_over(result);
  unfinished_ = true;
  if (lossless_) finish();
}

/// Does what the next frame needs and what others ask for, while the correction of the frame handed
/// over last is on its way.
void TrackingLoop::finish() noexcept {
  unfinished_ = false;
  if (set_) follow_rois(result_, xy_.has_new_reference());
  each([this](HeldGroup& group) {
    group.prepare();
    if (!lossless_) group.teach_observer(taken_ns_);  // of a recording nothing: no stage answers
    group.compare_place();
  });
  learn_of_frame();
  report_.tracked_ns = result_.arrival_ns;
  account();
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
  } else if (settings_.z_by_widths) {
    result.axial.reason = control::AxialReason::NotCalibrated;
  }
  facts.drift = &result.drift;
  facts.new_reference =
      xy_.sees_new_reference(was_referencing && !estimator.referencing(), result.drift);
  report_.fitted++;
  if (result.drift.valid) {
    report_.valid++;
    report_.markers_gone_since_ns = 0;
  } else if (report_.markers_gone_since_ns == 0) {
    report_.markers_gone_since_ns = frame.arrival_ns;
  }
}

void TrackingLoop::follow_rois(const FrameResult& result, bool new_reference) noexcept {
  if (!result.drift.valid || new_reference) return;
  const double inverse_px = 1.0 / settings_.pixel_size_nm;
  const control::Vec2 drift_nm = result.drift.frame_drift_nm;
  set_->tracker.follow(observations_, set_->estimator.results(), set_->estimator.reference_px(),
                       {drift_nm.x * inverse_px, drift_nm.y * inverse_px});
}

/// A calibration of z looks at the fits themselves.
void TrackingLoop::show_sweep(const Timing& timing, const FrameResult& result) noexcept {
  StageRun* sweep = z_ ? z_->session().calibration() : nullptr;
  if (sweep == nullptr) return;
  FrameSight sight;
  sight.taken_ns = timing.taken_ns;
  sight.units = settings_.fit_units;
  if (set_) {
    const int side_px = fitter().roi_px();
    if (settings_.fits_by_likelihood) sight.units.pixels = side_px * side_px;
    sight.marker_set = marker_sets_;
    sight.markers = std::span<const control::MarkerObservation>(observations_)
                        .first(set_->estimator.markers().size());
  }
  const control::LockState xy = xy_.supervisor().lock().state;
  sight.has_lateral = result.drift.valid && xy != control::LockState::Referencing;
  const control::StageModel& stage = xy_.supervisor().controller().stage();
  sight.lateral_nm = control::difference(
      result.drift.frame_drift_nm,
      stage.image_to_stage().invert(xy_.supervisor().controller().stage_at(timing.taken_ns)));
  if (ports_.reflection) sight.spot = &spot_;
  sweep->look(sight);
}

/// Each lock judges the frame for itself.
void TrackingLoop::supervise(Facts& facts, FrameResult& result) noexcept {
  const std::int64_t now_ns = ports_.clock();
  const bool not_sent = !lossless_ && publisher_.is_behind(now_ns);
  const bool unsent = !lossless_ && publisher_.is_sending();
  for (control::FrameFacts* of_lock : {&facts.xy, &facts.z}) {
    of_lock->now_ns = now_ns;
    of_lock->not_sent = not_sent;
    of_lock->unsent = unsent;
  }
  xy_.supervise(facts.xy, result);
  if (z_) z_->supervise(facts.z, result.z);
  result.z_missing = misses_z();
}

/// A lock at start says nothing of z; one of x and y alone leaves z only where that is idle.
void TrackingLoop::see_lock_order(const LoopCommand& command) noexcept {
  if (command.group == AxisGroup::Axial)
    leaves_z_ = false;
  else if (command.leaves_z)
    leaves_z_ = *command.leaves_z && (!z_ || z_->is_idle());
}

/// z is idle beside a lock of x and y though it is to be held, and no command let go of it.
bool TrackingLoop::misses_z() const noexcept {
  const control::LockState xy = xy_.supervisor().lock().state;
  return z_ && settings_.holds_z && !leaves_z_ && z_->is_idle() && !xy_.is_idle() &&
         xy != control::LockState::Calibrating;
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
