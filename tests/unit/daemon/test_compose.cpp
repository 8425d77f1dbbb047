// SPDX-License-Identifier: MIT
#include <vector>

#include "config/names.hpp"
#include "daemon/setup/compose.hpp"
#include "support/catch.hpp"

using namespace driftd;

namespace {
constexpr auto kLeastSquares = fitter::Estimator::ImplicitLeastSquares;
}

TEST_CASE("witnesses take turns unless the user listed the roles") {
  config::Config c = config::default_config();
  CHECK(daemon::loop_settings(c, {}).rotate_witness_s == 600);
  c.markers.rotate_witness_s = 90;
  CHECK(daemon::loop_settings(c, {}).rotate_witness_s == 90);
  c.markers.mode = config::MarkerMode::List;
  CHECK(daemon::loop_settings(c, {}).rotate_witness_s == 0);
}

TEST_CASE("loop settings are the configuration's, in the loop's units") {
  config::Config c = config::default_config();
  c.lock = {.at_start = false,
            .resume = config::Resume::Ask,
            .reference_frames = 17,
            .hold_timeout_s = 3,
            .reference_timeout_s = 4,
            .bad_frames_to_hold = 6,
            .max_frame_age_ms = 12.5,
            .max_jump_nm = 33,
            .max_drift_nm_per_s = 9};
  c.camera.readout_us = 250;
  c.camera.stall_timeout_ms = 70;
  c.camera.frame_rate_hz = 250;
  c.stage.image_to_stage = {{{0, 1}, {-2, 0}}};
  c.stage.delay_us = 2100;
  c.stage.time_constant_us = 900;
  c.stage.resonance_hz = 35;
  c.stage.damping = 0.4;
  c.control = {.law = control::ControlLaw::Observer,
               .coast_nm = 2.5,
               .verify_lines = true,
               .proportional = 0.15,
               .integral = 0.25,
               .step_limit_nm = 7,
               .rate_limit_nm_per_s = 80,
               .range_limit_nm = 600,
               .travel_limit_nm = 1100};
  camera::SourceInfo source;
  source.exposure_us = 800;
  const auto s = daemon::loop_settings(c, source);
  const auto& supervisor = s.supervisor;
  REQUIRE(supervisor.lock.hold_timeout_ns == 3'000'000'000);
  REQUIRE(supervisor.lock.reference_timeout_ns == 4'000'000'000);
  REQUIRE(supervisor.lock.bad_frames_to_hold == 6);
  REQUIRE(supervisor.lock.good_frames_to_resume == 5);
  REQUIRE(supervisor.reference_frames == 17);
  REQUIRE(supervisor.rest_moves_to_lock == 64);
  REQUIRE(supervisor.stall_timeout_ns == 70'000'000);
  REQUIRE(supervisor.max_jump_nm == 33);
  REQUIRE(supervisor.max_drift_nm_per_s == 9);
  const auto& controller = supervisor.controller;
  REQUIRE(controller.law == control::ControlLaw::Observer);
  REQUIRE(controller.coast_nm == 2.5);
  REQUIRE_FALSE(controller.verifies_lines);  // a camera whose rate stays
  source.rate_can_change = true;
  REQUIRE(daemon::loop_settings(c, source).supervisor.controller.verifies_lines);
  c.control.verify_lines = false;
  REQUIRE_FALSE(daemon::loop_settings(c, source).supervisor.controller.verifies_lines);
  REQUIRE(controller.proportional == 0.15);
  REQUIRE(controller.integral == 0.25);
  REQUIRE(controller.step_limit_nm == 7);
  REQUIRE(controller.rate_limit_nm_per_s == 80);
  REQUIRE(controller.range_limit_nm == 600);
  REQUIRE(controller.travel_limit_nm == 1100);
  REQUIRE(controller.stage_delay_us == 2100);
  REQUIRE(controller.stage_time_constant_us == 900);
  REQUIRE(controller.stage_resonance_hz == 35);
  REQUIRE(controller.stage_damping == 0.4);
  const auto stage = controller.image_to_stage.apply({2, 3});
  REQUIRE(stage.x == 3);
  REQUIRE(stage.y == -4);
  REQUIRE(s.frame_period_ns == 4'000'000);
  REQUIRE(s.max_frame_age_ns == 12'500'000);
  REQUIRE(s.readout_ns == 250'000);
  REQUIRE(s.exposure_ns == 800'000);
  REQUIRE(supervisor.range_timeout_ns == 1'000'000'000);
  c.optics.pixel_size_nm = 73;
  REQUIRE(daemon::loop_settings(c, source).pixel_size_nm == 73);
}

TEST_CASE("a rate that the camera does not set itself is no frame period") {
  config::Config c = config::default_config();
  c.camera.frame_rate_hz = 0;
  REQUIRE(daemon::loop_settings(c, {}).frame_period_ns == 0);
  c.camera.frame_rate_hz = 250;
  c.camera.trigger = camera::Trigger::HardwareLine;
  REQUIRE(daemon::loop_settings(c, {}).frame_period_ns == 0);
  c.camera.trigger = camera::Trigger::Software;
  REQUIRE(daemon::loop_settings(c, {}).frame_period_ns == 4'000'000);
}

TEST_CASE("saturation is the pixel format's largest value unless given") {
  config::Config c = config::default_config();
  c.camera.saturation_adu = 0;
  REQUIRE(daemon::fit_options(c, camera::PixelFormat::Mono8, kLeastSquares).saturation_adu == 255);
  REQUIRE(daemon::fit_options(c, camera::PixelFormat::Mono12Packed, kLeastSquares).saturation_adu ==
          4095);
  c.camera.saturation_adu = 3900;
  REQUIRE(daemon::fit_options(c, camera::PixelFormat::Mono12, kLeastSquares).saturation_adu ==
          3900);
  REQUIRE(daemon::detection_settings(c, camera::PixelFormat::Mono12).saturation_adu == 3900);
}

TEST_CASE("the fit's noise is the configuration's") {
  config::Config c = config::default_config();
  c.camera.gain_e_per_adu = 2.5;
  c.camera.offset_adu = 64;
  c.camera.read_noise_e = 1.5;
  const auto options =
      daemon::fit_options(c, camera::PixelFormat::Mono12, fitter::Estimator::PoissonLikelihood);
  REQUIRE(options.estimator == fitter::Estimator::PoissonLikelihood);
  REQUIRE(options.noise.gain_e_per_adu == 2.5f);
  REQUIRE(options.noise.offset_adu == 64);
  REQUIRE(options.noise.read_noise_e == 1.5f);
}

TEST_CASE("back end and estimator are wished for as configured, and tried on spots that fit in") {
  config::Config c = config::default_config();
  auto wish = daemon::fitter_wish(c, camera::PixelFormat::Mono12);
  REQUIRE(wish.backend == config::Backend::Auto);
  REQUIRE(wish.estimator == config::Estimator::Auto);
  REQUIRE_FALSE(wish.gain_known);
  c.camera.gain_e_per_adu = 2.5;
  c.camera.offset_adu = 40;
  c.camera.frame_rate_hz = 250;
  c.fitter.estimator = config::Estimator::Poisson;
  wish = daemon::fitter_wish(c, camera::PixelFormat::Mono8);
  REQUIRE(wish.gain_known);
  REQUIRE(wish.frame_rate_hz == 250);
  REQUIRE(wish.estimator == config::Estimator::Poisson);
  REQUIRE(wish.spots.sigma_px == 1.3);  // assumed
  c.optics.spot_sigma_px = 1.7;
  REQUIRE(daemon::fitter_wish(c, camera::PixelFormat::Mono8).spots.sigma_px == 1.7);
  REQUIRE(wish.spots.background_adu > 40);
  REQUIRE(wish.spots.background_adu + wish.spots.peak_adu < 200);  // of 255, with room for noise
}

TEST_CASE("listed markers keep their ids, places and roles") {
  config::Config c = config::default_config();
  c.markers.mode = config::MarkerMode::List;
  c.markers.list = {{4, 10.5, 20.25, control::MarkerRole::Tracking},
                    {9, 30, 40, control::MarkerRole::Witness}};
  const auto markers = daemon::listed_markers(c);
  REQUIRE(markers.size() == 2);
  REQUIRE(markers[0].id == 4);
  REQUIRE(markers[0].x_px == 10.5);
  REQUIRE(markers[1].role == control::MarkerRole::Witness);
  REQUIRE(markers[0].y_px == 20.25);
  REQUIRE(markers[0].role == control::MarkerRole::Tracking);
  REQUIRE(daemon::marker_capacity(c) == 2);
}

TEST_CASE("there is room for the markers listed or those that may be found, and for one at least") {
  config::Config c = config::default_config();
  c.markers.mode = config::MarkerMode::Auto;
  c.markers.max_count = 37;
  REQUIRE(daemon::marker_capacity(c) == 37);
  c.markers.max_count = 100'000;
  REQUIRE(daemon::marker_capacity(c) == control::kMaxMarkers);
  c.markers.mode = config::MarkerMode::List;
  c.markers.list.clear();
  REQUIRE(daemon::marker_capacity(c) == 1);
}

TEST_CASE("markers are looked for and found again as configured") {
  config::Config c = config::default_config();
  c.fitter.roi_px = 11;
  c.optics.spot_sigma_px = 1.4;
  c.markers.max_count = 21;
  c.markers.min_snr = 9;
  c.markers.max_sigma_px = 3.3;
  c.markers.min_distance_px = 17;
  c.markers.border_px = 5;
  c.markers.witness_fraction = 0.3;
  c.markers.min_for_witness = 8;
  c.drift.min_markers = 4;
  c.drift.max_width_change = 0.2;
  c.drift.max_brightness_change = 0.6;
  const auto d = daemon::detection_settings(c, camera::PixelFormat::Mono12);
  CHECK(d.roi_px == 11);
  CHECK(d.max_count == 21);
  CHECK(d.expected_sigma_px == 1.4);
  CHECK(d.min_snr == 9);
  CHECK(d.min_sigma_px == 0.6);
  CHECK(d.max_sigma_px == 3.3);
  CHECK(d.min_distance_px == 17);
  CHECK(d.border_px == 5);
  CHECK(d.saturation_adu == 4095);
  CHECK(d.max_residual_ratio == 3);
  CHECK(d.witness_fraction == 0.3);
  CHECK(d.min_for_witness == 8);
  const auto again = daemon::constellation_settings(c);
  CHECK(again.tolerance_px == Approx(1.5 * 1.4));
  CHECK(again.min_markers == 4);
  CHECK(again.max_width_change == 0.2);
  CHECK(again.max_brightness_change == 0.6);
}

TEST_CASE("spots may be narrow where narrow ones are expected") {
  config::Config c = config::default_config();
  const auto least_px = [&](double expected_px) {
    c.optics.spot_sigma_px = expected_px;
    return daemon::open_detection_settings(c, camera::PixelFormat::Mono12).min_sigma_px;
  };
  CHECK(least_px(0) == 0.6);  // to be chosen
  CHECK(least_px(0.75) == Approx(0.6));
  CHECK(least_px(0.7) == Approx(0.56));
  CHECK(least_px(0.5) == Approx(0.4));
}

TEST_CASE("the drift is estimated as configured") {
  config::Config c = config::default_config();
  c.optics.pixel_size_nm = 73;
  c.drift = {.average_frames = 5,
             .min_markers = 4,
             .outlier_sigma = 3.5,
             .outlier_floor_nm = 6,
             .max_width_change = 0.2,
             .max_brightness_change = 0.6};
  const auto e = daemon::estimator_settings(c);
  CHECK(e.pixel_size_nm == 73);
  CHECK(e.average_frames == 5);
  CHECK(e.min_markers == 4);
  CHECK(e.outlier_sigma == 3.5);
  CHECK(e.outlier_floor_nm == 6);
  CHECK(e.max_width_change == 0.2);
  CHECK(e.max_brightness_change == 0.6);
}

TEST_CASE("a marker set measures and follows the markers that it is made of") {
  config::Config c = config::default_config();
  c.fitter.roi_px = 11;
  const std::vector<control::Marker> markers = {{4, control::MarkerRole::Tracking, 20.2, 31.4}};
  const auto set = daemon::make_marker_set(c, markers);
  REQUIRE(set->estimator.markers().size() == 1);
  CHECK(set->estimator.markers()[0].id == 4);
  CHECK(set->tracker.origin(0).x_px == 15);
  CHECK(set->tracker.origin(0).y_px == 26);
  const control::Vec2 reference{20, 31};
  set->tracker.move_all({&reference, 1}, {0.9, -0.9});  // less than the hysteresis
  CHECK(set->tracker.origin(0).x_px == 15);
  set->tracker.move_all({&reference, 1}, {2.2, -0.9});
  CHECK(set->tracker.origin(0).x_px == 17);
  CHECK(set->tracker.origin(0).y_px == 26);
  // Until it is chosen it is the one assumed.
  c.fitter.roi_px = 0;
  CHECK(daemon::make_marker_set(c, markers)->tracker.origin(0).x_px == 14);
}

TEST_CASE("the settings have sizes chosen that are not given, where markers are searched") {
  config::Config c = config::default_config();
  c.markers.mode = config::MarkerMode::Auto;
  c.optics.spot_sigma_px = 0;
  c.fitter.roi_px = 0;
  CHECK(daemon::wants_sizes(c));
  c.fitter.roi_px = 11;
  CHECK(daemon::wants_sizes(c));
  c.optics.spot_sigma_px = 1.2;
  CHECK_FALSE(daemon::wants_sizes(c));
  c.fitter.roi_px = 0;
  CHECK(daemon::wants_sizes(c));
  c.markers.mode = config::MarkerMode::List;
  CHECK_FALSE(daemon::wants_sizes(c));
}

TEST_CASE("the camera is asked for what is configured") {
  config::Camera c = config::default_config().camera;
  c.id = "the one";
  c.pixel_format = camera::PixelFormat::Mono12;
  c.region_x_px = 16;
  c.region_y_px = 24;
  c.region_width_px = 320;
  c.region_height_px = 200;
  c.exposure_us = 1500;
  c.gain_db = 3;
  c.frame_rate_hz = 250;
  c.trigger = camera::Trigger::HardwareLine;
  c.trigger_line = "Line2";
  c.in_lock_line = "Line3";
  c.packet_size_bytes = 8000;
  c.socket_buffer_bytes = 7'000'000;
  c.resend = camera::Resend::Never;
  c.stall_timeout_ms = 440;
  c.heartbeat_timeout_ms = 2500;
  bool started = false;
  for (const bool without : {true, false}) {
    c.start_without_camera = without;
    CHECK(daemon::aravis_settings(c, {}).start_without_camera == without);
  }
  const auto a = daemon::aravis_settings(c, [&] { started = true; });
  CHECK(a.id == "the one");
  CHECK(a.format == camera::PixelFormat::Mono12);
  CHECK(a.region_x_px == 16);
  CHECK(a.region_y_px == 24);
  CHECK(a.region_width_px == 320);
  CHECK(a.region_height_px == 200);
  CHECK(a.exposure_us == 1500);
  CHECK(a.gain_db == 3);
  CHECK(a.frame_rate_hz == 250);
  CHECK(a.trigger == camera::Trigger::HardwareLine);
  CHECK(a.trigger_line == "Line2");
  CHECK(a.in_lock_line == "Line3");
  CHECK(a.packet_size_bytes == 8000);
  CHECK(a.socket_buffer_bytes == 7'000'000);
  CHECK(a.resend == camera::Resend::Never);
  CHECK(a.stall_timeout_ms == 440);
  CHECK(a.heartbeat_timeout_ms == 2500);
  a.on_stream_thread_start();
  CHECK(started);
}

TEST_CASE("a recording is read as configured") {
  config::Config config = config::default_config();
  CHECK_FALSE(daemon::is_recording(config));
  config.camera.source = config::Source::Replay;
  CHECK(daemon::is_recording(config));
  config::Replay& c = config.replay;
  c.path = "some.raw";
  c.format = camera::ReplayFormat::RawU16;
  c.dataset = "images";
  c.series = 4;
  c.channel = 2;
  c.slice = 5;
  c.every_page = true;
  c.width_px = 64;
  c.height_px = 48;
  c.first_frame = 3;
  c.last_frame = 90;
  c.pace = camera::ReplayPace::Rate;
  c.rate_hz = 120;
  c.on_end = camera::ReplayEnd::Loop;
  const auto r = daemon::replay_settings(c);
  CHECK(r.path == "some.raw");
  CHECK(r.format == camera::ReplayFormat::RawU16);
  CHECK(r.dataset == "images");
  CHECK(r.series == 4);
  CHECK(r.channel == 2);
  CHECK(r.slice == 5);
  CHECK(r.every_page);
  CHECK_FALSE(r.allow_truncated);
  CHECK(r.width_px == 64);
  CHECK(r.height_px == 48);
  CHECK(r.first_frame == 3);
  CHECK(r.last_frame == 90);
  CHECK(r.pace == camera::ReplayPace::Rate);
  CHECK(r.rate_hz == 120);
  CHECK(r.on_end == camera::ReplayEnd::Loop);
}

TEST_CASE("the configuration and the camera library give each pixel format the same name") {
  REQUIRE(config::names_of<camera::PixelFormat>().size() == camera::kPixelFormats.size());
  for (const camera::PixelFormat format : camera::kPixelFormats)
    REQUIRE(config::text_of(format) == camera::name_of(format));
}

TEST_CASE("an image that does not hold the region of a reflected spot is said to") {
  config::Config c = config::default_config();
  c.axial.method = control::AxialMethod::Reflection;
  c.reflection.x_px = 128;
  c.reflection.y_px = 226;
  c.reflection.roi_px = 48;  // rows 203 to 250
  camera::SourceInfo source;
  CHECK(daemon::image_too_small(c, source).empty());  // not known yet
  source.width_px = 256, source.height_px = 251;
  CHECK(daemon::image_too_small(c, source).empty());
  source.height_px = 250;
  CHECK_THAT(daemon::image_too_small(c, source),
             contains("256 x 250 px from column 0 and row 0 on does not hold the region"));
  source.offset_y_px = 204;
  CHECK_FALSE(daemon::image_too_small(c, source).empty());
  source.offset_y_px = 203;
  CHECK(daemon::image_too_small(c, source).empty());
  c.axial.method = control::AxialMethod::None;
  source.offset_y_px = 0;
  CHECK(daemon::image_too_small(c, source).empty());
}
