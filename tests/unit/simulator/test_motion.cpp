// SPDX-License-Identifier: MIT
#include "simulator/motion.hpp"

#include <cmath>
#include <numbers>

#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

/// The disturbance after `seconds`, stepped tick by tick.
double after(DisturbanceAxis& axis, double seconds) {
  double value = 0;
  const int ticks = static_cast<int>(std::lround(seconds / kTickS));
  for (int i = 1; i <= ticks; ++i) value = axis.step(i * kTickS);
  return value;
}

StageModel quiet_stage() {
  StageModel model;
  model.noise_nm = 0;
  model.quantisation_nm = 0;
  return model;
}

/// Lets the stage run from just after `from_s` to `to_s`.
void run(Stage& stage, double from_s, double to_s, bool stuck = false) {
  const auto first = std::llround(from_s / kTickS) + 1;
  const auto last = std::llround(to_s / kTickS);
  for (auto i = first; i <= last; ++i) stage.step(i * kTickNs, stuck);
}

/// Step response of the underdamped second-order system of unit gain, from its textbook form.
double step_response(double frequency_hz, double damping, double time_s) {
  if (time_s <= 0) return 0;
  const double omega = 2 * std::numbers::pi * frequency_hz;
  const double root = std::sqrt(1 - damping * damping);
  const double phase = omega * root * time_s;
  return 1 -
         std::exp(-damping * omega * time_s) * (std::cos(phase) + damping / root * std::sin(phase));
}

}  // namespace

TEST_CASE("Each disturbance moves as it says") {
  AxisDisturbance model;
  SECTION("linear") {
    model.linear_nm_per_s = -3;
    DisturbanceAxis axis(model, 1, 1);
    CHECK(after(axis, 2) == Approx(-6));
  }
  SECTION("settling") {
    model.settling_nm = 200;
    model.settling_tau_s = 0.5;
    DisturbanceAxis axis(model, 1, 1);
    CHECK(after(axis, 0.5) == Approx(200 * (1 - std::exp(-1))));
  }
  SECTION("step") {
    model.step_nm = 40;
    model.step_at_s = 1;
    DisturbanceAxis axis(model, 1, 1);
    CHECK(axis.step(0.9999) == 0);
    CHECK(axis.step(1.0) == 40);
  }
  SECTION("sines add up") {
    model.sines = {{2, 10, 0}, {3, 25, 90}};
    DisturbanceAxis axis(model, 1, 1);
    const double t = 0.0137;
    CHECK(axis.step(t) == Approx(2 * std::sin(2 * std::numbers::pi * 10 * t) +
                                 3 * std::cos(2 * std::numbers::pi * 25 * t)));
  }
  SECTION("a sine is there for its time, swells and shrinks") {
    model.sines = {{.amplitude_nm = 2,
                    .frequency_hz = 10,
                    .modulation_share = 0.5,
                    .modulation_hz = 0.25,
                    .from_s = 1,
                    .until_s = 4}};
    DisturbanceAxis axis(model, 1, 1);
    CHECK(axis.step(0.999) == 0);
    CHECK(axis.step(1.025) == Approx(2 * (1 + 0.5 * std::sin(2 * std::numbers::pi * 0.25625))));
    CHECK(axis.step(3.025) == Approx(2 * (1 + 0.5 * std::sin(2 * std::numbers::pi * 0.75625))));
    CHECK(axis.step(4) == 0);
  }
  SECTION("a sine's frequency grows and falls by turns") {
    const Sine sine{
        .amplitude_nm = 1, .frequency_hz = 10, .drift_share_per_s = 0.01, .drift_turn_s = 10};
    // 100 cycles and 5 more in the first turn, 105 again on the way back, and as before after it.
    const auto cycles = [&](double from_s, double to_s) {
      int count = 0;
      const auto ticks = static_cast<int>(std::lround((to_s - from_s) / kTickS));
      double last = value_of(sine, from_s - kTickS);
      for (int i = 0; i < ticks; ++i) {
        const double now = value_of(sine, from_s + i * kTickS);
        if (last < 0 && now >= 0) ++count;
        last = now;
      }
      return count;
    };
    CHECK(std::abs(cycles(0.001, 10.001) - 105) <= 1);
    CHECK(std::abs(cycles(10.001, 20.001) - 105) <= 1);
    CHECK(std::abs(cycles(9.001, 11.001) - 22) <= 1);
    CHECK(std::abs(cycles(19.001, 21.001) - 20) <= 1);
  }
  SECTION("a step may take its time") {
    model.step_nm = 20;
    model.step_at_s = 1;
    model.step_seconds = 0.3;
    DisturbanceAxis axis(model, 1, 1);
    CHECK(axis.step(1) == 0);
    CHECK(axis.step(1.15) == Approx(10));
    CHECK(axis.step(1.3) == 20);
  }
  SECTION("broadband vibration: its size and where it resonates") {
    model.broadband = {.rms_nm = 3, .frequency_hz = 12, .damping = 0.1};
    DisturbanceAxis axis(model, 1, 1);
    double square = 0, change = 0, last = 0;
    constexpr int kTicks = 2'000'000;
    for (int i = 0; i < kTicks; ++i) {
      const double place = axis.step(i * kTickS);
      square += place * place / kTicks;
      change += (place - last) * (place - last) / kTicks;
      last = place;
    }
    // 200 s hold some 1,500 independent values (bandwidth pi/2 * 2 * 0.1 * 12 Hz, two a hertz).
    CHECK(std::sqrt(square) == Approx(3).epsilon(0.1));
    // A resonator driven by white noise has a speed whose rms is omega times the place's.
    CHECK(std::sqrt(change / square) / kTickS == Approx(2 * std::numbers::pi * 12).epsilon(0.05));
  }
  SECTION("random walk: variance grows as time") {
    model.random_walk_nm_per_sqrt_s = 2;
    Moments ends;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      DisturbanceAxis axis(model, seed, 1);
      ends.add(after(axis, 0.25));
    }
    CHECK(std::abs(ends.mean()) < 4 * ends.standard_error());
    CHECK(ends.variance() == Approx(4 * 0.25).epsilon(4 * std::sqrt(2.0 / 600)));
  }
}

TEST_CASE("The stage answers a step after its delay as a second-order system") {
  StageModel model = quiet_stage();
  model.frequency_hz = GENERATE(20.0, 150.0, 400.0);
  model.damping = GENERATE(0.3, 0.7);
  model.delay_ms = 2.5;
  Stage stage(model, 1);
  stage.command(0, {100, -50});
  for (int tick = 1; tick <= 600; ++tick) {
    stage.step(tick * kTickNs, false);
    const double expected =
        step_response(model.frequency_hz, model.damping, tick * kTickS - 0.0025);
    REQUIRE(stage.position_nm().x == Approx(100 * expected).margin(1e-6));
    REQUIRE(stage.position_nm().y == Approx(-50 * expected).margin(1e-6));
  }
}

TEST_CASE("A second mode carries its share of the motion") {
  StageModel model = quiet_stage();
  model.second_mode_share = 0.2;
  model.second_mode_hz = 400;
  model.second_mode_damping = 0.05;
  Stage stage(model, 1);
  stage.command(0, {100, 0});
  for (int tick = 1; tick <= 2000; ++tick) {
    stage.step(tick * kTickNs, false);
    const double since_s = tick * kTickS - 1e-3 * model.delay_ms;
    REQUIRE(stage.position_nm().x ==
            Approx(80 * step_response(model.frequency_hz, model.damping, since_s) +
                   20 * step_response(400, 0.05, since_s))
                .margin(1e-6));
  }
}

TEST_CASE("An overdamped stage creeps to its target without passing it") {
  StageModel model = quiet_stage();
  model.damping = 3;
  model.delay_ms = 0;
  Stage stage(model, 1);
  stage.command(0, {100, 0});
  double before = 0;
  for (int tick = 1; tick <= 2000; ++tick) {
    stage.step(tick * kTickNs, false);
    REQUIRE(stage.position_nm().x >= before);
    REQUIRE(stage.position_nm().x <= 100);
    before = stage.position_nm().x;
  }
  CHECK(before == Approx(100).margin(1e-3));
}

TEST_CASE("Commands are obeyed in order, each after the delay") {
  StageModel model = quiet_stage();
  model.delay_ms = 10;
  model.frequency_hz = 1000;
  Stage stage(model, 1);
  stage.command(0, {10, 0});
  stage.command(5'000'000, {20, 0});
  run(stage, 0, 0.0149);
  CHECK(stage.position_nm().x == Approx(10).margin(0.01));
  CHECK(stage.commanded_nm().x == 20);
  run(stage, 0.0149, 0.025);
  CHECK(stage.position_nm().x == Approx(20).margin(0.01));
}

TEST_CASE("The stage quantises, stays in its range and may be wired the wrong way round") {
  StageModel model = quiet_stage();
  model.delay_ms = 0;
  SECTION("quantisation") {
    model.quantisation_nm = 0.5;
    Stage stage(model, 1);
    stage.command(0, {10.2, -10.3});
    run(stage, 0, 0.1);
    CHECK(stage.position_nm().x == Approx(10.0).margin(1e-6));
    CHECK(stage.position_nm().y == Approx(-10.5).margin(1e-6));
  }
  SECTION("range") {
    model.range_nm = 300;
    Stage stage(model, 1);
    stage.command(0, {1000, -1000});
    run(stage, 0, 0.1);
    CHECK(stage.position_nm().x == Approx(300));
    CHECK(stage.position_nm().y == Approx(-300));
  }
  SECTION("axis sign") {
    model.axis_sign = {1, -1};
    Stage stage(model, 1);
    stage.command(0, {10, 10});
    run(stage, 0, 0.1);
    CHECK(stage.position_nm().x == Approx(10));
    CHECK(stage.position_nm().y == Approx(-10));
  }
  SECTION("stuck for good") {
    model.stuck = true;
    Stage stage(model, 1);
    stage.command(0, {10, 10});
    run(stage, 0, 0.1);
    CHECK(stage.position_nm().x == 0);
  }
  SECTION("stuck for a while: what came meanwhile is lost") {
    Stage stage(model, 1);
    stage.command(0, {10, 0});
    run(stage, 0, 0.1);
    stage.command(100'000'000, {20, 0});
    run(stage, 0.1, 0.2, true);
    run(stage, 0.2, 0.3);
    CHECK(stage.position_nm().x == Approx(10));
    stage.command(300'000'000, {30, 0});
    run(stage, 0.3, 0.4);
    CHECK(stage.position_nm().x == Approx(30));
  }
}

TEST_CASE("A stage that begins to answer wrongly does so from where it stands") {
  StageModel model = quiet_stage();
  model.delay_ms = 0;
  Stage stage(model, 1);
  stage.command(0, {100, -40});
  run(stage, 0, 0.1);
  const auto goes_to = [&](double gain, double degrees, Vec2 moved_nm) {
    stage.answer_wrongly(gain, degrees);
    run(stage, 0.1, 0.2);
    CHECK(stage.position_nm().x == Approx(100));  // the fault by itself moves nothing
    CHECK(stage.position_nm().y == Approx(-40));
    stage.command(200'000'000, {103, -20});
    run(stage, 0.2, 0.3);
    CHECK(stage.position_nm().x == Approx(100 + moved_nm.x));
    CHECK(stage.position_nm().y == Approx(-40 + moved_nm.y));
  };
  SECTION("reversed") {
    goes_to(-1, 0, {-3, -20});
  }
  SECTION("too far") {
    goes_to(1.5, 0, {4.5, 30});
  }
  SECTION("turned from x to y") {
    goes_to(1, 90, {-20, 3});
  }
  SECTION("reversed, then mended: from where it stands again") {
    goes_to(-1, 0, {-3, -20});
    stage.answer_wrongly(1, 0);
    stage.command(300'000'000, {104, -20});
    run(stage, 0.3, 0.4);
    CHECK(stage.position_nm().x == Approx(98));
    CHECK(stage.position_nm().y == Approx(-60));
  }
  SECTION("dead") {
    stage.die();
    stage.command(100'000'000, {103, -20});
    run(stage, 0.1, 0.5);
    CHECK(stage.position_nm().x == Approx(100));
    CHECK(stage.commanded_nm().y == -20);
  }
}

TEST_CASE("Stage noise has its size and its bandwidth") {
  StageModel model = quiet_stage();
  model.noise_nm = 0.4;
  model.noise_bandwidth_hz = 100;
  Stage stage(model, 3);
  Moments level;
  Moments product;
  // First-order noise of 100 Hz has a correlation of exp(-2 pi 100 t); after 20 ticks 0.285.
  constexpr int kLag = 20;
  std::array<double, kLag> past{};
  constexpr int kTicks = 400000;
  for (int i = 0; i < kTicks; ++i) {
    stage.step((i + 1) * kTickNs, false);
    const double x = stage.position_nm().x;
    level.add(x);
    if (i >= kLag) product.add(x * past[static_cast<std::size_t>(i % kLag)]);
    past[static_cast<std::size_t>(i % kLag)] = x;
  }
  // 40 s of noise with a correlation time of 1.6 ms: about 12,000 independent values.
  CHECK(std::sqrt(level.variance()) == Approx(0.4).epsilon(0.05));
  CHECK(product.mean() / level.variance() ==
        Approx(std::exp(-2 * std::numbers::pi * 100 * kLag * kTickS)).margin(0.04));
}

TEST_CASE("The stage moves the image by the inverse of the image-to-stage matrix") {
  StageModel model = quiet_stage();
  // Turned by 30 degrees, y mirrored, and twice as large along the stage's x.
  model.image_to_stage = {{{1.7320508, 1.0}, {0.5, -0.8660254}}};
  const Stage stage(model, 1);
  const Vec2 image = {3, -7};
  const Vec2 moved = {1.7320508 * image.x + 1.0 * image.y, 0.5 * image.x - 0.8660254 * image.y};
  const Vec2 back = stage.image_displacement(moved);
  CHECK(back.x == Approx(image.x));
  CHECK(back.y == Approx(image.y));
}
