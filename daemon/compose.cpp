// SPDX-License-Identifier: MIT
#include "daemon/compose.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "fitter/cuda_fitter.hpp"

namespace driftd::daemon {
namespace {

/// How far from where it should be a marker is found again: room for a place listed by hand, too
/// little for strangers.
constexpr double kToleranceInSigmas = 1.5;

template <typename Enum, std::size_t N>
Enum named(const std::string& name, const std::array<std::pair<const char*, Enum>, N>& names) {
  for (const auto& [text, value] : names) {
    if (name == text) return value;
  }
  // The loader admits only the names of the option table: this is a programming error.
  throw std::logic_error("no value is named " + name);
}

camera::PixelFormat pixel_format(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(camera::PixelFormat::Mono16); ++i) {
    const auto format = static_cast<camera::PixelFormat>(i);
    if (name == camera::name_of(format)) return format;
  }
  throw std::logic_error("no pixel format is named " + name);
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

std::unique_ptr<camera::FrameSource> make_camera(const config::Camera& c,
                                                 std::function<void()> on_stream_thread_start) {
  camera::AravisSettings s;
  s.id = c.id;
  s.format = pixel_format(c.pixel_format);
  s.region_x_px = c.region_x_px;
  s.region_y_px = c.region_y_px;
  s.region_width_px = c.region_width_px;
  s.region_height_px = c.region_height_px;
  s.exposure_us = c.exposure_us;
  s.gain_db = c.gain_db;
  s.frame_rate_hz = c.frame_rate_hz;
  s.trigger = named<camera::Trigger, 3>(c.trigger, {{{"off", camera::Trigger::Off},
                                                     {"hardware", camera::Trigger::HardwareLine},
                                                     {"software", camera::Trigger::Software}}});
  s.trigger_line = c.trigger_line;
  s.packet_size_bytes = c.packet_size_bytes;
  s.socket_buffer_bytes = c.socket_buffer_bytes;
  s.resend = c.resend == "never" ? camera::Resend::Never : camera::Resend::Always;
  s.packet_timeout_us = c.packet_timeout_us;
  s.frame_retention_us = c.frame_retention_us;
  s.buffers = c.buffers;
  s.stall_timeout_ms = c.stall_timeout_ms;
  s.reconnect_min_ms = c.reconnect_min_ms;
  s.reconnect_max_ms = c.reconnect_max_ms;
  s.start_without_camera = c.start_without_camera;
  s.on_stream_thread_start = std::move(on_stream_thread_start);
  return camera::make_aravis_source(s);
}

std::unique_ptr<camera::FrameSource> make_replay(const config::Replay& r) {
  camera::ReplaySettings s;
  s.path = r.path;
  s.format =
      named<camera::ReplayFormat, 3>(r.format, {{{"tiff", camera::ReplayFormat::Tiff},
                                                 {"raw_u8", camera::ReplayFormat::RawU8},
                                                 {"raw_u16", camera::ReplayFormat::RawU16}}});
  s.width_px = r.width_px;
  s.height_px = r.height_px;
  s.first_frame = r.first_frame;
  s.last_frame = r.last_frame;
  s.pace = named<camera::ReplayPace, 3>(r.pace, {{{"rate", camera::ReplayPace::Rate},
                                                  {"recorded", camera::ReplayPace::Recorded},
                                                  {"fast", camera::ReplayPace::Fast}}});
  s.rate_hz = r.rate_hz;
  s.on_end = r.on_end == "loop" ? camera::ReplayEnd::Loop : camera::ReplayEnd::Stop;
  return camera::make_replay_source(s);
}

fitter::CudaMode cuda_mode(const std::string& name) {
  using Mode = fitter::CudaMode;
  return named<Mode, 3>(
      name, {{{"launch", Mode::Launch}, {"graph", Mode::Graph}, {"resident", Mode::Resident}}});
}

}  // namespace

bool is_recording(const config::Config& config) {
  return config.camera.source == "replay";
}

std::unique_ptr<camera::FrameSource> make_source(const config::Config& config,
                                                 std::function<void()> on_stream_thread_start) {
  return is_recording(config) ? make_replay(config.replay)
                              : make_camera(config.camera, std::move(on_stream_thread_start));
}

camera::PixelFormat configured_format(const config::Config& config) {
  return pixel_format(config.camera.pixel_format);
}

FitterWish fitter_wish(const config::Config& config, camera::PixelFormat format) {
  const config::Camera& camera = config.camera;
  const double range_adu = saturation_adu(config, format) - camera.offset_adu;
  return {.backend = config.fitter.backend,
          .estimator = config.fitter.estimator,
          .gain_known = camera.gain_e_per_adu > 0,
          .frame_rate_hz = camera.frame_rate_hz,
          .spots = {.sigma_px = config.optics.spot_sigma_px,
                    .background_adu = camera.offset_adu + range_adu / 32,
                    .peak_adu = range_adu / 3}};
}

FitterMakers fitter_makers(const config::Config& config, camera::PixelFormat format,
                           fitter::Estimator estimator) {
  const int roi_px = config.fitter.roi_px;
  const std::size_t capacity = marker_capacity(config);
  const fitter::FitOptions options = fit_options(config, format, estimator);
  const fitter::CudaLiveOptions cuda = {
      .device = config.cuda.device,
      .mode = cuda_mode(config.cuda.mode),
      .deadline = std::chrono::microseconds(config.cuda.deadline_us)};
  return {[=] { return fitter::make_cpu_live_fitter(roi_px, capacity, options); },
          [=] { return fitter::make_cuda_live_fitter(roi_px, capacity, options, cuda); }};
}

fitter::FitOptions fit_options(const config::Config& config, camera::PixelFormat format,
                               fitter::Estimator estimator) {
  fitter::FitOptions options;
  options.estimator = estimator;
  options.max_iterations = config.fitter.max_iterations;
  options.min_decrease = static_cast<float>(config.fitter.min_decrease);
  options.min_step = static_cast<float>(config.fitter.min_step);
  options.saturation_adu = static_cast<float>(saturation_adu(config, format));
  options.noise = {static_cast<float>(config.camera.gain_e_per_adu),
                   static_cast<float>(config.camera.read_noise_e),
                   static_cast<float>(config.camera.offset_adu)};
  return options;
}

control::DetectionSettings detection_settings(const config::Config& config,
                                              camera::PixelFormat format) {
  const config::Markers& m = config.markers;
  control::DetectionSettings s;
  s.roi_px = config.fitter.roi_px;
  s.max_count = m.max_count;
  s.expected_sigma_px = config.optics.spot_sigma_px;
  s.min_snr = m.min_snr;
  s.min_sigma_px = m.min_sigma_px;
  s.max_sigma_px = m.max_sigma_px;
  s.min_distance_px = m.min_distance_px;
  s.border_px = m.border_px;
  s.saturation_adu = saturation_adu(config, format);
  s.max_residual_ratio = m.max_residual_ratio;
  s.witness_fraction = m.witness_fraction;
  s.min_for_witness = m.min_for_witness;
  return s;
}

control::ConstellationSettings constellation_settings(const config::Config& config) {
  control::ConstellationSettings s;
  s.tolerance_px = kToleranceInSigmas * config.optics.spot_sigma_px;
  s.min_markers = config.drift.min_markers;
  s.max_width_change = config.drift.max_width_change;
  s.max_brightness_change = config.drift.max_brightness_change;
  return s;
}

LoopSettings loop_settings(const config::Config& config, const camera::SourceInfo& source) {
  LoopSettings s;
  s.lock.hold_timeout_ns = to_ns(config.lock.hold_timeout_s, 1e9);
  s.lock.reference_timeout_ns = to_ns(config.lock.reference_timeout_s, 1e9);
  s.lock.bad_frames_to_hold = config.lock.bad_frames_to_hold;
  s.lock.good_frames_to_resume = config.lock.good_frames_to_resume;
  const auto& m = config.stage.image_to_stage;
  s.controller.image_to_stage = {m[0][0], m[0][1], m[1][0], m[1][1]};
  s.controller.proportional = config.control.proportional;
  s.controller.integral = config.control.integral;
  s.controller.step_limit_nm = config.control.step_limit_nm;
  s.controller.rate_limit_nm_per_s = config.control.rate_limit_nm_per_s;
  s.controller.range_limit_nm = config.control.range_limit_nm;
  s.controller.stage_delay_us = config.stage.delay_us;
  s.controller.stage_time_constant_us = config.stage.time_constant_us;
  s.reference_frames = config.lock.reference_frames;
  s.max_frame_age_ns = to_ns(config.lock.max_frame_age_ms, 1e6);
  s.no_frame_timeout_ns = to_ns(config.camera.stall_timeout_ms, 1e6);
  s.max_jump_nm = config.lock.max_jump_nm;
  s.pixel_size_nm = config.optics.pixel_size_nm;
  s.exposure_ns = to_ns(source.exposure_us, 1e3);
  s.readout_ns = to_ns(config.camera.readout_us, 1e3);
  s.warm_start = config.fitter.warm_start;
  return s;
}

std::unique_ptr<MarkerSet> make_marker_set(const config::Config& config,
                                           const std::vector<control::Marker>& markers) {
  control::EstimatorSettings s;
  s.pixel_size_nm = config.optics.pixel_size_nm;
  s.average_frames = config.drift.average_frames;
  s.min_markers = config.drift.min_markers;
  s.outlier_sigma = config.drift.outlier_sigma;
  s.outlier_floor_nm = config.drift.outlier_floor_nm;
  s.max_width_change = config.drift.max_width_change;
  s.max_brightness_change = config.drift.max_brightness_change;
  auto set = std::make_unique<MarkerSet>(
      MarkerSet{control::DriftEstimator(s),
                control::RoiTracker(config.fitter.roi_px, config.markers.roi_hysteresis_px)});
  set->estimator.set_markers(markers);
  set->tracker.set_markers(markers);
  return set;
}

std::vector<control::Marker> listed_markers(const config::Config& config) {
  std::vector<control::Marker> markers;
  for (const config::ListedMarker& m : config.markers.list) {
    markers.push_back(
        {m.id, m.role == "witness" ? control::MarkerRole::Witness : control::MarkerRole::Tracking,
         m.x_px, m.y_px});
  }
  return markers;
}

std::size_t marker_capacity(const config::Config& config) {
  const std::size_t count = config.markers.mode == "list"
                                ? config.markers.list.size()
                                : static_cast<std::size_t>(config.markers.max_count);
  return std::clamp<std::size_t>(count, 1, control::kMaxMarkers);
}

}  // namespace driftd::daemon
