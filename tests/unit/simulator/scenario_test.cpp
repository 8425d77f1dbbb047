// SPDX-License-Identifier: MIT
#include "camera/simulator/scenario.hpp"

#include <string>

#include "support/catch.hpp"

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
camera: {width_px: 320, height_px: 200, rate_hz: 250, bit_depth: 10, clock_offset_ns: -5, first_frame_id: 65000}
markers:
  positions_px: [[10, 20.5], [30, 40]]
  blink: {share: 0.5, on_s: 1, off_s: 2}
disturbance:
  x: {linear_nm_per_s: 2, step_nm: 9, step_at_s: 3}
  y: {sines: [{amplitude_nm: 1, frequency_hz: 50, phase_deg: 90}]}
stage: {image_to_stage: [0, 1, -1, 0], axis_sign: [1, -1], delay_ms: 4, endpoint: "tcp://127.0.0.1:5555"}
faults:
  - {kind: drop_frames, at_s: 5, seconds: 2, share: 0.3}
  - {kind: detach_marker, at_s: 6, index: 1}
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
  CHECK(scenario.stage.image_to_stage[1][0] == -1);
  CHECK(scenario.stage.axis_sign[1] == -1);
  CHECK(scenario.stage_endpoint == "tcp://127.0.0.1:5555");
  REQUIRE(scenario.faults.size() == 2);
  CHECK(scenario.faults[0].kind == FaultKind::DropFrames);
  CHECK(scenario.faults[0].share == 0.3);
  CHECK(scenario.faults[1].index == 1);
}

TEST_CASE("A mistake names file, line, column, key, what was found and what is allowed") {
  const std::string range = complaint("camera:\n  rate_hz: -3\n");
  CHECK(range == "s.yaml:2:12: camera.rate_hz: found '-3'; allowed is a number from 0.1 to 10000");
  const std::string unknown = complaint("optics:\n  pixel_size: 100\n");
  CHECK(unknown == "s.yaml:2:3: optics.pixel_size: unknown key; did you mean 'pixel_size_nm'?");
}

TEST_CASE("Every kind of mistake is refused") {
  CHECK(says(complaint("cameras: {}"), "did you mean 'camera'?"));
  CHECK(says(complaint("zzzzzzzzz: 1"), "zzzzzzzzz: unknown key"));
  CHECK_FALSE(says(complaint("zzzzzzzzz: 1"), "did you mean"));
  CHECK(says(complaint("camera: 5"), "expected a mapping"));
  CHECK(says(complaint("camera: {width_px: many}"), "found 'many'"));
  CHECK(says(complaint("camera: {width_px: 100.5}"), "a whole number"));
  CHECK(says(complaint("camera: {width_px: 130}"), "multiple of 4"));
  CHECK(says(complaint("camera: {rate_hz: .nan}"), "camera.rate_hz"));
  CHECK(says(complaint("camera: {rate_hz: .inf}"), "camera.rate_hz"));
  CHECK(says(complaint("camera: {rate_hz: 1, rate_hz: 2}"), "given twice"));
  CHECK(says(complaint("seed: -1"), "negative"));
  CHECK(says(complaint("optics: {sigma_y_px: 0.1}"), "circular"));
  CHECK(says(complaint("markers: {count: 3, positions_px: [[1, 2]]}"), "not together"));
  CHECK(says(complaint("markers: {positions_px: [[1, 999]]}"), "on the sensor"));
  CHECK(says(complaint("markers: {positions_px: [3]}"), "on the sensor"));
  CHECK(says(complaint("markers: {border_px: 128}"), "no room"));
  CHECK(says(complaint("markers: {blink: {share: 2}}"), "markers.blink.share"));
  CHECK(says(complaint("disturbance: {x: {sines: [{hz: 3}]}}"), "disturbance.x.sines[0].hz"));
  CHECK(says(complaint("disturbance: {x: {sines: 3}}"), "allowed is a list"));
  CHECK(says(complaint("stage: {image_to_stage: [1, 1, 1, 1]}"), "cannot be inverted"));
  CHECK(says(complaint("stage: {image_to_stage: [1, 2, 3]}"), "list of 4"));
  CHECK(says(complaint("stage: {axis_sign: [1, 0]}"), "1 or -1"));
  CHECK(says(complaint("stage: {stuck: perhaps}"), "true or false"));
  CHECK(says(complaint("faults: [{kind: explode}]"), "one of vanish, drop_frames"));
  CHECK(says(complaint("faults: [{kind: detach_marker, index: 16}]"), "from 0 to 15"));
  CHECK(says(complaint("a: [1"), "not YAML"));
}

TEST_CASE("All mistakes of a file are told at once") {
  const std::string all = complaint("camera: {rate_hz: 0}\nmarkers: {count: -1}\nnothing: 1\n");
  CHECK(says(all, "s.yaml:1:"));
  CHECK(says(all, "\ns.yaml:2:"));
  CHECK(says(all, "\ns.yaml:3:"));
}

TEST_CASE("A file that is not there is said to be unreadable") {
  CHECK_THROWS_AS(load_scenario("/nonexistent/scenario.yaml"), ScenarioError);
}

TEST_CASE("The names of faults are read back") {
  for (const FaultKind kind :
       {FaultKind::Vanish, FaultKind::DropFrames, FaultKind::CorruptFrames, FaultKind::LosePackets,
        FaultKind::HideMarkers, FaultKind::StageStuck, FaultKind::Step, FaultKind::DetachMarker,
        FaultKind::Intruder}) {
    FaultKind read{};
    CHECK(fault_from_name(name_of(kind), read));
    CHECK(read == kind);
  }
  FaultKind kind{};
  CHECK_FALSE(fault_from_name("", kind));
}
