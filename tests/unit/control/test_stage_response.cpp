// SPDX-License-Identifier: MIT
// What the identification of a stage is made of: the response in closed form, noise made white,
// normal equations, spectrum, the reduction to what the controller models, and the forecast.
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "base/dense_solver.hpp"
#include "base/welch.hpp"
#include "control/identification/loop_forecast.hpp"
#include "control/identification/noise_whitening.hpp"
#include "control/identification/stage_response.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

/// The same response by small steps of Euler's method, averaged over an exposure.
double stepped(const ResponseShape& shape, const Staircase& staircase, double begin_s,
               double exposure_s) {
  constexpr double kStepS = 2e-7;
  const double omega = 2 * std::numbers::pi * shape.frequency_hz;
  double x = 0, v = 0, sum = 0;
  std::size_t next = 0, count = 0;
  double u = 0;
  for (double t = 0; t < begin_s + exposure_s; t += kStepS) {
    while (next < staircase.sent_s.size() && staircase.sent_s[next] + shape.delay_s <= t)
      u = staircase.channels[0][next++];
    if (shape.order == 1) {
      x += kStepS * (u - x) / shape.time_constant_s;
    } else {
      v += kStepS * (omega * omega * (u - x) - 2 * shape.damping * omega * v);
      x += kStepS * v;
    }
    if (t >= begin_s) {
      sum += x;
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

TEST_CASE("a response to a staircase is exact, averaged over the exposure") {
  const Staircase staircase{.sent_s = {0.001, 0.0034, 0.0051, 0.0103}, .channels = {{4, -3, 5, 1}}};
  const Exposures exposures{.middle_s = {0.004, 0.006, 0.0085, 0.02}, .exposure_s = 0.0015};
  for (const double damping : {0.2, 0.7, 1.0, 1.8}) {
    for (const double frequency_hz : {20.0, 300.0}) {
      const ResponseShape shape{
          .order = 2, .delay_s = 0.0012, .frequency_hz = frequency_hz, .damping = damping};
      CAPTURE(damping, frequency_hz);
      const auto seen = respond(shape, staircase, exposures);
      for (std::size_t i = 0; i < exposures.middle_s.size(); ++i)
        CHECK(seen[0][i] == Approx(stepped(shape, staircase, exposures.middle_s[i] - 0.00075,
                                           exposures.exposure_s))
                                .margin(0.004));
    }
  }
  const ResponseShape first{.order = 1, .delay_s = 0.0008, .time_constant_s = 0.003};
  const auto seen = respond(first, staircase, exposures);
  for (std::size_t i = 0; i < exposures.middle_s.size(); ++i)
    CHECK(seen[0][i] ==
          Approx(stepped(first, staircase, exposures.middle_s[i] - 0.00075, exposures.exposure_s))
              .margin(0.004));
}

TEST_CASE("a stage that answers at once stands at its command") {
  const Staircase staircase{.sent_s = {0.0, 0.01}, .channels = {{4, -2}, {1, 1}}};
  const Exposures exposures{.middle_s = {0.005, 0.01, 0.02}, .exposure_s = 0.002};
  const auto seen = respond({.order = 1}, staircase, exposures);
  CHECK(seen[0][0] == Approx(4));
  CHECK(seen[0][1] == Approx(1));  // half the exposure at 4, half at -2
  CHECK(seen[0][2] == Approx(-2));
  CHECK(seen[1][1] == Approx(1));
}

TEST_CASE("the bandwidth of a response is where its gain has fallen by 3 dB") {
  CHECK(ResponseShape{.order = 2, .frequency_hz = 100, .damping = std::sqrt(0.5)}.bandwidth_hz() ==
        Approx(100));
  CHECK(ResponseShape{.order = 1, .time_constant_s = 1 / (2 * std::numbers::pi * 40)}
            .bandwidth_hz() == Approx(40));
}

TEST_CASE("a play follows beyond its half width") {
  CHECK(play({1, 3, 2, -1}, 1.5) == std::vector<double>{0, 1.5, 1.5, 0.5});
}

TEST_CASE("noise with a known memory is made white and its unknowns come back") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> noise(20000);
  for (std::size_t k = 2; k < noise.size(); ++k)
    noise[k] = 1.6 * noise[k - 1] - 0.7 * noise[k - 2] + 0.4 * normal(random);
  FrameSlots slots;
  slots.use.assign(noise.size(), SlotUse::Counts);
  slots.frame.assign(noise.size(), 0);
  for (std::size_t k = 50; k < noise.size(); k += 37) slots.use[k] = SlotUse::Missing;
  mark_history(slots, 4);
  Whitening whitening;
  whitening.fit(noise, slots.use, 4, 0, noise.size());
  CHECK(whitening.sd() == Approx(0.4).epsilon(0.06));  // frames after a gap have a little more
  const std::vector<double> white = whitening.apply(noise, slots.use);
  double power = 0, together = 0;
  for (std::size_t k = 10; k < white.size(); ++k) {
    power += white[k] * white[k];
    together += white[k] * white[k - 1];
  }
  CHECK(power / static_cast<double>(white.size()) == Approx(1).epsilon(0.06));
  CHECK(std::abs(together / power) < 0.05);
}

TEST_CASE("frames are put on a grid, with slots for those that are missing") {
  std::vector<double> middle_s;
  for (int i = 0; i < 100; ++i) {
    if (i == 20 || i == 21 || i == 50) continue;
    middle_s.push_back(0.0020002 * i + (i % 3) * 2e-5);
  }
  const FrameSlots slots = slots_of(middle_s);
  REQUIRE(slots.use.size() == 100);
  CHECK(slots.present() == 97);
  CHECK(slots.use[20] == SlotUse::Missing);
  CHECK(slots.use[50] == SlotUse::Missing);
  CHECK(slots.frame[99] == 96);
}

TEST_CASE("unknowns that nothing determines stay 0") {
  NormalEquations equations(2);
  equations.add(std::vector<double>{2, 0}, 6);
  std::vector<double> solution;
  REQUIRE(equations.solve(0, solution));
  CHECK(solution[0] == Approx(3));
  CHECK(solution[1] == 0);
  CHECK(equations.remaining(solution) == Approx(0).margin(1e-12));
}

TEST_CASE("a spectrum holds the noise's variance and a line's power") {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> values(20000);
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = 0.5 * normal(random) +
                2 * std::sin(2 * std::numbers::pi * 31.25 * 0.002 * static_cast<double>(k));
  std::vector<double> density = welch(values, 500, 512, Detrend::Line).density;
  REQUIRE(density.size() == 257);
  density.erase(density.begin());
  double sum = 0, floor = 0;
  for (std::size_t f = 0; f < density.size(); ++f) sum += density[f] / (512 * 0.002);
  for (std::size_t f = 100; f < 200; ++f) floor += density[f] / 100;
  CHECK(sum == Approx(2 + 0.25).epsilon(0.03));  // a line of amplitude 2 has the power 2
  CHECK(floor == Approx(2 * 0.25 * 0.002).epsilon(0.05));
  CHECK(density[31] > 100 * floor);  // 31.25 Hz
}

TEST_CASE("a reduced response has the lag of the whole one") {
  for (const double damping : {0.4, 0.7, 1.0}) {
    const ResponseShape shape{
        .order = 2, .delay_s = 0.003, .frequency_hz = 150, .damping = damping};
    const ReducedResponse reduced = reduce(shape);
    CHECK(reduced.delay_s + reduced.time_constant_s ==
          Approx(0.003 + damping / (std::numbers::pi * 150)));
    CHECK(reduced.delay_s >= 0.003);
  }
}

TEST_CASE("what a reduced response has wrong grows with its time, and with ringing") {
  const auto wrong_frames = [](double hz, double damping) {
    return reduce({.order = 2, .delay_s = 0.003, .frequency_hz = hz, .damping = damping}).wrong_s /
           0.002;
  };
  CHECK(wrong_frames(150, 0.7) < 0.02);
  CHECK(wrong_frames(15, 0.7) == Approx(10 * wrong_frames(150, 0.7)).epsilon(0.3));
  CHECK(wrong_frames(80, 0.1) > 0.5);
}

LoopWorld loop_world() {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  LoopWorld world;
  world.period_s = 0.002;
  world.exposure_s = 0.001;
  world.age_s = 0.0015;
  world.noise_nm = {0.4, 0.4};
  world.shape = {.order = 2, .delay_s = 0.003, .frequency_hz = 150, .damping = 0.7};
  world.gain = {{{1, 0}, {0, 1}}};
  for (auto& axis : world.drift_nm) {
    double walk = 0;
    for (int k = 0; k < 6000; ++k) {
      walk += 0.0447 * normal(random);  // 1 nm / sqrt(s)
      axis.push_back(walk + std::sin(2 * std::numbers::pi * 1.3 * 0.002 * k) +
                     0.4 * normal(random));
    }
  }
  return world;
}

TEST_CASE("gains are chosen that leave less than others") {
  const LoopWorld world = loop_world();
  ControllerSettings settings = driftd::test::default_controller_settings();
  settings.stage_delay_us = 3000;
  settings.stage_time_constant_us = 1500;
  const ControllerSettings chosen = choose_gains(world, settings);
  const double least = forecast_residual_nm(world, chosen);
  CHECK(least < 0.6);
  settings.proportional = 0;
  settings.integral = 0.02;
  CHECK(forecast_residual_nm(world, settings) > 1.3 * least);
  settings.integral = 1.5;
  CHECK(forecast_residual_nm(world, settings) > 1.1 * least);
}

TEST_CASE("a loop with the wrong sign is forecast to run away") {
  LoopWorld world = loop_world();
  world.gain = {{{-1, 0}, {0, 1}}};
  CHECK(forecast_residual_nm(world, driftd::test::default_controller_settings()) > 100);
}

}  // namespace
}  // namespace driftd::control
