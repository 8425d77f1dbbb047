// SPDX-License-Identifier: MIT
#include "daemon/setup/compose.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "control/search/turned_constellation.hpp"
#include "daemon/setup/reflection_region.hpp"
#include "fitter/cuda_fitter.hpp"

namespace driftd::daemon {
namespace {

// Settings are made by naming every member: -Wmissing-field-initializers reports a forgotten one.

/// A marker counts as found again within this many expected sigmas of its place: more than the
/// error of a place listed by hand, less than the distance to another spot.
constexpr double kToleranceInSigmas = 1.5;

/// A place may have been saved days ago, with another exposure, lamp and bleaching: brightness
/// hardly counts, and the geometry tells which marker is which.
constexpr double kBrightnessOfAnotherDay = 9;
/// How far a sample that was taken out may lie turned: 3 degrees.
constexpr double kMostTurnRad = 0.0524;

/// At the range limit for so long: holding. A correction that only touches the limit goes on.
constexpr std::int64_t kRangeTimeoutNs = 1'000'000'000;

/// Two joined spots, or rings, fit worse than this: the noise expected has what a lens does to a
/// single spot in it.
constexpr double kMostResidualRatio = 3;

/// How far a marker may leave the middle of its ROI before that follows by whole pixels: noise does
/// not move it, and a quarter of the smallest ROI is left on each side.
constexpr double kRoiHysteresisPx = 1;

/// A narrower spot is a hot pixel. Where spots are said to be about as narrow themselves, less is
/// allowed. @param expected_px  0: not known
double least_sigma_px(double expected_px) {
  constexpr double kLeastPx = 0.6;
  constexpr double kShareOfExpected = 0.8;
  return expected_px > 0 ? std::min(kLeastPx, kShareOfExpected * expected_px) : kLeastPx;
}

std::uint32_t saturation_adu(const config::Config& config, camera::PixelFormat format) {
  if (config.camera.saturation_adu > 0) {
    return static_cast<std::uint32_t>(config.camera.saturation_adu);
  }
  return (std::uint32_t{1} << camera::bits_per_pixel(format)) - 1;
}

std::int64_t to_ns(double value, double unit_ns) {
  return std::llround(value * unit_ns);
}

control::LockSettings lock_settings(const config::Lock& lock) {
  return {.hold_timeout_ns = to_ns(lock.hold_timeout_s, 1e9),
          .reference_timeout_ns = to_ns(lock.reference_timeout_s, 1e9),
          .bad_frames_to_hold = lock.bad_frames_to_hold};
}

control::ControllerSettings controller_settings(const config::Config& config) {
  const auto& m = config.stage.image_to_stage;
  return {.image_to_stage = {m[0][0], m[0][1], m[1][0], m[1][1]},
          .proportional = config.control.proportional,
          .integral = config.control.integral,
          .step_limit_nm = config.control.step_limit_nm,
          .rate_limit_nm_per_s = config.control.rate_limit_nm_per_s,
          .range_limit_nm = config.control.range_limit_nm,
          .travel_limit_nm = config.control.travel_limit_nm,
          .stage_delay_us = config.stage.delay_us,
          .stage_time_constant_us = config.stage.time_constant_us,
          .stage_resonance_hz = config.stage.resonance_hz,
          .stage_damping = config.stage.damping,
          .law = config.control.law,
          .coast_nm = config.control.coast_nm};
}

/// The same law for z, on a stage and within limits of its own.
control::ControllerSettings axial_controller_settings(const config::Config& config) {
  control::ControllerSettings settings = controller_settings(config);
  const config::Axial& axial = config.axial;
  const config::AxialStage& stage = config.axial_stage;
  settings.image_to_stage = {stage.gain, 0, 0, 1};
  settings.step_limit_nm = axial.step_limit_nm;
  settings.rate_limit_nm_per_s = axial.rate_limit_nm_per_s;
  settings.range_limit_nm = axial.range_limit_nm;
  settings.travel_limit_nm = axial.travel_limit_nm;
  settings.stage_delay_us = stage.delay_us;
  settings.stage_time_constant_us = stage.time_constant_us;
  settings.stage_resonance_hz = stage.resonance_hz;
  settings.stage_damping = stage.damping;
  return settings;
}

control::SupervisorSettings supervisor_settings(const config::Config& config,
                                                const camera::SourceInfo& source) {
  control::ControllerSettings controller = controller_settings(config);
  controller.verifies_lines = config.control.verify_lines && source.rate_can_change;
  return {.lock = lock_settings(config.lock),
          .controller = controller,
          .reference_frames = config.lock.reference_frames,
          .rest_moves_to_lock = control::StageMonitor::kMovesToJudge,
          .stall_timeout_ns = to_ns(config.camera.stall_timeout_ms, 1e6),
          .range_timeout_ns = kRangeTimeoutNs,
          .max_jump_nm = config.lock.max_jump_nm,
          .max_drift_nm_per_s = config.lock.max_drift_nm_per_s,
          .acquaintance = {
              .when = is_recording(config) ? control::AcquaintWhen::Never : config.stage.acquaint,
              .exposure_ns = to_ns(source.exposure_us, 1e3)}};
}

control::SupervisorSettings axial_supervisor_settings(const config::Config& config,
                                                      const camera::SourceInfo& source) {
  control::SupervisorSettings settings = supervisor_settings(config, source);
  const bool verifies_lines = settings.controller.verifies_lines;
  settings.controller = axial_controller_settings(config);
  settings.controller.verifies_lines = verifies_lines;
  settings.max_jump_nm = config.axial.max_jump_nm;
  settings.max_drift_nm_per_s = config.axial.max_drift_nm_per_s;
  settings.axes = 1;
  return settings;
}

}  // namespace

bool is_recording(const config::Config& config) {
  return config.camera.source == config::Source::Replay;
}

camera::AravisSettings aravis_settings(const config::Camera& c,
                                       std::function<void()> on_stream_thread_start) {
  return {.id = c.id,
          .format = c.pixel_format,
          .region_x_px = c.region_x_px,
          .region_y_px = c.region_y_px,
          .region_width_px = c.region_width_px,
          .region_height_px = c.region_height_px,
          .exposure_us = c.exposure_us,
          .gain_db = c.gain_db,
          .frame_rate_hz = c.frame_rate_hz,
          .trigger = c.trigger,
          .trigger_line = c.trigger_line,
          .packet_size_bytes = c.packet_size_bytes,
          .socket_buffer_bytes = c.socket_buffer_bytes,
          .resend = c.resend,
          .stall_timeout_ms = c.stall_timeout_ms,
          .heartbeat_timeout_ms = c.heartbeat_timeout_ms,
          .in_lock_line = c.in_lock_line,
          .start_without_camera = c.start_without_camera,
          .on_stream_thread_start = std::move(on_stream_thread_start)};
}

camera::ReplaySettings replay_settings(const config::Replay& r) {
  return {.path = r.path,
          .format = r.format,
          .dataset = r.dataset,
          .series = r.series,
          .channel = r.channel,
          .slice = r.slice,
          .every_page = r.every_page,
          .allow_truncated = r.allow_truncated,
          .width_px = r.width_px,
          .height_px = r.height_px,
          .first_frame = r.first_frame,
          .last_frame = r.last_frame,
          .pace = r.pace,
          .rate_hz = r.rate_hz,
          .on_end = r.on_end};
}

std::unique_ptr<camera::FrameSource> make_source(const config::Config& config,
                                                 std::function<void()> on_stream_thread_start) {
  if (is_recording(config)) return camera::make_replay_source(replay_settings(config.replay));
  return camera::make_aravis_source(
      aravis_settings(config.camera, std::move(on_stream_thread_start)));
}

camera::PixelFormat configured_format(const config::Config& config) {
  return config.camera.pixel_format;
}

std::string image_too_small(const config::Config& config, const camera::SourceInfo& source) {
  const double least_px = config::least_side_px(config);
  if (source.width_px <= 0) return {};
  const config::Reflection& r = config.reflection;
  const auto is_outside = [&](double at_px, int offset_px, int side_px) {
    const int first_px = first_of(at_px, r.roi_px) - offset_px;
    return first_px < 0 || first_px + r.roi_px > side_px;
  };
  if (config.axial.method == control::AxialMethod::Reflection &&
      (is_outside(r.x_px, source.offset_x_px, source.width_px) ||
       is_outside(r.y_px, source.offset_y_px, source.height_px)))
    return "an image of " + std::to_string(source.width_px) + " x " +
           std::to_string(source.height_px) + " px from column " +
           std::to_string(source.offset_x_px) + " and row " + std::to_string(source.offset_y_px) +
           " on does not hold the region of axial.reflection: x_px, y_px and half of roi_px to "
           "each side have to lie inside it";
  if (std::min(source.width_px, source.height_px) >= least_px) return {};
  return "an image of " + std::to_string(source.width_px) + " x " +
         std::to_string(source.height_px) + " px has no room for a marker: it needs " +
         std::to_string(static_cast<int>(std::ceil(least_px))) +
         " px each way, by fitter.roi_px and, with markers.mode auto, markers.border_px on both "
         "sides";
}

config::Config with_range(config::Config config, const camera::SourceInfo& source) {
  if (config.camera.saturation_adu == 0) config.camera.saturation_adu = source.largest_adu;
  return config;
}

FitterWish fitter_wish(const config::Config& config, camera::PixelFormat format) {
  const config::Camera& camera = config.camera;
  const double range_adu = saturation_adu(config, format) - camera.offset_adu;
  config::Estimator estimator = config.fitter.estimator;
  std::string estimator_reason;
  if (estimator == config::Estimator::Auto && config.axial.by_widths()) {
    const bool astigmatic = config.axial.method == control::AxialMethod::Astigmatic;
    estimator = astigmatic ? config::Estimator::Poisson : config::Estimator::LeastSquares;
    estimator_reason = std::string("axial.method is `") + (astigmatic ? "astigmatic`" : "defocus`");
  }
  return {.backend = config.fitter.backend,
          .estimator = estimator,
          .gain_known = camera.gain_e_per_adu > 0,
          .frame_rate_hz = camera.frame_rate_hz,
          .spots = {.sigma_px = config::with_sizes(config).optics.spot_sigma_px,
                    .background_adu = camera.offset_adu + range_adu / 32,
                    .peak_adu = range_adu / 3},
          .estimator_reason = std::move(estimator_reason)};
}

FitterMakers fitter_makers(const config::Config& config, camera::PixelFormat format,
                           fitter::Estimator estimator, std::size_t capacity) {
  const int roi_px = config::with_sizes(config).fitter.roi_px;
  const fitter::FitOptions options = fit_options(config, format, estimator);
  const fitter::CudaLiveOptions cuda = {
      .device = config.cuda.device,
      .mode = config.cuda.mode,
      .deadline = std::chrono::microseconds(config.cuda.deadline_us)};
  return {[=] { return fitter::make_cpu_live_fitter(roi_px, capacity, options); },
          [=] { return fitter::make_cuda_live_fitter(roi_px, capacity, options, cuda); }};
}

fitter::FitOptions fit_options(const config::Config& config, camera::PixelFormat format,
                               fitter::Estimator estimator) {
  fitter::FitOptions options;
  if (config.axial.method == control::AxialMethod::Astigmatic)
    options.model = fitter::Model::EllipticalGaussian;
  options.estimator = estimator;
  options.saturation_adu = static_cast<float>(saturation_adu(config, format));
  options.noise = {static_cast<float>(config.camera.gain_e_per_adu),
                   static_cast<float>(config.camera.read_noise_e),
                   static_cast<float>(config.camera.offset_adu)};
  return options;
}

bool wants_sizes(const config::Config& config) {
  return config.markers.mode == config::MarkerMode::Auto &&
         (config.optics.spot_sigma_px == 0 || config.fitter.roi_px == 0);
}

namespace {

control::LeftOut left_out(const config::Config& config) {
  if (config.axial.method != control::AxialMethod::Reflection) return {};
  const config::Reflection& r = config.reflection;
  return {.x_px = r.x_px, .y_px = r.y_px, .side_px = r.roi_px};
}

}  // namespace

control::DetectionSettings detection_settings(const config::Config& config,
                                              camera::PixelFormat format) {
  return open_detection_settings(config::with_sizes(config), format);
}

control::DetectionSettings open_detection_settings(const config::Config& config,
                                                   camera::PixelFormat format) {
  const config::Markers& m = config.markers;
  return {.roi_px = config.fitter.roi_px,
          .max_count = m.max_count,
          .expected_sigma_px = config.optics.spot_sigma_px,
          .min_snr = m.min_snr,
          .min_sigma_px = least_sigma_px(config.optics.spot_sigma_px),
          .max_sigma_px = m.max_sigma_px,
          .min_distance_px = m.min_distance_px,
          .border_px = m.border_px,
          .saturation_adu = saturation_adu(config, format),
          .max_residual_ratio = kMostResidualRatio,
          .witness_fraction = m.witness_fraction,
          .min_for_witness = m.min_for_witness,
          .left_out = left_out(config)};
}

control::ConstellationSettings constellation_settings(const config::Config& config) {
  return {.tolerance_px = kToleranceInSigmas * config::with_sizes(config).optics.spot_sigma_px,
          .min_markers = config.drift.min_markers,
          .max_width_change = config.drift.max_width_change,
          .max_brightness_change = config.drift.max_brightness_change,
          .field_low_px = {},
          .field_high_px = {},
          .most_turn_rad = 0};
}

control::ConstellationSettings place_settings(const config::Config& config) {
  control::ConstellationSettings settings = constellation_settings(config);
  settings.min_markers = std::max(settings.min_markers, control::kFewestTurnedMarkers);
  settings.max_brightness_change = kBrightnessOfAnotherDay;
  settings.most_turn_rad = kMostTurnRad;
  return settings;
}

LoopSettings loop_settings(const config::Config& config, const camera::SourceInfo& source) {
  const bool paced =
      config.camera.trigger != camera::Trigger::HardwareLine && config.camera.frame_rate_hz > 0;
  return {.supervisor = supervisor_settings(config, source),
          .gate = {.tolerance_nm = config.gate.tolerance_nm, .average_s = config.gate.average_s},
          .axial_supervisor = axial_supervisor_settings(config, source),
          .axial_gate = {.tolerance_nm = config.gate.z_tolerance_nm,
                         .average_s = config.gate.average_s},
          .rotate_witness_s = config.markers.mode == config::MarkerMode::List
                                  ? 0  // whose roles are the user's
                                  : config.markers.rotate_witness_s,
          .frame_period_ns = paced ? to_ns(1 / config.camera.frame_rate_hz, 1e9) : 0,
          .max_frame_age_ns = to_ns(config.lock.max_frame_age_ms, 1e6),
          .pixel_size_nm = config.optics.pixel_size_nm,
          .exposure_ns = to_ns(source.exposure_us, 1e3),
          .readout_ns = to_ns(config.camera.readout_us, 1e3),
          .curve = config.axial.read,
          .holds_z = config.axial.hold,
          .z_by_widths = config.axial.by_widths(),
          .fits_by_likelihood = config.axial.method == control::AxialMethod::Astigmatic,
          .fit_units = {.gain_e_per_adu = config.camera.gain_e_per_adu,
                        .offset_adu = config.camera.offset_adu,
                        .read_noise_e = config.camera.read_noise_e},
          .reflection = {.nm_per_px = config.reflection.nm_per_px,
                         .angle_rad = config.reflection.angle_deg * std::numbers::pi / 180,
                         .max_width_change = config.drift.max_width_change,
                         .average_frames = config.drift.average_frames}};
}

std::unique_ptr<ReflectionReader> make_reflection_reader(const config::Config& config,
                                                         camera::PixelFormat format) {
  if (config.axial.method != control::AxialMethod::Reflection) return nullptr;
  const config::Reflection& r = config.reflection;
  const fitter::FitOptions options =
      fit_options(config, format,
                  config.camera.gain_e_per_adu > 0 ? fitter::Estimator::PoissonLikelihood
                                                   : fitter::Estimator::ImplicitLeastSquares);
  return std::make_unique<ReflectionReader>(fitter::make_cpu_live_fitter(r.roi_px, 1, options),
                                            first_of(r.x_px, r.roi_px), first_of(r.y_px, r.roi_px));
}

control::EstimatorSettings estimator_settings(const config::Config& config) {
  return {.pixel_size_nm = config.optics.pixel_size_nm,
          .average_frames = config.drift.average_frames,
          .min_markers = config.drift.min_markers,
          .outlier_sigma = config.drift.outlier_sigma,
          .outlier_floor_nm = config.drift.outlier_floor_nm,
          .max_width_change = config.drift.max_width_change,
          .max_brightness_change = config.drift.max_brightness_change};
}

std::unique_ptr<MarkerSet> make_marker_set(const config::Config& config,
                                           const std::vector<control::Marker>& markers) {
  const int roi_px = config::with_sizes(config).fitter.roi_px;
  auto set = std::make_unique<MarkerSet>(
      MarkerSet{control::DriftEstimator(estimator_settings(config)),
                control::RoiTracker(roi_px, kRoiHysteresisPx), control::MarkerTrust(markers),
                control::AxialEstimator(estimator_settings(config), markers.size())});
  set->estimator.set_markers(markers);
  set->tracker.set_markers(markers);
  return set;
}

std::vector<control::Marker> listed_markers(const config::Config& config) {
  std::vector<control::Marker> markers;
  for (const config::ListedMarker& m : config.markers.list) {
    markers.push_back({.id = m.id, .role = m.role, .x_px = m.x_px, .y_px = m.y_px});
  }
  return markers;
}

std::size_t marker_capacity(const config::Config& config) {
  const std::size_t count = config.markers.mode == config::MarkerMode::List
                                ? config.markers.list.size()
                                : static_cast<std::size_t>(config.markers.max_count);
  return std::clamp<std::size_t>(count, 1, control::kMaxMarkers);
}

}  // namespace driftd::daemon
