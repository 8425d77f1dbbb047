// SPDX-License-Identifier: MIT
#include "simulator/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/source_dir.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

/// A still world with one marker on a 32x32 sensor and no noise of the stage.
Scenario still_world() {
  Scenario scenario;
  scenario.camera.width_px = scenario.camera.height_px = 32;
  scenario.camera.offset_pattern_adu = scenario.camera.gain_pattern = 0;
  scenario.markers.positions_px = {{16, 16}};
  scenario.markers.photons_spread = 0;
  scenario.stage.noise_nm = 0;
  scenario.stage.quantisation_nm = 0;
  return scenario;
}

SensorSettings settings_of(const Scenario& scenario) {
  SensorSettings settings;
  settings.width_px = scenario.camera.width_px;
  settings.height_px = scenario.camera.height_px;
  settings.exposure_us = scenario.camera.exposure_us;
  return settings;
}

struct Image {
  Truth truth;
  std::vector<std::uint16_t> levels;
  double electrons = 0;  ///< above offset and background, all pixels
  Vec2 centroid_px;
};

Image expose(Simulation& simulation, double at_s) {
  const Scenario& scenario = simulation.scenario();
  Image image;
  image.levels.resize(static_cast<std::size_t>(scenario.camera.width_px) *
                      static_cast<std::size_t>(scenario.camera.height_px));
  image.truth =
      simulation.expose(std::llround(at_s * 1e9), settings_of(scenario), image.levels.data());
  const double floor =
      scenario.camera.offset_adu + scenario.camera.background_e / scenario.camera.gain_e_per_adu;
  const auto width = static_cast<std::size_t>(scenario.camera.width_px);
  for (std::size_t i = 0; i < image.levels.size(); ++i) {
    const double signal = image.levels[i] - floor;
    image.electrons += signal * scenario.camera.gain_e_per_adu;
    image.centroid_px.x += signal * static_cast<double>(i % width);
    image.centroid_px.y += signal * static_cast<double>(i / width);
  }
  image.centroid_px.x *= scenario.camera.gain_e_per_adu / image.electrons;
  image.centroid_px.y *= scenario.camera.gain_e_per_adu / image.electrons;
  return image;
}

/// Noise of `electrons` over the whole 32x32 image: photons, background and read noise.
double light_sd(double electrons) {
  return std::sqrt(electrons + 1024 * (20 + 9 + 16.0 / 12));
}

}  // namespace

TEST_CASE("What the image shows is disturbance plus the stage's part") {
  Scenario scenario = still_world();
  scenario.disturbance_x.step_nm = 150;
  scenario.disturbance_y.step_nm = -80;
  scenario.stage.image_to_stage = {{{0.96, 0.28}, {0.28, -0.96}}};
  Simulation simulation(scenario);
  const Image drifted = expose(simulation, 0.01);
  CHECK(drifted.truth.sample_nm.x == Approx(150));
  CHECK(drifted.truth.sample_nm.y == Approx(-80));
  // The pixels show it: 100 nm a pixel. Centroids over 1024 pixels are good to about 0.1 px.
  CHECK(drifted.centroid_px.x == Approx(17.5).margin(0.2));
  CHECK(drifted.centroid_px.y == Approx(15.2).margin(0.2));

  // The correction of the convention, -M * drift, brings the sample back.
  const Vec2 correction = {-(0.96 * 150 + 0.28 * -80), -(0.28 * 150 - 0.96 * -80)};
  simulation.command_stage(simulation.now_ns(), correction);
  const Image held = expose(simulation, 0.2);
  CHECK(held.truth.stage_nm.x == Approx(correction.x));
  CHECK(held.truth.sample_nm.x == Approx(0).margin(1e-6));
  CHECK(held.truth.sample_nm.y == Approx(0).margin(1e-6));
  CHECK(held.truth.disturbance_nm.x == Approx(150));
  CHECK(held.centroid_px.x == Approx(16).margin(0.2));
  CHECK(held.centroid_px.y == Approx(16).margin(0.2));
}

TEST_CASE("A frame shows the mean motion of its exposure") {
  Scenario scenario = still_world();
  scenario.disturbance_x.linear_nm_per_s = 1000;
  scenario.camera.exposure_us = 10000;
  Simulation simulation(scenario);
  const Truth truth = simulation.expose(kSecondNs, settings_of(scenario), nullptr);
  CHECK(truth.middle_ns == kSecondNs + 5'000'000);
  // The grid of 0.1 ms samples the exposure from its start on: half a tick early.
  CHECK(truth.sample_nm.x == Approx(1005).margin(0.051));
}

TEST_CASE("The same scenario gives the same world, another seed another one") {
  const std::string name =
      GENERATE("scenario-demo.yaml", "scenario-harsh.yaml", "scenario-axial.yaml");
  Scenario scenario = load_scenario(driftd::test::source_dir() / "config/examples" / name);
  const auto run = [&scenario](std::uint64_t seed) {
    scenario.seed = seed;
    Simulation simulation(scenario);
    simulation.command_stage(0, {5, 5});
    Image image;
    for (int i = 0; i < 3; ++i) image = expose(simulation, 0.5 + 0.002 * i);
    return image;
  };
  const Image first = run(3);
  const Image again = run(3);
  const Image other = run(4);
  CHECK(first.levels == again.levels);
  CHECK(first.truth.sample_nm.x == again.truth.sample_nm.x);
  CHECK(first.levels != other.levels);
  CHECK(first.truth.sample_nm.x != other.truth.sample_nm.x);
}

TEST_CASE("Random markers keep their distance, and too many are refused") {
  Scenario scenario;
  scenario.markers.min_distance_px = 30;
  MarkerField field(scenario, 5);
  std::vector<Spot> spots;
  field.step(0.0001);
  field.spots({}, spots);
  REQUIRE(spots.size() == 16);
  for (std::size_t i = 0; i < spots.size(); ++i) {
    CHECK(spots[i].x_px >= scenario.markers.border_px);
    CHECK(spots[i].y_px <= 255 - scenario.markers.border_px);
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(std::hypot(spots[i].x_px - spots[j].x_px, spots[i].y_px - spots[j].y_px) >= 30);
    }
  }
  scenario.markers.count = 500;
  CHECK_THROWS_AS(MarkerField(scenario, 5), ScenarioError);
}

TEST_CASE("Markers bleach") {
  Scenario scenario = still_world();
  scenario.markers.bleach_tau_s = 2;
  Simulation simulation(scenario);
  const double light = expose(simulation, 2).electrons;
  CHECK(std::abs(light - 30000 * std::exp(-1)) < 4 * light_sd(light) + 20);
}

TEST_CASE("Blinking markers are dark for their share of the time") {
  Scenario scenario = still_world();
  scenario.markers.blink = {1.0, 0.02, 0.01};
  Simulation simulation(scenario);
  int dark = 0;
  constexpr int kFrames = 3000;
  for (int i = 0; i < kFrames; ++i) {
    if (expose(simulation, 0.01 * i).electrons < 5000) ++dark;
  }
  // A third of the time. Frames 10 ms apart are correlated by exp(-1.5), which widens the binomial
  // standard deviation of 0.9 % to 1.1 %.
  CHECK(dark / static_cast<double>(kFrames) == Approx(1.0 / 3).margin(0.045));
}

TEST_CASE("Faults happen when the time line or a command says, and end") {
  Scenario scenario = still_world();
  SECTION("markers hidden on the time line") {
    scenario.faults = {{FaultKind::HideMarkers, 0.5, 0.2, 0, 0, 0, 0}};
    Simulation simulation(scenario);
    const auto lit = [&](double at_s) {
      const Image image = expose(simulation, at_s);
      CHECK(image.truth.markers_hidden == (image.electrons < 5000));
      return image.electrons > 25000;
    };
    CHECK(lit(0.49));
    CHECK_FALSE(lit(0.51));
    CHECK_FALSE(lit(0.68));
    CHECK(lit(0.71));
  }
  SECTION("camera away") {
    scenario.faults = {{FaultKind::Vanish, 1, 2, 0, 0, 0, 0}};
    Simulation simulation(scenario);
    simulation.advance(kSecondNs - kTickNs);
    CHECK_FALSE(simulation.camera_away());
    simulation.advance(kSecondNs + kTickNs);
    CHECK(simulation.camera_away());
    simulation.advance(3 * kSecondNs + kTickNs);
    CHECK_FALSE(simulation.camera_away());
  }
  SECTION("frames dropped and corrupted in their share") {
    Simulation simulation(scenario);
    CHECK(simulation.next_frame_fate() == FrameFate::Send);
    Fault fault{FaultKind::DropFrames, 0, 1, 0.25, 0, 0, 0};
    simulation.inject(fault);
    constexpr int kFrames = 4000;
    int dropped = 0;
    for (int i = 0; i < kFrames; ++i) dropped += simulation.next_frame_fate() == FrameFate::Drop;
    CHECK(dropped / static_cast<double>(kFrames) == Approx(0.25).margin(0.03));
    simulation.advance(2 * kSecondNs);
    CHECK(simulation.next_frame_fate() == FrameFate::Send);
    fault = {FaultKind::CorruptFrames, 0, 1, 1.0, 0, 0, 0};
    simulation.inject(fault);
    CHECK(simulation.next_frame_fate() == FrameFate::Corrupt);
    fault = {FaultKind::LosePackets, 0, 1, 0.1, 0, 0, 0};
    simulation.inject(fault);
    CHECK(simulation.packet_loss() == 0.1);
    simulation.advance(4 * kSecondNs);
    CHECK(simulation.packet_loss() == 0);
  }
  SECTION("stage stuck") {
    Simulation simulation(scenario);
    simulation.inject({FaultKind::StageStuck, 0, 1, 0, 0, 0, 0});
    simulation.command_stage(0, {50, 0});
    const Image stuck = expose(simulation, 0.5);
    CHECK(stuck.truth.stage_stuck);
    CHECK(stuck.truth.stage_nm.x == 0);
    CHECK(stuck.truth.commanded_nm.x == 50);
    simulation.command_stage(1'100'000'000, {60, 0});
    const Image free = expose(simulation, 1.3);
    CHECK_FALSE(free.truth.stage_stuck);
    CHECK(free.truth.stage_nm.x == Approx(60));
  }
  SECTION("a stage that is dead, reversed, too strong or turned") {
    scenario.stage.image_to_stage = {{{0, 1}, {-1, 0}}};
    Simulation simulation(scenario);
    simulation.command_stage(0, {10, 7});
    const auto stage_at = [&](double at_s) { return expose(simulation, at_s).truth.stage_nm; };
    CHECK(stage_at(0.1).y == Approx(7));
    Fault fault{.kind = FaultKind::StageReversed};
    simulation.inject(fault);
    simulation.command_stage(100'000'000, {11, 5});
    CHECK(stage_at(0.2).x == Approx(9));
    CHECK(stage_at(0.2).y == Approx(9));
    fault = {.kind = FaultKind::StageGain, .factor = 2};
    simulation.inject(fault);
    simulation.command_stage(200'000'000, {12, 5});
    CHECK(stage_at(0.3).x == Approx(11));
    fault = {.kind = FaultKind::StageTurned, .degrees = 90};
    simulation.inject(fault);
    simulation.command_stage(300'000'000, {15, 5});
    CHECK(stage_at(0.4).x == Approx(11));
    CHECK(stage_at(0.4).y == Approx(12));
    fault = {.kind = FaultKind::StageDead};
    simulation.inject(fault);
    simulation.command_stage(400'000'000, {0, 0});
    CHECK(stage_at(9).y == Approx(12));
    CHECK(expose(simulation, 9.1).truth.stage_stuck);
  }
  SECTION("the camera's clock") {
    scenario.camera.clock_rate = 1.00025;
    Simulation simulation(scenario);
    simulation.advance(2 * kSecondNs);
    CHECK(simulation.clock_error_ns(2 * kSecondNs) == 500'000);
    simulation.inject({.kind = FaultKind::ClockStep, .shift_s = -1});
    CHECK(simulation.clock_error_ns(2 * kSecondNs) == 500'000 - kSecondNs);
    simulation.inject({.kind = FaultKind::ClockRate, .factor = 0});  // goes on from what it shows
    CHECK(simulation.clock_error_ns(2 * kSecondNs) == 500'000 - kSecondNs);
    CHECK(simulation.clock_error_ns(3 * kSecondNs) == 500'000 - 2 * kSecondNs);
    CHECK(simulation.take_frame_time_error_ns() == 0);
    simulation.inject({.kind = FaultKind::ClockJump, .shift_s = 0.25});
    CHECK(simulation.take_frame_time_error_ns() == kSecondNs / 4);
    CHECK(simulation.take_frame_time_error_ns() == 0);
    simulation.inject({.kind = FaultKind::ClockAbsent, .seconds = 0.5});
    CHECK_FALSE(simulation.clock_error_ns(2 * kSecondNs).has_value());
    simulation.advance(2 * kSecondNs + kSecondNs / 2);
    CHECK(simulation.clock_error_ns(2 * kSecondNs).has_value());
    scenario.camera.clock_absent = true;
    CHECK_FALSE(Simulation(scenario).clock_error_ns(0).has_value());
  }
  SECTION("a jump of the sample") {
    Simulation simulation(scenario);
    simulation.inject({FaultKind::Step, 0, 0, 0, 30, -20, 0});
    simulation.inject({FaultKind::Step, 0, 0, 0, 10, 0, 0});
    const Truth truth = expose(simulation, 0.1).truth;
    CHECK(truth.disturbance_nm.x == Approx(40));
    CHECK(truth.sample_nm.y == Approx(-20));
  }
}

TEST_CASE("A marker walks as far and as long as it is told to, the others stay") {
  Scenario scenario = still_world();
  scenario.markers.positions_px = {{8, 8}, {24, 24}};
  MarkerField field(scenario, 1);
  CHECK_FALSE(field.walk(2, {1, 1}, 0, 1));
  const auto at = [&field](std::size_t i) {
    std::vector<Spot> spots;
    field.spots({}, spots);
    return Vec2{spots[i].x_px, spots[i].y_px};
  };
  const double pixel_nm = scenario.optics.pixel_size_nm;
  REQUIRE(field.walk(1, {10, -20}, 0, 2));
  for (int i = 1; i <= 10000; ++i) field.step(i * 1e-4);
  CHECK((at(1).x - 24) * pixel_nm == Approx(5).margin(0.01));
  CHECK((at(1).y - 24) * pixel_nm == Approx(-10).margin(0.01));
  for (int i = 10001; i <= 40000; ++i) field.step(i * 1e-4);
  CHECK((at(1).x - 24) * pixel_nm == Approx(10).margin(0.01));
  CHECK((at(1).y - 24) * pixel_nm == Approx(-20).margin(0.01));
  REQUIRE(field.walk(1, {-10, 0}, 0, 0));  // at once
  CHECK((at(1).x - 24) * pixel_nm == Approx(0).margin(0.01));
  CHECK(at(0).x == 8);
}

TEST_CASE("A detached marker leaves the others, an intruder passes through one") {
  Scenario scenario = still_world();
  scenario.markers.positions_px = {{8, 8}, {24, 24}};
  scenario.markers.wander_nm_per_sqrt_s = 50;
  Simulation simulation(scenario);
  CHECK_FALSE(simulation.inject({FaultKind::DetachMarker, 0, 0, 0, 0, 0, 2}));
  CHECK_FALSE(simulation.inject({FaultKind::Intruder, 0, 1, 0, 0, 0, -1}));
  SECTION("detached: a random walk of its own") {
    Moments ends;
    std::vector<Spot> spots;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      MarkerField field(scenario, seed);
      REQUIRE(field.detach(1));
      for (int i = 1; i <= 1000; ++i) field.step(i * 1e-4);
      field.spots({}, spots);
      REQUIRE(spots[0].x_px == 8);
      ends.add((spots[1].x_px - 24) * 100);
    }
    // 50 nm/sqrt(s) for 0.1 s.
    CHECK(ends.variance() == Approx(250).epsilon(4 * std::sqrt(2.0 / 200)));
  }
  SECTION("intruder: brighter than the markers, over its marker at half time, then gone") {
    scenario.markers.intruder_speed_nm_per_s = 1000;
    MarkerField field(scenario, 1);
    std::vector<Spot> spots;
    field.step(1.0);
    REQUIRE(field.pass_intruder(0, 1.0, 0.4));
    field.step(1.2);
    field.spots({{100, 0}, 0, true}, spots);
    REQUIRE(spots.size() == 1);
    CHECK(spots[0].x_px == Approx(8 + 1.0));
    CHECK(spots[0].electrons == 300000);
    field.step(1.25);
    field.spots({{0, 0}, 0, true}, spots);
    CHECK(spots[0].x_px == Approx(8 + 0.5));
    field.step(1.41);
    field.spots({{0, 0}, 0, true}, spots);
    CHECK(spots.empty());
  }
}

TEST_CASE("An integrator that knows the convention holds the demo's sample still") {
  // The lock in its simplest form, in pure physics: true displacement plus measurement noise,
  // averaged drift times a gain, what is already on its way accounted for. It shows that the demo
  // scenario can be held to 1 nm, and what a loop of this kind leaves.
  const Scenario scenario =
      load_scenario(driftd::test::source_dir() / "config/examples/scenario-demo.yaml");
  Simulation locked(scenario);
  Simulation unlocked(scenario);
  const auto& m = scenario.stage.image_to_stage;
  const SensorSettings settings = settings_of(scenario);
  Random noise(1, 99);
  constexpr double kGain = 0.15;
  // Sixteen markers of 30,000 photons, sigma 130 nm: 130 / sqrt(16 * 30000) nm, a third more for
  // unweighted least squares.
  constexpr double kMeasurementNm = 0.25;
  constexpr std::size_t kOnTheWay = 3;  ///< frames between a command and its full effect
  std::deque<Vec2> pending(kOnTheWay, Vec2{});
  Vec2 correction;
  Moments held_x, held_y, free_x, free_y;
  for (int frame = 0; frame < 11000; ++frame) {
    const std::int64_t start_ns = frame * (kSecondNs / 500);
    const Truth truth = locked.expose(start_ns, settings, nullptr);
    const Truth without = unlocked.expose(start_ns, settings, nullptr);
    if (frame >= 1000) {  // 2 s to settle, then 20 s
      held_x.add(truth.sample_nm.x);
      held_y.add(truth.sample_nm.y);
      free_x.add(without.sample_nm.x);
      free_y.add(without.sample_nm.y);
    }
    Vec2 drift = {truth.sample_nm.x + kMeasurementNm * noise.normal(),
                  truth.sample_nm.y + kMeasurementNm * noise.normal()};
    for (const Vec2& step : pending) {  // image displacement still to come
      drift.x += step.x;
      drift.y += step.y;
    }
    const Vec2 step = {-kGain * drift.x, -kGain * drift.y};
    pending.pop_front();
    pending.push_back(step);
    correction.x += m[0][0] * step.x + m[0][1] * step.y;
    correction.y += m[1][0] * step.x + m[1][1] * step.y;
    locked.command_stage(start_ns + 1'700'000, correction);  // 0.7 ms after the exposure
  }
  const auto rms = [](const Moments& moments) {
    return std::sqrt(moments.variance() + moments.mean() * moments.mean());
  };
  INFO("held " << rms(held_x) << " " << rms(held_y) << " nm, free " << std::sqrt(free_x.variance())
               << " " << std::sqrt(free_y.variance()) << " nm");
  CHECK(rms(held_x) < 0.8);
  CHECK(rms(held_y) < 0.8);
  // Even about its own mean the free sample moves by far more than 20 nm rms in the same time.
  CHECK(std::sqrt(free_x.variance()) > 25);
  CHECK(std::sqrt(free_y.variance()) > 25);
}
