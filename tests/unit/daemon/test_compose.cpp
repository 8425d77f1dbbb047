// SPDX-License-Identifier: MIT
#include "daemon/compose.hpp"
#include "support/catch.hpp"

using namespace driftd;

namespace {
constexpr auto kLeastSquares = fitter::Estimator::ImplicitLeastSquares;
}

TEST_CASE("loop settings are the configuration's, in the loop's units") {
  config::Config c = config::default_config();
  c.lock.max_frame_age_ms = 12.5;
  c.lock.hold_timeout_s = 3;
  c.camera.readout_us = 250;
  c.stage.image_to_stage = {{{0, 1}, {-1, 0}}};
  c.control.step_limit_nm = 7;
  camera::SourceInfo source;
  source.exposure_us = 800;
  const auto s = daemon::loop_settings(c, source);
  REQUIRE(s.max_frame_age_ns == 12'500'000);
  REQUIRE(s.lock.hold_timeout_ns == 3'000'000'000);
  REQUIRE(s.readout_ns == 250'000);
  REQUIRE(s.exposure_ns == 800'000);
  REQUIRE(s.controller.step_limit_nm == 7);
  const auto stage = s.controller.image_to_stage.apply({2, 3});
  REQUIRE(stage.x == 3);
  REQUIRE(stage.y == -2);
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
  const auto options =
      daemon::fit_options(c, camera::PixelFormat::Mono12, fitter::Estimator::PoissonLikelihood);
  REQUIRE(options.estimator == fitter::Estimator::PoissonLikelihood);
  REQUIRE(options.noise.gain_e_per_adu == 2.5f);
  REQUIRE(options.noise.offset_adu == 64);
}

TEST_CASE("back end and estimator are wished for as configured, and tried on spots that fit in") {
  config::Config c = config::default_config();
  auto wish = daemon::fitter_wish(c, camera::PixelFormat::Mono12);
  REQUIRE(wish.backend == "auto");
  REQUIRE(wish.estimator == "auto");
  REQUIRE_FALSE(wish.gain_known);
  c.camera.gain_e_per_adu = 2.5;
  c.camera.offset_adu = 40;
  c.camera.frame_rate_hz = 250;
  c.fitter.estimator = "poisson";
  wish = daemon::fitter_wish(c, camera::PixelFormat::Mono8);
  REQUIRE(wish.gain_known);
  REQUIRE(wish.frame_rate_hz == 250);
  REQUIRE(wish.estimator == "poisson");
  REQUIRE(wish.spots.background_adu > 40);
  REQUIRE(wish.spots.background_adu + wish.spots.peak_adu < 200);  // of 255, with room for noise
}

TEST_CASE("listed markers keep their ids, places and roles") {
  config::Config c = config::default_config();
  c.markers.mode = "list";
  c.markers.list = {{4, 10.5, 20.25, "tracking"}, {9, 30, 40, "witness"}};
  const auto markers = daemon::listed_markers(c);
  REQUIRE(markers.size() == 2);
  REQUIRE(markers[0].id == 4);
  REQUIRE(markers[0].x_px == 10.5);
  REQUIRE(markers[1].role == control::MarkerRole::Witness);
  REQUIRE(daemon::marker_capacity(c) == 2);
}

TEST_CASE("every pixel format that the options allow is known to the camera library") {
  for (const char* name : {"Mono8", "Mono10", "Mono10Packed", "Mono10p", "Mono12", "Mono12Packed",
                           "Mono12p", "Mono16"}) {
    config::Config c = config::default_config();
    c.camera.pixel_format = name;
    REQUIRE_NOTHROW(daemon::make_source(c, {}));
  }
}
