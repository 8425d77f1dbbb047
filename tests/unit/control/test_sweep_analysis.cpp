// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_analysis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/control/sweep_world.hpp"

using namespace driftd::control;
using driftd::Vec2;
using driftd::control::test::SweepBench;
using driftd::control::test::SweepWorld;

namespace {

constexpr SweepSettings kSettings{.range_nm = 500, .step_nm = 25, .frames_per_place = 8};

SweepFindings found_in(const SweepWorld& world, const SweepSettings& settings = kSettings) {
  SweepBench bench(world);
  const SweepRecord record = bench.record(settings);
  return analyse_sweep(record, {.method = world.method, .fits = bench.fits()});
}

/// The faults that a world may be refused for; 99: none.
int fault_in(const SweepWorld& world, const SweepSettings& settings = kSettings) {
  try {
    (void)found_in(world, settings);
  } catch (const CalibrationError& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).size() > 20);
    return static_cast<int>(error.fault);
  }
  return 99;
}

std::string text_of(const SweepWorld& world) {
  try {
    (void)found_in(world);
  } catch (const CalibrationError& error) {
    return error.what();
  }
  return "";
}

int of(CalibrationFault fault) {
  return static_cast<int>(fault);
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

TEST_CASE("Worlds that a lock must not go by are refused for what is wrong with them") {
  SweepWorld world;
  const std::set<int> no_lens = {of(CalibrationFault::NoCurve), of(CalibrationFault::Range),
                                 of(CalibrationFault::NoZ), of(CalibrationFault::Strangers)};
  SECTION("none is wrong") {
    CHECK(fault_in(world) == 99);
  }
  SECTION("the stage does not move") {
    world.gain = 0;
    world.drift_nm_per_s = 5;
    CHECK(fault_in(world) == of(CalibrationFault::Still));
  }
  SECTION("there is no lens") {
    world.astigmatism_waves = 0;
    CHECK(no_lens.count(fault_in(world)) == 1);
  }
  SECTION("the lens is turned by 45 degrees") {
    world.astigmatism_deg = 45;
    CHECK(no_lens.count(fault_in(world)) == 1);
  }
  SECTION("hysteresis") {
    world.hysteresis_nm = 25;
    CHECK(fault_in(world) == of(CalibrationFault::Hysteresis));
  }
  SECTION("bleaching") {
    world.bleached_share = 0.25;
    CHECK(fault_in(world) == of(CalibrationFault::Light));
  }
  SECTION("drift") {
    world.drift_nm_per_s = 25;
    CHECK(fault_in(world) == of(CalibrationFault::Drift));
  }
  SECTION("the stage goes sideways") {
    world.tilt_x_nm_per_um = 60;
    world.tilt_y_nm_per_um = -60;
    CHECK(fault_in(world) == of(CalibrationFault::StageTilt));
  }
  SECTION("too little light") {
    world.markers = 2;
    world.photons = 1500;
    CHECK(fault_in(world) == of(CalibrationFault::Dim));
  }
  SECTION("the sample is far from the crossing") {
    world.start_nm = 420;
    CHECK(fault_in(world) == of(CalibrationFault::Range));
  }
  SECTION("the stage is slower than told") {
    world.time_constant_s = 0.08;
    CHECK(fault_in(world) == of(CalibrationFault::Moving));
  }
  SECTION("uneven steps") {
    world.uneven_nm = 20;
    CHECK(fault_in(world) == of(CalibrationFault::Uneven));
  }
  SECTION("loose markers") {
    world.wobble_nm_per_um = 500;
    CHECK(fault_in(world) == of(CalibrationFault::Wobble));
  }
  SECTION("the stage slips before the steps at the end") {
    world.slip_nm = 25;
    CHECK(fault_in(world) == of(CalibrationFault::Jump));
  }
  SECTION("something is touched on the way up, on the way down") {
    for (const double seconds : {1.4, 15.0}) {
      CAPTURE(seconds);
      world.jump_s = seconds;
      for (const double nm : {100.0, -40.0}) {
        world.jump_nm = nm;
        CHECK(fault_in(world) == of(CalibrationFault::Jump));
      }
      world.jump_nm = 0;
      world.jump_x_nm = 100;
      CHECK(fault_in(world) == of(CalibrationFault::Jump));
      world.jump_x_nm = 0;
    }
  }
  SECTION("the stage sticks for good, or for a while") {
    for (const double seconds : {3.0, 16.5}) {
      CAPTURE(seconds);
      world.stuck_s = seconds;
      world.stuck_until_s = 1e9;
      CHECK(fault_in(world) == of(CalibrationFault::Stuck));
      world.stuck_until_s = seconds + 2;
      CHECK(fault_in(world) == of(CalibrationFault::Stuck));
    }
  }
  SECTION("the stage's travel ends") {
    for (const double end_nm : {100.0, 420.0}) {
      CAPTURE(end_nm);
      world.end_nm = end_nm;
      CHECK(fault_in(world) == of(CalibrationFault::Stuck));
      CHECK(text_of(world).find("no farther than") != std::string::npos);
    }
  }
  SECTION("without a lens, through the focus") {
    world.method = AxialMethod::Defocus;
    world.astigmatism_waves = 0;
    CHECK(fault_in(world) == of(CalibrationFault::BothSides));
  }
}

TEST_CASE("What a stage does wrong is told by its name, or with what else it can be") {
  SweepWorld world;
  const double all_s = SweepPlan(kSettings).seconds(SweepBench::kFramesHz, SweepBench::kNmPerS);
  std::vector<std::string> words;
  SECTION("its speed is limited") {
    world.slew_nm_per_s = GENERATE(100.0, 200.0, 500.0);
    words = {"still on its way when it was measured"};
  }
  SECTION("so slow that it hardly moves") {
    world.slew_nm_per_s = 50;
    words = {"far slower than told"};
  }
  SECTION("stuck for 0.7 s on the way down") {
    world.stuck_s = GENERATE(0.55, 0.65, 0.675, 0.7, 0.75) * all_s;
    world.stuck_until_s = world.stuck_s + 0.7;
    words = {"stood still when it was told to go from",
             "the stage stuck there for a moment, or the sample"};
  }
  SECTION("stuck on its way to the start") {
    world.stuck_s = GENERATE(0.175, 0.325, 0.6) * all_s;
    world.stuck_until_s = world.stuck_s + 0.4;
    words = {"stuck on its way there, or the sample was pushed", "the stage slip or stand still"};
  }
  SECTION("dead from some time on") {
    world.stuck_s = GENERATE(0.2, 0.5, 0.7, 0.85, 0.9, 0.93, 0.95) * all_s;
    words = {"stood still when it was told", "slip or stand still", "did not repeat its steps"};
  }
  SECTION("turned round") {
    world.reversed_s = GENERATE(0.25, 0.475, 0.55, 0.7, 0.75, 0.85) * all_s;
    words = {"the stage went the other way than it was told"};
  }
  SECTION("turned round where its mirror images were not seen before") {
    world.reversed_s = GENERATE(0.1, 0.3, 0.4, 0.6) * all_s;
    words = {"the stage is elsewhere than it was told", "the stage did not go where it was told"};
  }
  const std::string told = text_of(world);
  INFO(told);
  CHECK(std::any_of(words.begin(), words.end(),
                    [&](const auto& some) { return told.find(some) != std::string::npos; }));
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

TEST_CASE("Out of focus a sweep makes a curve of one side") {
  SweepWorld world;
  world.method = AxialMethod::Defocus;
  world.astigmatism_waves = 0;
  world.roi_px = 17;
  world.start_nm = 550;
  world.heights_nm = 20;
  SweepBench bench(world);
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
