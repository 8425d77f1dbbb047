// SPDX-License-Identifier: MIT
// What a measurement recommends.
#include <algorithm>
#include <string>

#include "clients/common/measure/recommendations.hpp"
#include "config/config.hpp"
#include "support/catch.hpp"

using driftd::clients::Advice;
using driftd::clients::MeasurementReport;
using driftd::clients::recommendations;
namespace config = driftd::config;

namespace {

/// Markers that allow 0.3 nm in frames that scatter by as much, at 500 Hz.
MeasurementReport calm() {
  MeasurementReport report;
  report.state = "idle";
  report.seconds = 30;
  report.rate_hz = 500;
  report.frames = 15000;
  for (auto& axis : report.axes) {
    axis.frame_noise_nm = axis.promised_noise_nm = 0.32;
    axis.drift_nm_per_min = 60;
    axis.allan = {{0.002, 0.32}, {0.004, 0.25}, {0.008, 0.21}, {0.016, 0.4}};
  }
  report.markers_allow_nm = {0.3, 0.3};
  report.markers.resize(5);
  for (int i = 0; i < 5; ++i) report.markers[static_cast<std::size_t>(i)].id = i + 1;
  report.markers.back().witness = true;
  return report;
}

std::string said(const MeasurementReport& report, const std::optional<config::Config>& config,
                 const std::string& code, const std::string& axis = "") {
  std::string texts;
  for (const Advice& one : recommendations(report, config))
    if (one.code == code && one.axis == axis) texts += one.text;
  return texts;
}

TEST_CASE("recommendations: light helps where the markers' noise is most of a frame's") {
  MeasurementReport report = calm();
  // sqrt(0.32^2 - 0.3^2) and sqrt(0.32^2 - 0.3^2 / 2)
  CHECK_THAT(said(report, {}, "markers"),
             contains("0.11 of 0.32 nm") && contains("leaves 0.24 nm"));
  CHECK_THAT(said(report, {}, "markers"), !contains("exposure"));
  config::Config config = config::default_config();
  config.camera.exposure_us = 200;
  CHECK_THAT(said(report, config, "markers"), contains("camera.exposure_us takes 10 %"));
  config.camera.exposure_us = 1900;
  CHECK_THAT(said(report, config, "markers"), !contains("exposure"));
  report.markers_allow_nm = {0.05, 0.05};
  CHECK_THAT(said(report, {}, "markers"), contains("more light would not help"));
}

TEST_CASE("recommendations: uncertainties that are told wrong point to the camera") {
  MeasurementReport report = calm();
  CHECK(said(report, {}, "uncertainty").empty());
  for (auto& axis : report.axes) axis.promised_noise_nm = 0.1;
  CHECK_THAT(said(report, {}, "uncertainty"), contains("calibrate camera"));
}

TEST_CASE("recommendations: of the markers") {
  MeasurementReport report = calm();
  CHECK(said(report, {}, "marker").empty());
  report.markers[1].remark = "good only in 66 % of the time";
  CHECK_THAT(said(report, {}, "marker"), contains("marker 2: good only in 66 %"));
  report.markers.pop_back();
  CHECK_FALSE(said(report, {}, "no_witness").empty());
  report.markers.resize(2);
  CHECK_THAT(said(report, {}, "few_markers"), contains("2 markers only"));
  CHECK(said(report, {}, "no_witness").empty());
}

TEST_CASE("recommendations: a drift that a lock holds, and one that it does not") {
  MeasurementReport report = calm();
  CHECK(said(report, {}, "drift").empty());  // nothing is known of the stage
  config::Config config = config::default_config();
  config.stage.delay_us = 3000;
  config.stage.time_constant_us = 1000;
  config.stage.resonance_hz = 0;
  // 85 nm/min for 6 ms
  CHECK_THAT(said(report, config, "drift"), contains("84.9 nm/min, 0.01 nm") &&
                                                contains("6.0 ms") &&
                                                contains("a lock holds that"));
  report.axes[0].drift_nm_per_min = 3000;
  CHECK_THAT(said(report, config, "drift"), contains("0.30 nm") && contains("higher frame rate"));
}

TEST_CASE("recommendations: of a vibration by frame rate, stage and law") {
  MeasurementReport report = calm();
  report.axes[1].lines = {{12.3, 0.4}, {27, 0.05}};
  CHECK(said(report, {}, "line").empty());
  CHECK_THAT(said(report, {}, "line", "y"), contains("0.4 nm at 12.3 Hz") && !contains("27"));
  config::Config config = config::default_config();
  config.control.law = driftd::control::ControlLaw::Pi;
  config.stage.time_constant_us = 1000;  // 159 Hz
  config.stage.resonance_hz = 0;
  CHECK_THAT(said(report, config, "line", "y"), contains("control.law: observer"));
  config.stage.time_constant_us = 30000;  // 5.3 Hz
  CHECK_THAT(said(report, config, "line", "y"), contains("up to 5 Hz: stop what shakes"));
  report.rate_hz = 30;
  CHECK_THAT(said(report, config, "line", "y"), contains("another camera.frame_rate_hz"));
}

TEST_CASE("recommendations: how long averaging helps") {
  MeasurementReport report = calm();
  CHECK_THAT(said(report, {}, "averaging"), contains("up to 0.008 s") && contains("0.21 nm"));
  for (auto& axis : report.axes) axis.allan = {{0.1, 0.3}, {0.2, 0.5}};
  CHECK_THAT(said(report, {}, "averaging"), contains("a higher frame rate would help"));
  report.state = "locked";
  CHECK(said(report, {}, "averaging").empty());
  CHECK_THAT(said(report, {}, "locked"), contains("unlock, and measure again"));
}

}  // namespace
