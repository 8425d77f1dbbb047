// SPDX-License-Identifier: MIT
// The world's third axis: what moves in z, what of it frames show, and that a flat world stays as
// it was.
#include <array>
#include <cmath>
#include <vector>

#include "simulator/simulation.hpp"
#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Two markers in a corner each, without noise of the stages.
Scenario small_world() {
  Scenario scenario;
  scenario.camera.width_px = 96;
  scenario.camera.height_px = 64;
  scenario.camera.offset_pattern_adu = scenario.camera.gain_pattern = 0;
  scenario.camera.gain_e_per_adu = 1;
  scenario.camera.bit_depth = 16;
  scenario.markers.positions_px = {{20, 18}, {74, 44}};
  scenario.markers.photons_spread = 0;
  scenario.stage.noise_nm = scenario.stage.quantisation_nm = 0;
  return scenario;
}

SensorSettings settings_of(const Scenario& scenario) {
  SensorSettings settings;
  settings.width_px = scenario.camera.width_px;
  settings.height_px = scenario.camera.height_px;
  settings.exposure_us = scenario.camera.exposure_us;
  return settings;
}

FocusStageModel still_focus_stage() {
  FocusStageModel focus;
  focus.actuator.noise_nm = focus.actuator.quantisation_nm = 0;
  return focus;
}

std::vector<Spot> light_at(Simulation& world, std::int64_t time_ns) {
  const Truth truth = world.expose(time_ns, settings_of(world.scenario()), nullptr);
  std::vector<Spot> spots;
  world.light_of(truth, spots);
  return spots;
}

}  // namespace

TEST_CASE("Motion in z, heights and tilt leave a flat world's frames as they are, bit for bit") {
  Scenario flat;
  flat.optics.shape = GENERATE(SpotShape::Gaussian, SpotShape::Airy);
  flat.disturbance_x.random_walk_nm_per_sqrt_s = 30;
  flat.markers.blink = {0.5, 0.02, 0.02};
  flat.markers.bleach_tau_s = 1;
  flat.stage.delay_jitter_ms = 0.3;
  Scenario deep = flat;
  deep.disturbance_z.linear_nm_per_s = 1000;
  deep.disturbance_z.random_walk_nm_per_sqrt_s = 50;
  deep.disturbance_z.broadband.rms_nm = 5;
  deep.markers.height_spread_nm = 60;
  deep.markers.tilt_x_nm_per_um = 2;
  deep.focus_stage.emplace();
  Simulation one(flat);
  Simulation other(deep);
  const SensorSettings settings = settings_of(flat);
  std::vector<std::uint16_t> flat_levels(settings.pixels());
  std::vector<std::uint16_t> deep_levels(settings.pixels());
  for (int frame = 0; frame < 40; ++frame) {
    if (frame == 10) one.command_stage(one.now_ns(), {40, -30});
    if (frame == 10) other.command_stage(other.now_ns(), {40, -30});
    const Truth truth = one.expose(2 * kMs * frame, settings, flat_levels.data());
    const Truth same = other.expose(2 * kMs * frame, settings, deep_levels.data());
    REQUIRE(flat_levels == deep_levels);
    REQUIRE(truth.sample_nm.x == same.sample_nm.x);
    REQUIRE(truth.stage_nm.y == same.stage_nm.y);
    REQUIRE(truth.sample_z_nm == 0);
  }
}

TEST_CASE("The truth in z is disturbance plus focus stage, which tilts the image") {
  Scenario scenario = small_world();
  scenario.disturbance_z.linear_nm_per_s = 100;
  scenario.disturbance_z.settling_nm = 1000;
  scenario.disturbance_z.settling_tau_s = 0.5;
  scenario.focus_stage = still_focus_stage();
  scenario.focus_stage->actuator.axis_gain[0] = 0.9;
  scenario.focus_stage->tilt_x_nm_per_um = 20;
  scenario.focus_stage->tilt_y_nm_per_um = -5;
  Simulation world(scenario);
  const SensorSettings settings = settings_of(scenario);
  const Truth before = world.expose(500 * kMs, settings, nullptr);
  CHECK(before.disturbance_z_nm == Approx(50 + 1000 * (1 - std::exp(-1.0))).margin(1));
  CHECK(before.sample_z_nm == before.disturbance_z_nm);
  CHECK(before.sample_nm.x == 0);
  world.command_focus(world.now_ns(), -400);
  const Truth after = world.expose(700 * kMs, settings, nullptr);
  CHECK(after.stage_z_nm == Approx(-360).margin(0.01));
  CHECK(after.commanded_z_nm == -400);
  CHECK(after.sample_z_nm == Approx(after.disturbance_z_nm - 360).margin(0.01));
  CHECK(after.sample_nm.x == Approx(-7.2).margin(0.01));
  CHECK(after.sample_nm.y == Approx(1.8).margin(0.01));
  CHECK(after.stage_nm.x == 0);
  CHECK(world.stage_z_nm_at(world.now_ns()) == Approx(-360).margin(0.01));
  CHECK(world.inject({.kind = FaultKind::Step, .z_nm = 200}));
  CHECK(world.sample_z_nm() - after.sample_z_nm == Approx(200).margin(1));
}

TEST_CASE("An objective that goes up moves the sample down in its eyes") {
  Scenario scenario = small_world();
  scenario.disturbance_z.step_nm = 10;
  scenario.focus_stage = still_focus_stage();
  scenario.focus_stage->coupling = -0.98;
  Simulation world(scenario);
  world.command_focus(0, 50);
  const Truth truth = world.expose(200 * kMs, settings_of(scenario), nullptr);
  CHECK(truth.stage_z_nm == Approx(50).margin(0.01));  // its own sensor knows nothing of that
  CHECK(truth.sample_z_nm == Approx(10 - 49).margin(0.01));
  CHECK(world.sample_z_nm() == Approx(truth.sample_z_nm).margin(0.01));
}

TEST_CASE("A fault of the focus stage leaves x and y, and the reverse") {
  Scenario scenario = small_world();
  scenario.focus_stage = still_focus_stage();
  Simulation world(scenario);
  const FaultAxes broken = GENERATE(FaultAxes::Lateral, FaultAxes::Axial);
  REQUIRE(world.inject({.kind = FaultKind::StageReversed, .axes = broken}));
  world.command_stage(0, {50, 50});
  world.command_focus(0, 50);
  const Truth truth = world.expose(200 * kMs, settings_of(scenario), nullptr);
  CHECK(truth.stage_nm.x == Approx(broken == FaultAxes::Lateral ? -50 : 50).margin(0.01));
  CHECK(truth.stage_z_nm == Approx(broken == FaultAxes::Axial ? -50 : 50).margin(0.01));
  REQUIRE(world.inject({.kind = FaultKind::StageStuck, .axes = broken}));
  const Truth stuck = world.expose(210 * kMs, settings_of(scenario), nullptr);
  CHECK(stuck.stage_stuck == (broken == FaultAxes::Lateral));
  CHECK(stuck.stage_z_stuck == (broken == FaultAxes::Axial));
  Simulation flat(small_world());
  CHECK_FALSE(flat.inject({.kind = FaultKind::StageDead, .axes = FaultAxes::Axial}));
}

TEST_CASE("Markers have heights and the sample's tilt, and one may climb") {
  Scenario scenario = small_world();
  scenario.markers.heights_nm = {30, -20};
  scenario.markers.tilt_x_nm_per_um = 2;
  scenario.markers.tilt_y_nm_per_um = -5;
  scenario.disturbance_z.step_nm = 7;
  Simulation world(scenario);
  // Pixels of 0.1 um, counted from the middle of the sensor (47.5, 31.5).
  const std::array<double, 2> own = {30 + 2 * -2.75 - 5 * -1.35, -20 + 2 * 2.65 - 5 * 1.25};
  auto spots = light_at(world, 0);
  CHECK(spots[0].z_nm == Approx(7 + own[0]));
  CHECK(spots[1].z_nm == Approx(7 + own[1]));
  CHECK(world.markers().height_nm(1) == Approx(own[1]));
  REQUIRE(world.inject({.kind = FaultKind::WalkMarker, .seconds = 0.1, .index = 1, .z_nm = 50}));
  spots = light_at(world, 200 * kMs);
  CHECK(spots[1].z_nm == Approx(57 + own[1]).margin(0.1));
  CHECK(spots[0].z_nm == Approx(7 + own[0]));

  Moments heights;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Scenario random;
    random.markers.height_spread_nm = 60;
    const MarkerField field(random, seed);
    for (int i = 0; i < 16; ++i) heights.add(field.height_nm(i));
  }
  CHECK(std::abs(heights.mean()) < 4 * 60 / std::sqrt(1600.0));
  CHECK(heights.variance() == Approx(3600).epsilon(4 * std::sqrt(2.0 / 1600)));
}

TEST_CASE("Markers bleach each by a time constant of its own") {
  Scenario scenario = small_world();
  scenario.markers.bleach_tau_s = 0.5;
  scenario.markers.bleach_spread = 0.7;
  Simulation world(scenario);
  const auto spots = light_at(world, 500 * kMs);
  const auto tau_s = [](const Spot& spot) { return -0.5 / std::log(spot.electrons / 30000); };
  CHECK(std::abs(tau_s(spots[0]) - tau_s(spots[1])) > 0.02);
  const auto later = light_at(world, 1500 * kMs);
  // Three times as long at the same time constant: the cube of what was left.
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(later[i].electrons / 30000 ==
          Approx(std::pow(spots[i].electrons / 30000, 3)).epsilon(0.01));
}

TEST_CASE("Light and background change by steps") {
  Scenario scenario = small_world();
  scenario.background.structure_share = GENERATE(0.0, 0.1);
  scenario.background.grain_px = 8;
  Simulation world(scenario);
  const SensorSettings settings = settings_of(scenario);
  std::vector<std::uint16_t> levels(settings.pixels());
  const auto mean_around = [&](int x, int y) {  // of 31 * 31 pixels, above the offset
    double sum = 0;
    for (int row = y - 15; row <= y + 15; ++row)
      for (int column = x - 15; column <= x + 15; ++column)
        sum += levels[static_cast<std::size_t>(row * settings.width_px + column)] - 100.0;
    return sum / (31 * 31);
  };
  world.expose(0, settings, levels.data());
  const double dark = mean_around(48, 46);  // no marker within reach
  const double bright = mean_around(20, 18);
  CHECK(dark == Approx(20).epsilon(0.2));
  REQUIRE(world.inject({.kind = FaultKind::Background, .factor = 3}));
  REQUIRE(world.inject({.kind = FaultKind::Light, .factor = 0.5}));
  world.expose(2 * kMs, settings, levels.data());
  CHECK(mean_around(48, 46) == Approx(3 * dark).epsilon(0.03));
  CHECK(mean_around(20, 18) - 3 * (bright - 30000 / 961.0) == Approx(15000 / 961.0).epsilon(0.08));
}

TEST_CASE("A reflected spot moves with z alone, and goes dark by itself") {
  Scenario scenario = small_world();
  scenario.reflection.photons = 2e5;
  scenario.reflection.place_px = {48, 50};
  scenario.reflection.px_per_um = 30;
  scenario.reflection.direction_deg = 60;
  scenario.reflection.sigma_px = 2.2;
  scenario.disturbance_x.step_nm = 500;
  scenario.disturbance_z.step_nm = 100;
  scenario.disturbance_z.step_at_s = 0.1;
  Simulation world(scenario);
  auto spots = light_at(world, 0);
  REQUIRE(spots.size() == 3);
  CHECK(spots[2].x_px == 48);
  CHECK(spots[2].sigma_px == 2.2);
  spots = light_at(world, 200 * kMs);
  CHECK(spots[2].x_px == Approx(48 + 3 * 0.5));
  CHECK(spots[2].y_px == Approx(50 + 3 * std::sqrt(0.75)));
  world.inject({.kind = FaultKind::HideMarkers, .seconds = 1});
  CHECK(light_at(world, 210 * kMs).size() == 1);
  world.inject({.kind = FaultKind::HideReflection, .seconds = 1});
  CHECK(light_at(world, 220 * kMs).empty());
  CHECK(light_at(world, 1300 * kMs).size() == 3);

  scenario.reflection.pointing_px_per_sqrt_s = 0.5;
  Moments ends;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    scenario.seed = seed;
    Simulation wandering(scenario);
    ends.add(light_at(wandering, 90 * kMs)[2].x_px - 48);
  }
  CHECK(ends.variance() == Approx(0.25 * 0.09).epsilon(4 * std::sqrt(2.0 / 200)));
}

TEST_CASE("Frames show a pupil's spots: wider off focus, turned over by the side") {
  Scenario scenario = small_world();
  scenario.markers.photons = 1e6;
  scenario.camera.full_well_e = 1e6;
  scenario.optics.shape = GENERATE(SpotShape::Pupil, SpotShape::WidthCurve);
  scenario.optics.pupil.astigmatism_waves = 0.075;
  scenario.markers.heights_nm = {150, -150};
  Simulation world(scenario);
  const SensorSettings settings = settings_of(scenario);
  std::vector<std::uint16_t> levels(settings.pixels());
  world.expose(0, settings, levels.data());
  const auto spread = [&](int x, int y) {  // second moments of the core, along x and y
    Vec2 moment;
    double sum = 0;
    for (int row = -3; row <= 3; ++row) {
      for (int column = -3; column <= 3; ++column) {
        const double e =
            levels[static_cast<std::size_t>((y + row) * settings.width_px + x + column)] - 120.0;
        sum += e;
        moment.x += e * column * column;
        moment.y += e * row * row;
      }
    }
    return Vec2{moment.x / sum, moment.y / sum};
  };
  const Vec2 high = spread(20, 18);
  const Vec2 low = spread(74, 44);
  CHECK(std::abs(high.x - high.y) > 0.3);
  CHECK((high.x - high.y) * (low.x - low.y) < 0);
  CHECK(high.x == Approx(low.y).epsilon(0.02));  // the same pupil, mirrored
  CHECK(high.y == Approx(low.x).epsilon(0.02));
}
