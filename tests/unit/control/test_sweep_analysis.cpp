// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "support/catch.hpp"
#include "unit/control/sweep_world.hpp"

using namespace driftd::control;
using driftd::Vec2;
using driftd::control::test::SweepBench;
using driftd::control::test::SweepWorld;
using driftd::control::test::without_lens;

namespace {

constexpr SweepSettings kSettings{.range_nm = 500, .step_nm = 25, .frames_per_place = 8};

SweepFindings found_in(const SweepWorld& world, const SweepSettings& settings = kSettings) {
  SweepBench bench(world);
  const SweepRecord record = bench.record(settings);
  return analyse_sweep(record, {.method = world.method, .fits = bench.fits()});
}

SweepWorld random_world(std::uint64_t seed) {
  driftd::simulator::Random random(seed, 3);
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.uniform();
  };
  SweepWorld world;
  world.astigmatism_waves = between(0.06, 0.1) * (random.uniform() < 0.5 ? 1 : -1);
  world.astigmatism_deg = between(-8, 8);
  world.astigmatism_spread = between(0, 0.05);
  world.coma_waves = between(0, 0.02);
  world.spherical_waves = between(-0.02, 0.02);
  world.markers = 4 + static_cast<std::size_t>(between(0, 8));
  world.photons = between(1e4, 5e4);
  world.tilt_nm_per_um = between(-4, 4);
  world.start_nm = between(-100, 100);
  world.drift_nm_per_s = between(-8, 8);
  world.walk_nm = 2;
  world.bleached_share = between(0, 0.04);
  world.hysteresis_nm = between(0, 7);
  world.tilt_x_nm_per_um = between(-20, 20);
  world.tilt_y_nm_per_um = between(-20, 20);
  world.drift_x_nm_per_s = between(-8, 8);
  world.walk_x_nm = 4;
  world.seed = seed;
  return world;
}

}  // namespace

TEST_CASE("A sweep visits its start, both ways, and two steps, each but those down from below") {
  const SweepPlan plan({.range_nm = 100, .step_nm = 25, .check_nm = 50});
  CHECK(plan.steps() == 9);
  CHECK(plan.farthest_nm() == 160);
  double before = 0, turned_at = 0;
  bool upwards = false;
  std::size_t up = 0, down = 0, starts = 0, checks = 0;
  for (const SweepPlace& place : plan.places()) {
    if (place.part == SweepPart::Down)
      CHECK(place.z_nm < before);
    else if (place.is_measured())
      CHECK(place.z_nm > before);
    // Whatever a turn does to the stage, it does alike at each place of a way.
    if ((place.z_nm > before) != upwards) turned_at = before, upwards = !upwards;
    if (place.is_measured()) CHECK(turned_at == (place.part == SweepPart::Down ? 160 : -160));
    if (place.part == SweepPart::Up || place.part == SweepPart::Down)
      CHECK(place.z_nm == -100 + 25.0 * static_cast<double>(place.step));
    before = place.z_nm;
    up += place.part == SweepPart::Up, down += place.part == SweepPart::Down;
    starts += place.part == SweepPart::Start, checks += place.part == SweepPart::Check;
  }
  CHECK(up == 9);
  CHECK(down == 9);
  CHECK(starts == 4);
  CHECK(checks == 2);
  CHECK(plan.places().back().z_nm == 0);
}

TEST_CASE("A sweep's curve has the stage's scale in random worlds, and tells what there is") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SweepWorld world = random_world(seed);
    CAPTURE(seed, world.astigmatism_waves, world.hysteresis_nm, world.drift_nm_per_s);
    SweepBench bench(world);
    const SweepRecord record = bench.record(kSettings);
    const SweepFindings found = analyse_sweep(record, {.fits = bench.fits()});
    REQUIRE(found.curve);
    // 16 exposures at nine heights leave 0.3 % of noise, the sweep as much.
    const double slope = bench.slope_of(found.curve->curve);
    CHECK(std::abs(slope - 1) < 0.025);
    // The sample's own walk is 2 nm in a second.
    CHECK(std::abs(found.hysteresis_nm - world.hysteresis_nm) < 5);
    CHECK(std::abs(found.drift_nm_per_s - world.drift_nm_per_s) < 1.5);
    REQUIRE(found.tilt_nm_per_um);
    // A walk of 4 nm/sqrt(s) in x, up to 0.02 waves of coma.
    for (double Vec2::*axis : {&Vec2::x, &Vec2::y}) {
      const Vec2 truth = {world.tilt_x_nm_per_um, world.tilt_y_nm_per_um};
      const double sd = found.tilt_sd_nm_per_um.*axis;
      CHECK(std::abs((*found.tilt_nm_per_um).*axis - truth.*axis) < 3 * sd + 1);
      CHECK(sd < (world.coma_waves < 0.005 ? 9 : 35));
    }
    CHECK(found.predicted_sd_nm < 4);
    CHECK(found.picture.find("</svg>") != std::string::npos);
  }
}

TEST_CASE("A stage that settles longer than it rested is warned of with how far it went") {
  SweepWorld world;
  CHECK(found_in(world).warnings.empty());
  world.time_constant_s = 0.03;
  const SweepFindings found = found_in(world);
  REQUIRE(found.warnings.size() == 1);
  CHECK(found.warnings.front().find("the stage still moved on, by +2") != std::string::npos);
  CHECK(found.warnings.front().find("It rested 30 ms") != std::string::npos);
}

TEST_CASE("Hysteresis is told as large as it is, however long a way it takes to build up") {
  SweepSettings settings = kSettings;
  settings.frames_per_place = 16;
  for (const double reach_nm : {20.0, 60.0, 200.0, 400.0}) {
    for (const double nm : {5.0, 22.0, 40.0}) {
      for (const double drift_nm_per_s : {0.0, 1.0}) {
        CAPTURE(reach_nm, nm, drift_nm_per_s);
        SweepWorld world;
        world.hysteresis_nm = nm;
        world.hysteresis_reach_nm = reach_nm;
        world.drift_nm_per_s = drift_nm_per_s;
        double told_nm = 0;
        try {
          told_nm = found_in(world, settings).hysteresis_nm;
          CHECK(nm < 10);
        } catch (const CalibrationError& error) {
          INFO(error.what());
          CHECK(nm > 10);
          REQUIRE(error.fault == CalibrationFault::Hysteresis);
          std::sscanf(error.what(), "the same place is read %lf nm higher", &told_nm);
        }
        CHECK(std::abs(told_nm - nm) < std::max(1.0, 0.2 * nm));
      }
    }
  }
}

TEST_CASE("A push that is not found adds to hysteresis at most what the page says") {
  SweepSettings settings = kSettings;
  const double all_s = SweepPlan(settings).seconds(SweepBench::kFramesHz, SweepBench::kNmPerS);
  std::size_t told = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SweepWorld world = random_world(seed);
    world.walk_nm = 0.5;
    world.hysteresis_nm = 0;
    world.jump_nm = seed % 2 == 0 ? 14 : -14;
    world.jump_s = (0.1 + 0.1 * static_cast<double>(seed)) * all_s;
    CAPTURE(seed, world.jump_nm, world.jump_s);
    try {
      const double nm = found_in(world, settings).hysteresis_nm;
      CHECK(std::abs(nm) < 0.7 * 14 + 2.3);
      ++told;
    } catch (const CalibrationError& error) {
      INFO(error.what());
      CHECK((error.fault == CalibrationFault::Hysteresis || error.fault == CalibrationFault::Jump ||
             error.fault == CalibrationFault::Stuck));
      if (error.fault == CalibrationFault::Hysteresis)
        CHECK_THAT(error.what(), contains("another sweep does not repeat"));
    }
  }
  CHECK(told > 4);
}

TEST_CASE("Out of focus a sweep makes a curve of one side") {
  SweepBench bench(without_lens(550));
  const SweepRecord record = bench.record({.range_nm = 180, .step_nm = 15, .frames_per_place = 12});
  const SweepFindings found =
      analyse_sweep(record, {.method = AxialMethod::Defocus, .fits = bench.fits()});
  REQUIRE(found.curve);
  CHECK(std::abs(bench.slope_of(found.curve->curve) - 1) < 0.02);
}

TEST_CASE("A stage that goes another way than the curve until now says is told with its gain") {
  SweepWorld world;
  SweepBench bench(world);
  const SweepFindings first =
      analyse_sweep(bench.record(kSettings), {.method = world.method, .fits = bench.fits()});
  CHECK_FALSE(first.gain_by_curve);
  const BrightnessCurves before = curves_of(*first.curve);
  world.gain = -0.8;
  SweepBench other(world);
  const SweepFindings second = analyse_sweep(
      other.record(kSettings),
      {.method = world.method, .fits = bench.fits(), .stage_gain = 1.0, .curve = &before});
  REQUIRE(second.gain_by_curve);
  CHECK(std::abs(*second.gain_by_curve - 1 / -0.8) < 0.04);
  CHECK_FALSE(second.warnings.empty());
}

TEST_CASE("A reflected spot's slope and angle come out of the same sweep") {
  const SweepPlan plan({.range_nm = 400, .step_nm = 50, .frames_per_place = 10});
  const double slope = 1 / 42.0, angle = 0.6;  // px for a nanometre
  driftd::simulator::Random random(5, 1);
  const auto record_with = [&](double hysteresis_nm, double noise_px, double moves,
                               double lag_nm = 0) {
    SweepRecord record(plan, 0);
    double seconds = 0;
    for (std::size_t p = 0; p < plan.places().size(); ++p) {
      const SweepPlace& place = plan.places()[p];
      if (!place.is_measured()) continue;
      for (int i = 0; i < place.frames; ++i) {
        seconds += 0.01;
        const double down = place.part == SweepPart::Down ? 1 : -1;
        const double z = moves * (place.z_nm + 3 * seconds + 0.5 * down * hysteresis_nm +
                                  down * lag_nm * std::exp(-0.3 * i));
        SweepFrame frame;
        frame.seconds = seconds;
        frame.has_spot = true;
        frame.spot_px = {100 + z * slope * std::cos(angle) + noise_px * random.normal(),
                         200 + z * slope * std::sin(angle) + noise_px * random.normal()};
        frame.spot_variance_px2 = noise_px * noise_px;
        record.add(p, frame);
      }
    }
    return record;
  };
  const SweepContext context{.method = AxialMethod::Reflection, .fits = {}, .source = ""};
  const SweepFindings found = analyse_sweep(record_with(4, 0.01, 1), context);
  REQUIRE(found.spot);
  CHECK(std::abs(found.spot->nm_per_px / 42 - 1) < 0.02);
  CHECK(std::abs(found.spot->angle_deg - 0.6 * 57.2958) < 1);
  CHECK(std::abs(found.hysteresis_nm - 4) < 1);
  CHECK(std::abs(found.predicted_sd_nm - 0.42) < 0.05);
  CHECK(found.warnings.empty());
  CHECK_THROWS_AS(analyse_sweep(record_with(0, 0.01, 0), context), CalibrationError);
  CHECK(analyse_sweep(record_with(0, 0.01, 1, 4), context).warnings.size() == 1);
  CHECK_THROWS_WITH(analyse_sweep(record_with(0, 0.01, 1, 12), context),
                    contains("still moved on"));
  CHECK_THROWS_AS(analyse_sweep(record_with(20, 0.01, 1), context), CalibrationError);
}
