// SPDX-License-Identifier: MIT
// What a real piezo stage does beyond the second-order response: hysteresis and creep by their
// closed forms, slew limit, gain, coupling and turn of the axes, jitter of the commands.
#include "simulator/actuator.hpp"

#include <cmath>
#include <numbers>

#include "simulator/motion.hpp"
#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

StageModel quiet_stage() {
  StageModel model;
  model.noise_nm = 0;
  model.quantisation_nm = 0;
  model.delay_ms = 0;
  return model;
}

/// Where the stage is `ticks` after it was told to go to `target`.
Vec2 settled(const StageModel& model, Vec2 target, int ticks = 20000) {
  Stage stage(model, 1);
  stage.command(0, target);
  for (int i = 1; i <= ticks; ++i) stage.step(i * kTickNs, false);
  return stage.position_nm();
}

}  // namespace

TEST_CASE("Hysteresis has the loop of the Prandtl-Ishlinskii operator") {
  const double side = GENERATE(1.0, -1.0);
  Hysteresis hysteresis(0.2, 100);
  // The mean threshold is 100 (1 + 10) / 20 = 55 nm, of which 0.2 lag on a long way.
  CHECK(hysteresis.step(side * 500) == Approx(side * (500 - 11)));
  const double top = hysteresis.step(side * 1000);
  CHECK(top == Approx(side * (1000 - 11)));
  // Back: 0.8 of the motion up to twice the smallest threshold, everything after twice the largest.
  CHECK(top - hysteresis.step(side * 985) == Approx(side * 0.8 * 15));
  CHECK(hysteresis.step(side * 800) == Approx(side * (800 + 11)));
  CHECK(hysteresis.step(side * 500) == Approx(side * (500 + 11)));
}

TEST_CASE("Hysteresis knows no speed, and none is none") {
  Hysteresis fast(0.15, 300);
  Hysteresis slow(0.15, 300);
  double start = 0;
  for (const double turn : {400.0, -250.0, 90.0, 20.0}) {
    double place = 0;
    for (int i = 1; i <= 1000; ++i) place = slow.step(start + (turn - start) * i / 1000);
    CHECK(fast.step(turn) == Approx(place));
    start = turn;
  }
  Hysteresis none;
  CHECK(none.step(123.456) == 123.456);
}

TEST_CASE("Creep grows with the logarithm of time") {
  constexpr double kShare = 0.015;
  constexpr double kStepS = 1e-3;
  Creep creep(kShare, kStepS);
  double grown = 0;
  int tick = 0;
  for (const double time_s : {1.0, 3.0, 10.0, 40.0, 100.0, 400.0}) {
    for (; tick < std::lround(time_s / kStepS); ++tick) grown = creep.step(-2000);
    // Relaxations half a decade apart follow the logarithm to a fiftieth of a decade.
    CHECK(grown == Approx(-2000 * kShare * std::log10(time_s / 0.1)).margin(2000 * kShare * 0.03));
  }
  Creep none;
  CHECK(none.step(100) == 0);
}

TEST_CASE("A stage with hysteresis and creep shows both") {
  StageModel model = quiet_stage();
  model.hysteresis_share = 0.1;
  model.hysteresis_reach_nm = 50;
  CHECK(settled(model, {400, -300}).x == Approx(400 - 2.75));
  CHECK(settled(model, {400, -300}).y == Approx(-300 + 2.75));
  model.hysteresis_share = 0;
  model.creep_share_per_decade = 0.02;
  // After 2 s: 1 + 0.02 log10(2 / 0.1), within a thirtieth of a decade.
  CHECK(settled(model, {400, -300}).x == Approx(400 * (1 + 0.02 * 1.301)).margin(400 * 0.02 / 30));
}

TEST_CASE("A stage is no faster than its slew limit") {
  StageModel model = quiet_stage();
  model.slew_nm_per_s = 10000;
  const auto after = [&](double seconds) {
    return settled(model, {1000, -600}, static_cast<int>(std::lround(seconds / kTickS)));
  };
  // It follows the ramp with the second-order response's lag of 2 damping / omega.
  const double lag_nm = 10000 * 2 * 0.7 / (2 * std::numbers::pi * 150);
  CHECK(after(0.05).x == Approx(500 - lag_nm).margin(2));
  CHECK(after(0.05).y == Approx(-(500 - lag_nm)).margin(2));
  CHECK(after(0.2).x == Approx(1000));
  CHECK(after(0.2).y == Approx(-600));
}

TEST_CASE("Gain, coupling and turn say where the platform goes") {
  StageModel model = quiet_stage();
  SECTION("gain and coupling") {
    model.axis_gain = {1.05, 0.9};
    model.coupling = {0.01, -0.02};
    const Vec2 place = settled(model, {100, -40});
    CHECK(place.x == Approx(1.05 * 100 + 0.01 * -40));
    CHECK(place.y == Approx(0.9 * -40 - 0.02 * 100));
  }
  SECTION("turn, of an axis wired the wrong way round as well") {
    model.turn_deg = 30;
    model.axis_sign = {1, -1};
    const Vec2 place = settled(model, {100, -40});
    const double c = std::sqrt(3.0) / 2;
    CHECK(place.x == Approx(c * 100 - 0.5 * 40));
    CHECK(place.y == Approx(0.5 * 100 + c * 40));
  }
}

TEST_CASE("Commands wait for the delay and an exponentially distributed time more, in order") {
  StageModel model = quiet_stage();
  SECTION("the mean") {
    model.delay_ms = 2;
    model.delay_jitter_ms = 3;
    Stage stage(model, 5);
    Moments waits;
    constexpr int kCommands = 1000;
    constexpr int kTicksApart = 500;  // 50 ms: the next never overtakes
    for (int i = 0; i < kCommands; ++i) {
      const double before = stage.position_nm().x;
      stage.command(std::int64_t{i} * kTicksApart * kTickNs, {i % 2 == 0 ? 1000.0 : -1000.0, 0});
      int first = 0;
      for (int k = 1; k <= kTicksApart; ++k) {
        stage.step((std::int64_t{i} * kTicksApart + k) * kTickNs, false);
        if (first == 0 && std::abs(stage.position_nm().x - before) > 1) first = k;
      }
      waits.add((first - 1) * 0.1);  // seen a tick after it comes due
    }
    // Rounded up to the tick of 0.1 ms.
    CHECK(waits.mean() == Approx(5).margin(4 * 3 / std::sqrt(kCommands) + 0.1));
    CHECK(std::sqrt(waits.variance()) == Approx(3).epsilon(0.15));
  }
  SECTION("the order") {
    model.delay_jitter_ms = 20;
    model.damping = 3;
    Stage stage(model, 5);
    double before = 0;
    for (int tick = 1; tick <= 4000; ++tick) {
      if (tick <= 200) stage.command((tick - 1) * kTickNs, {tick * 1.0, 0});
      stage.step(tick * kTickNs, false);
      REQUIRE(stage.position_nm().x >= before);
      before = stage.position_nm().x;
    }
    CHECK(before == Approx(200).margin(0.1));
  }
}
