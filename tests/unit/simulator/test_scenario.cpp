// SPDX-License-Identifier: MIT
#include "simulator/scenario.hpp"

#include <filesystem>
#include <string>

#include "simulator/simulation.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

using namespace driftd::simulator;

namespace {

/// What the loader says about a text; empty when it takes it.
std::string complaint(const std::string& text) {
  try {
    load_scenario_text(text, "s.yaml");
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("An empty scenario is the default world") {
  const Scenario scenario = load_scenario_text("", "s.yaml");
  CHECK(scenario.markers.count == 16);
  CHECK(scenario.camera.rate_hz == 500);
  CHECK(scenario.faults.empty());
}

TEST_CASE("A scenario's values arrive where they belong") {
  const Scenario scenario = load_scenario_text(R"(
seed: 42
optics: {pixel_size_nm: 30, sigma_px: 4.5, sigma_y_px: 5.5}
camera: {width_px: 320, height_px: 200, rate_hz: 250, bit_depth: 10, clock_offset_ns: -5, first_frame_id: 65000,
         clock_rate: 0.125, clock_absent: true}
markers:
  positions_px: [[10, 20.5], [30, 40]]
  blink: {share: 0.5, on_s: 1, off_s: 2}
disturbance:
  x: {linear_nm_per_s: 2, step_nm: 9, step_at_s: 3, broadband: {rms_nm: 2, damping: 0.1}}
  y: {sines: [{amplitude_nm: 1, frequency_hz: 50, phase_deg: 90, until_s: 8}]}
stage: {second_mode_share: 0.1, image_to_stage: [0, 1, -1, 0], axis_sign: [1, -1], delay_ms: 4, endpoint: "tcp://127.0.0.1:5555"}
faults:
  - {kind: drop_frames, at_s: 5, seconds: 2, share: 0.3}
  - {kind: detach_marker, at_s: 6, index: 1}
  - {kind: stage_gain, factor: 0.5}
  - {kind: stage_turned, degrees: -60}
  - {kind: clock_step, shift_s: -1.5}
bench: {of: others}
)",
                                               "s.yaml");
  CHECK(scenario.seed == 42);
  CHECK(scenario.optics.sigma_y_px == 5.5);
  CHECK(scenario.camera.width_px == 320);
  CHECK(scenario.camera.clock_offset_ns == -5);
  CHECK(scenario.camera.first_frame_id == 65000);
  REQUIRE(scenario.markers.positions_px.size() == 2);
  CHECK(scenario.markers.positions_px[0].y == 20.5);
  CHECK(scenario.markers.blink.off_s == 2);
  CHECK(scenario.disturbance_x.step_at_s == 3);
  REQUIRE(scenario.disturbance_y.sines.size() == 1);
  CHECK(scenario.disturbance_y.sines[0].frequency_hz == 50);
  CHECK(scenario.disturbance_y.sines[0].until_s == 8);
  CHECK(scenario.disturbance_x.broadband.rms_nm == 2);
  CHECK(scenario.stage.second_mode_share == 0.1);
  CHECK(scenario.stage.image_to_stage[1][0] == -1);
  CHECK(scenario.stage.axis_sign[1] == -1);
  CHECK(scenario.stage_endpoint == "tcp://127.0.0.1:5555");
  CHECK(scenario.camera.clock_rate == 0.125);
  CHECK(scenario.camera.clock_absent);
  REQUIRE(scenario.faults.size() == 5);
  CHECK(scenario.faults[0].kind == FaultKind::DropFrames);
  CHECK(scenario.faults[0].share == 0.3);
  CHECK(scenario.faults[1].index == 1);
  CHECK(scenario.faults[2].factor == 0.5);
  CHECK(scenario.faults[3].degrees == -60);
  CHECK(scenario.faults[4].shift_s == -1.5);
}

TEST_CASE("The values of a world of three axes arrive where they belong") {
  const Scenario scenario = load_scenario_text(R"(
optics:
  shape: pupil
  pixel_size_nm: 110
  pupil: {numerical_aperture: 1.3, index: 1.33, wavelength_nm: 850, focus_nm: -50, range_nm: 700,
          astigmatism_waves: 0.07, astigmatism_deg: 10, coma_waves: 0.01, coma_deg: 20,
          spherical_waves: -0.02}
markers: {count: 2, height_spread_nm: 60, heights_nm: [5, -6], tilt_x_nm_per_um: 2, tilt_y_nm_per_um: -3,
          bleach_spread: 0.5}
reflection: {photons: 1e5, x_px: 40, y_px: 50, px_per_um: 25, direction_deg: 90, sigma_px: 2.5,
             pointing_px_per_sqrt_s: 0.01}
disturbance: {z: {linear_nm_per_s: 10, settling_nm: 1000}}
stage: {frequency_hz: 150,
        z: {frequency_hz: 40, sign: -1, gain: 0.9, coupling: -1, tilt_x_nm_per_um: 20, tilt_y_nm_per_um: 4}}
faults:
  - {kind: step, z_nm: 200}
  - {kind: stage_reversed, axes: z}
  - {kind: light, factor: 0.5}
  - {kind: background, factor: 3}
  - {kind: hide_reflection}
)",
                                               "s.yaml");
  CHECK(scenario.optics.shape == SpotShape::Pupil);
  CHECK(scenario.optics.pupil.numerical_aperture == 1.3);
  CHECK(scenario.optics.pupil.index == 1.33);
  CHECK(scenario.optics.pupil.focus_nm == -50);
  CHECK(scenario.optics.pupil.range_nm == 700);
  CHECK(scenario.optics.pupil.astigmatism_deg == 10);
  CHECK(scenario.optics.pupil.coma_waves == 0.01);
  CHECK(scenario.optics.pupil.coma_deg == 20);
  CHECK(scenario.optics.pupil.spherical_waves == -0.02);
  CHECK(scenario.markers.heights_nm == std::vector<double>{5, -6});
  CHECK(scenario.markers.tilt_y_nm_per_um == -3);
  CHECK(scenario.markers.bleach_spread == 0.5);
  CHECK(scenario.reflection.place_px.y == 50);
  CHECK(scenario.reflection.px_per_um == 25);
  CHECK(scenario.reflection.direction_deg == 90);
  CHECK(scenario.disturbance_z.linear_nm_per_s == 10);
  REQUIRE(scenario.focus_stage);
  CHECK(scenario.focus_stage->actuator.frequency_hz == 40);
  CHECK(scenario.focus_stage->actuator.axis_sign[0] == -1);
  CHECK(scenario.focus_stage->coupling == -1);
  CHECK(scenario.focus_stage->actuator.axis_gain[0] == 0.9);
  CHECK(scenario.focus_stage->tilt_x_nm_per_um == 20);
  CHECK(scenario.stage.frequency_hz == 150);
  REQUIRE(scenario.faults.size() == 5);
  CHECK(scenario.faults[0].z_nm == 200);
  CHECK(scenario.faults[1].axes == FaultAxes::Axial);
  CHECK(scenario.faults[2].kind == FaultKind::Light);
  CHECK(scenario.faults[3].kind == FaultKind::Background);
  CHECK_FALSE(load_scenario_text("", "s.yaml").focus_stage);
  const Scenario curve = load_scenario_text(
      "optics: {shape: width_curve, width_curve: {width_px: 1.2, focus_nm: 200, depth_nm: 300, a: "
      "0.1, b: 0.2}}",
      "s.yaml");
  CHECK(curve.optics.width_curve.focus_nm == 200);
  CHECK(curve.optics.width_curve.b == 0.2);
}

TEST_CASE("What a pupil cannot be is refused with what it may be") {
  CHECK(says(complaint("optics: {pupil: {coma_waves: 0.1}}"), "optics.pupil: found"));
  CHECK(says(complaint("optics: {shape: pupil, pupil: {numerical_aperture: 1.5, index: 1.33}}"),
             "at most 0.99 of the index"));
  CHECK(says(complaint("optics: {shape: pupil, pixel_size_nm: 300}"), "wavelength_nm"));
  CHECK(says(complaint("optics: {shape: pupil, pixel_size_nm: 50}"), "wavelength_nm"));
  CHECK(
      says(complaint("optics: {shape: pupil, pupil: {numerical_aperture: 1.5, wavelength_nm: 400, "
                     "range_nm: 1500}}"),
           "range_nm"));
  CHECK(says(complaint("markers: {count: 3, heights_nm: [1, 2]}"), "heights_nm"));
  CHECK(says(complaint("stage: {z: {sign: 0}}"), "1 or -1"));
  CHECK(says(complaint("stage: {z: {coupling: 0}}"), "not 0"));
  CHECK(says(complaint("faults: [{kind: stage_dead, axes: x}]"), "axes"));
}

TEST_CASE("The values of a harsh world arrive where they belong") {
  const Scenario scenario = load_scenario_text(R"(
optics: {shape: airy, defocus_waves: -0.3, motion_blur: true}
illumination: {flicker_share: 0.01, flicker_bandwidth_hz: 30, ripple_share: 0.02, ripple_hz: 120}
background: {structure_share: 0.2, grain_px: 15, speed_x_nm_per_s: 3, speed_y_nm_per_s: -4}
camera:
  {clock_jitter_us: 5, clock_step_us: 6, clock_step_every_s: 7, delivery_jitter_us: 8,
   dialect: {names: legacy, gain: raw, rate_gate: mode_basic, left_aligned: true,
             tick_hz: 125000000},
   left_over: {binning_x: 4, binning_y: 2, reverse_x: true, reverse_y: true}}
disturbance: {rotation_urad_per_s: 0.5, scale_ppm_per_s: -0.25}
stage: {axis_gain: [1.05, 0.97], coupling: [0.01, -0.02], turn_deg: 3, slew_nm_per_s: 40000,
        hysteresis_share: 0.06, hysteresis_reach_nm: 90, creep_share_per_decade: 0.015,
        delay_jitter_ms: 0.4}
)",
                                               "s.yaml");
  CHECK(scenario.optics.shape == SpotShape::Airy);
  CHECK(scenario.optics.defocus_waves == -0.3);
  CHECK(scenario.optics.motion_blur);
  CHECK(scenario.illumination.flicker_share == 0.01);
  CHECK(scenario.illumination.flicker_bandwidth_hz == 30);
  CHECK(scenario.illumination.ripple_share == 0.02);
  CHECK(scenario.illumination.ripple_hz == 120);
  CHECK(scenario.background.structure_share == 0.2);
  CHECK(scenario.background.grain_px == 15);
  CHECK(scenario.background.speed_nm_per_s.x == 3);
  CHECK(scenario.background.speed_nm_per_s.y == -4);
  CHECK(scenario.camera.clock_jitter_us == 5);
  CHECK(scenario.camera.clock_step_us == 6);
  CHECK(scenario.camera.clock_step_every_s == 7);
  CHECK(scenario.camera.delivery_jitter_us == 8);
  CHECK(scenario.camera.dialect.names == FeatureNames::Legacy);
  CHECK(scenario.camera.dialect.gain == GainUnit::Raw);
  CHECK(scenario.camera.dialect.rate_gate == RateGate::ModeBasic);
  CHECK(scenario.camera.dialect.left_aligned);
  CHECK(scenario.camera.dialect.tick_hz == 125'000'000);
  CHECK(scenario.camera.left_over.binning_x == 4);
  CHECK(scenario.camera.left_over.binning_y == 2);
  CHECK(scenario.camera.left_over.reverse_x);
  CHECK(scenario.camera.left_over.reverse_y);
  CHECK(scenario.field.rotation_urad_per_s == 0.5);
  CHECK(scenario.field.scale_ppm_per_s == -0.25);
  CHECK(scenario.stage.axis_gain[1] == 0.97);
  CHECK(scenario.stage.coupling[0] == 0.01);
  CHECK(scenario.stage.coupling[1] == -0.02);
  CHECK(scenario.stage.turn_deg == 3);
  CHECK(scenario.stage.slew_nm_per_s == 40000);
  CHECK(scenario.stage.hysteresis_share == 0.06);
  CHECK(scenario.stage.hysteresis_reach_nm == 90);
  CHECK(scenario.stage.creep_share_per_decade == 0.015);
  CHECK(scenario.stage.delay_jitter_ms == 0.4);
}

TEST_CASE("A mistake names file, line, column, key, what was found and what is allowed") {
  const std::string range = complaint("camera:\n  rate_hz: -3\n");
  CHECK(range == "s.yaml:2:12: camera.rate_hz: found -3; allowed a number from 0.1 to 10000");
  const std::string unknown = complaint("optics:\n  pixel_size: 100\n");
  CHECK(unknown ==
        "s.yaml:2:3: optics.pixel_size: found an unknown key; did you mean optics.pixel_size_nm?");
}

TEST_CASE("Every kind of mistake is refused") {
  CHECK(says(complaint("cameras: {}"), "did you mean camera?"));
  CHECK(says(complaint("zzzzzzzzz: 1"), "zzzzzzzzz: found an unknown key"));
  CHECK_FALSE(says(complaint("zzzzzzzzz: 1"), "did you mean"));
  CHECK(says(complaint("camera: 5"), "camera: found 5; allowed a mapping of keys"));
  CHECK(says(complaint("camera: {width_px: many}"), "found \"many\""));
  CHECK(says(complaint("camera: {width_px: 100.5}"), "a whole number"));
  CHECK(says(complaint("camera: {width_px: 130}"), "multiple of 4"));
  CHECK(says(complaint("camera: {rate_hz: .nan}"), "camera.rate_hz"));
  CHECK(says(complaint("camera: {rate_hz: .inf}"), "camera.rate_hz"));
  CHECK(says(complaint("camera: {rate_hz: 1, rate_hz: 2}"), "found twice"));
  CHECK(says(complaint("seed: -1"), "seed: found -1; allowed a whole number from 0"));
  CHECK(says(complaint("optics: {sigma_y_px: 0.1}"), "circular"));
  CHECK(says(complaint("markers: {count: 3, positions_px: [[1, 2]]}"), "none together"));
  CHECK(says(complaint("markers: {positions_px: [[1, 999]]}"),
             "positions_px[0][1]: found 999; allowed a number from 0 to 255"));
  CHECK(
      says(complaint("markers: {positions_px: [3]}"), "positions_px[0]: found 3; allowed [x, y]"));
  CHECK(says(complaint("markers: {border_px: 128}"), "leaves room"));
  CHECK(says(complaint("markers: {blink: {share: 2}}"), "markers.blink.share"));
  CHECK(says(complaint("disturbance: {x: {sines: [{hz: 3}]}}"), "disturbance.x.sines[0].hz"));
  CHECK(says(complaint("disturbance: {x: {sines: 3}}"), "allowed a list"));
  CHECK(says(complaint("stage: {image_to_stage: [1, 1, 1, 1]}"), "can be inverted"));
  CHECK(says(complaint("stage: {image_to_stage: [1, 2, 3]}"), "list of 4"));
  CHECK(says(complaint("stage: {axis_sign: [1, 0]}"), "1 or -1"));
  CHECK(says(complaint("stage: {stuck: perhaps}"), "true or false"));
  CHECK(says(complaint("faults: [{kind: explode}]"), "one of vanish, drop_frames"));
  CHECK(says(complaint("faults: [{kind: stage_gain, factor: -1}]"), "from 0 to 1000"));
  CHECK(says(complaint("camera: {clock_rate: -1}"), "from 0 to 1000"));
  CHECK(says(complaint("faults: [{kind: detach_marker, index: 16}]"), "from 0 to 15"));
  CHECK(says(complaint("faults: [{at_s: 1}]"), "faults[0].kind: found no such key"));
  CHECK(says(complaint("seed:"), "s.yaml:1:1: seed: found nothing"));
  CHECK(says(complaint("camera: {rate_hz: '5'}"), "found \"5\"; allowed a number"));
  CHECK(says(complaint("markers: {border_px: 20}\ncamera: {width_px: 16, height_px: 16}"),
             "markers.border_px: found 20"));
  CHECK(says(complaint("camera: {width_px: 16, height_px: 16}"),
             "markers.border_px: found the default"));
  CHECK(says(complaint("a: [1"), "not valid YAML"));
  CHECK(says(complaint("optics: {shape: round}"), "one of gaussian, airy"));
  CHECK(says(complaint("optics: {defocus_waves: 1}"), "found 1; allowed 0, or shape: airy"));
  CHECK(says(complaint("optics: {shape: airy, sigma_y_px: 2}"), "optics.sigma_y_px: found 2"));
  CHECK(says(complaint("background: {structure_share: 2}"), "background.structure_share: found 2"));
  CHECK(says(complaint("illumination: {ripple: 2}"), "did you mean illumination.ripple_hz?"));
  CHECK(says(complaint("disturbance: {rotation: 1}"), "disturbance.rotation: found an unknown"));
  CHECK(says(complaint("stage: {axis_gain: [1]}"), "stage.axis_gain"));
  CHECK(says(complaint("stage: {axis_gain: [1, 0]}"), "stage.axis_gain"));
  CHECK(says(complaint("stage: {coupling: 0.1}"), "list of 2"));
  CHECK(says(complaint("stage: {hysteresis_share: 1}"), "from 0 to 0.9"));
  CHECK(says(complaint("stage: {creep_share_per_decade: -1}"), "from 0 to 0.2"));
  CHECK(says(complaint("camera: {clock_step_every_s: 0}"), "camera.clock_step_every_s: found 0"));
  CHECK(says(complaint("camera: {dialect: {gain: dB}}"), "one of db, factor, raw"));
  CHECK(says(complaint("camera: {dialect: {names: old}}"), "one of standard, legacy"));
  CHECK(says(complaint("camera: {dialect: {rate_gate: on}}"), "enable, mode"));
  CHECK(says(complaint("camera: {dialect: {tick_hz: 5}}"), "0 (no clock) or a whole number"));
  CHECK(says(complaint("camera: {left_over: {binning_x: 3}}"), "allowed 1, 2 or 4"));
  CHECK(says(complaint("camera: {left_over: {binning_y: 5}}"), "camera.left_over.binning_y"));
}

TEST_CASE("All mistakes of a file are told at once") {
  const std::string all = complaint("camera: {rate_hz: 0}\nmarkers: {count: -1}\nnothing: 1\n");
  CHECK(says(all, "s.yaml:1:"));
  CHECK(says(all, "\ns.yaml:2:"));
  CHECK(says(all, "\ns.yaml:3:"));
}

TEST_CASE("Every scenario among the examples loads and runs") {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(driftd::test::source_dir() / "config/examples")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("scenario-") || !name.ends_with(".yaml")) continue;
    INFO(name);
    Simulation simulation(load_scenario(entry.path()));
    simulation.advance(10'000'000);
    CHECK(simulation.now_ns() == 10'000'000);
    ++examples;
  }
  CHECK(examples >= 2);
}

TEST_CASE("A file that is not there is said to be unreadable") {
  CHECK_THROWS_AS(load_scenario("/nonexistent/scenario.yaml"), ScenarioError);
}

TEST_CASE("The names of faults are read back") {
  for (const FaultKind kind :
       {FaultKind::Vanish, FaultKind::DropFrames, FaultKind::CorruptFrames, FaultKind::LosePackets,
        FaultKind::HideMarkers, FaultKind::StageStuck, FaultKind::Step, FaultKind::DetachMarker,
        FaultKind::WalkMarker, FaultKind::Intruder, FaultKind::StageDead, FaultKind::StageReversed,
        FaultKind::StageGain, FaultKind::StageTurned, FaultKind::ClockStep, FaultKind::ClockJump,
        FaultKind::ClockRate, FaultKind::ClockAbsent}) {
    FaultKind read{};
    CHECK(fault_from_name(name_of(kind), read));
    CHECK(read == kind);
  }
  FaultKind kind{};
  CHECK_FALSE(fault_from_name("", kind));
}
