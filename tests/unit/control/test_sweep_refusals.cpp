// SPDX-License-Identifier: MIT
// What a sweep of z is refused for: one world each, with the reason and the words that it is told
// by. What people read names nothing of the code.
#include <algorithm>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "control/axial/calibration/sweep_analysis.hpp"
#include "support/catch.hpp"
#include "unit/control/sweep_world.hpp"

using namespace driftd::control;
using driftd::control::test::SweepBench;
using driftd::control::test::SweepWorld;
using driftd::control::test::without_lens;

namespace {

constexpr SweepSettings kSettings{.range_nm = 500, .step_nm = 25, .frames_per_place = 8};
const double kAllS = SweepPlan(kSettings).seconds(SweepBench::kFramesHz, SweepBench::kNmPerS);

struct Refusal {
  std::optional<CalibrationFault> fault;  ///< nothing: it was not refused
  std::string text;
};

/// Options may be named as they are typed: after their section, and those that share it.
void check_plain(const std::string& text) {
  static const std::regex identifier("(^|[^.\\w])([a-z]+(_[a-z]+)+)");
  static const std::vector<std::string> options = {"time_constant_us", "resonance_hz", "offset_adu",
                                                   "read_noise_e"};
  for (std::sregex_iterator found(text.begin(), text.end(), identifier), end; found != end;
       ++found) {
    INFO((*found)[2].str() << " in: " << text);
    CHECK(std::find(options.begin(), options.end(), (*found)[2].str()) != options.end());
  }
}

Refusal refusal_of(const SweepWorld& world, const SweepSettings& settings = kSettings) {
  SweepBench bench(world);
  const SweepRecord record = bench.record(settings);
  try {
    (void)analyse_sweep(record, {.method = world.method, .fits = bench.fits()});
  } catch (const CalibrationError& error) {
    check_plain(error.what());
    return {error.fault, error.what()};
  }
  return {};
}

/// @param words  one of which is in the text
void check_refused(const SweepWorld& world, const std::vector<CalibrationFault>& faults,
                   const std::vector<std::string>& words,
                   const SweepSettings& settings = kSettings) {
  const Refusal refusal = refusal_of(world, settings);
  INFO(refusal.text);
  REQUIRE(refusal.fault);
  CHECK(std::find(faults.begin(), faults.end(), *refusal.fault) != faults.end());
  CHECK(std::any_of(words.begin(), words.end(), [&](const std::string& some) {
    return refusal.text.find(some) != std::string::npos;
  }));
}

using Fault = CalibrationFault;
const std::vector<Fault> kAny = {Fault::Still,  Fault::Moving,     Fault::Stuck, Fault::Jump,
                                 Fault::Uneven, Fault::Strangers,  Fault::Range, Fault::NoCurve,
                                 Fault::NoZ,    Fault::Hysteresis, Fault::Check, Fault::Drift,
                                 Fault::Light};

}  // namespace

TEST_CASE("sweep: nothing is wrong, nothing is refused") {
  CHECK_FALSE(refusal_of({}).fault);
}

TEST_CASE("sweep refused: the stage does not move") {
  check_refused({.drift_nm_per_s = 5, .gain = 0}, {Fault::Still}, {"Does its driver run"});
}

TEST_CASE("sweep refused: there is no lens") {
  check_refused({.astigmatism_waves = 0},
                {Fault::NoCurve, Fault::Range, Fault::NoZ, Fault::Strangers}, {"lens"});
}

TEST_CASE("sweep refused: the lens is turned by 45 degrees") {
  check_refused({.astigmatism_deg = 45},
                {Fault::NoCurve, Fault::Range, Fault::NoZ, Fault::Strangers},
                {"its axis along rows or columns"});
}

TEST_CASE("sweep refused: hysteresis") {
  check_refused({.hysteresis_nm = 25}, {Fault::Hysteresis}, {"closed loop (servo)"});
}

TEST_CASE("sweep refused: markers bleach") {
  check_refused({.bleached_share = 0.25}, {Fault::Light}, {"they bleach"});
}

TEST_CASE("sweep refused: the sample drifts") {
  check_refused({.drift_nm_per_s = 25}, {Fault::Drift}, {"wait until it has settled"});
}

TEST_CASE("sweep refused: the stage goes sideways") {
  check_refused({.tilt_x_nm_per_um = 60, .tilt_y_nm_per_um = -60}, {Fault::StageTilt},
                {"does it stand along the optical axis"});
}

TEST_CASE("sweep refused: too little light") {
  check_refused({.markers = 2, .photons = 1500}, {Fault::Dim}, {"more light"});
}

TEST_CASE("sweep refused: the sample is far from the crossing") {
  check_refused({.start_nm = 420}, {Fault::Range}, {"Focus to where spots are round"});
}

TEST_CASE("sweep refused: the sample is beside the crossing") {
  check_refused({.start_nm = 520}, {Fault::LockPoint}, {"focus so that the sample goes down by"},
                {.range_nm = 700, .step_nm = 25, .frames_per_place = 8});
}

TEST_CASE("sweep refused: it is shorter than a lock needs") {
  check_refused({}, {Fault::LockPoint}, {"sweep farther (--range-nm)"},
                {.range_nm = 190, .step_nm = 10, .check_nm = 50, .frames_per_place = 8});
}

TEST_CASE("sweep refused: the stage is slower than told") {
  check_refused({.time_constant_s = 0.08}, {Fault::Moving}, {"--settle"});
}

TEST_CASE("sweep refused: uneven steps") {
  check_refused({.uneven_nm = 20}, {Fault::Uneven}, {"closed loop (servo)"});
}

TEST_CASE("sweep refused: loose markers") {
  check_refused({.wobble_nm_per_um = 500}, {Fault::Wobble}, {"driftctl markers"});
}

TEST_CASE("sweep refused: the stage slips before the steps at the end") {
  check_refused({.slip_nm = 25}, {Fault::Jump}, {"Sweep again when it is calm"});
}

TEST_CASE("sweep refused: something is touched, along z") {
  SweepWorld world;
  world.jump_s = GENERATE(1.4, 15.0);
  world.jump_nm = GENERATE(100.0, -40.0);
  CAPTURE(world.jump_s, world.jump_nm);
  check_refused(world, {Fault::Jump}, {"in z, between"});
}

TEST_CASE("sweep refused: something is touched, sideways") {
  SweepWorld world;
  world.jump_s = GENERATE(1.4, 15.0);
  world.jump_x_nm = 100;
  check_refused(world, {Fault::Jump}, {"in x, between"});
}

TEST_CASE("sweep refused: the stage sticks for good") {
  SweepWorld world;
  world.stuck_s = GENERATE(3.0, 16.5);
  check_refused(world, {Fault::Stuck}, {"stood still when it was told", "end there, or it stuck"});
}

TEST_CASE("sweep refused: the stage sticks for a while") {
  SweepWorld world;
  world.stuck_s = GENERATE(3.0, 16.5);
  world.stuck_until_s = world.stuck_s + 2;
  check_refused(world, {Fault::Stuck}, {"stood still when it was told"});
}

TEST_CASE("sweep refused: the stage's travel ends") {
  SweepWorld world;
  world.end_nm = GENERATE(100.0, 420.0);
  check_refused(world, {Fault::Stuck}, {"no farther than"});
}

TEST_CASE("sweep refused: without a lens, through the focus") {
  check_refused({.astigmatism_waves = 0, .method = AxialMethod::Defocus}, {Fault::BothSides},
                {"focus to one side of it"});
}

TEST_CASE("sweep refused: without a lens, the focus is at one end") {
  check_refused(without_lens(330), {Fault::Stuck}, {"or the focus lies there"},
                {.range_nm = 180, .step_nm = 15, .frames_per_place = 12});
}

TEST_CASE("sweep refused: without a lens, it is in the focus") {
  check_refused(without_lens(190), {Fault::Stopped},
                {"focus, which is to be some 500 nm to one side"},
                {.range_nm = 180, .step_nm = 15, .frames_per_place = 12});
}

TEST_CASE("sweep refused: without a lens, it is shorter than a lock needs") {
  check_refused(without_lens(550), {Fault::LockPoint},
                {"needed are 100 nm to either side: sweep farther"},
                {.range_nm = 90, .step_nm = 10, .check_nm = 50, .frames_per_place = 12});
}

TEST_CASE("sweep refused: the stage's speed is limited") {
  SweepWorld world;
  world.slew_nm_per_s = GENERATE(100.0, 200.0, 500.0);
  check_refused(world, kAny, {"still on its way when it was measured"});
}

TEST_CASE("sweep refused: the stage is so slow that it hardly moves") {
  check_refused({.slew_nm_per_s = 50}, kAny, {"far slower than told"});
}

TEST_CASE("sweep refused: the stage sticks for 0.7 s on the way down") {
  SweepWorld world;
  world.stuck_s = GENERATE(0.55, 0.65, 0.675, 0.7, 0.75) * kAllS;
  world.stuck_until_s = world.stuck_s + 0.7;
  check_refused(world, kAny,
                {"stood still when it was told to go from",
                 "the stage stuck there for a moment, or the sample"});
}

TEST_CASE("sweep refused: the stage sticks on its way to the start") {
  SweepWorld world;
  world.stuck_s = GENERATE(0.175, 0.325, 0.6) * kAllS;
  world.stuck_until_s = world.stuck_s + 0.4;
  check_refused(
      world, kAny,
      {"stuck on its way there, or the sample was pushed", "the stage slip or stand still"});
}

TEST_CASE("sweep refused: the stage is dead from some time on") {
  SweepWorld world;
  world.stuck_s = GENERATE(0.2, 0.5, 0.7, 0.85, 0.9, 0.93, 0.95) * kAllS;
  check_refused(
      world, kAny,
      {"stood still when it was told", "slip or stand still", "did not repeat its steps"});
}

TEST_CASE("sweep refused: the stage is turned round") {
  SweepWorld world;
  world.reversed_s = GENERATE(0.25, 0.475, 0.55, 0.7, 0.75, 0.85) * kAllS;
  check_refused(world, kAny, {"the stage went the other way than it was told"});
}

TEST_CASE("sweep refused: the stage is turned round where its mirror images were not seen before") {
  SweepWorld world;
  world.reversed_s = GENERATE(0.1, 0.3, 0.4, 0.6) * kAllS;
  check_refused(
      world, kAny,
      {"the stage is elsewhere than it was told", "the stage did not go where it was told"});
}
