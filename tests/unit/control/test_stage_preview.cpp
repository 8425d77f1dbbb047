// SPDX-License-Identifier: MIT
#include <cmath>
#include <numbers>
#include <vector>

#include "base/dense_solver.hpp"
#include "control/law/observer/stage_preview.hpp"
#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kInstants = StagePreview::kInstants;

DisturbanceModel one_line(double hz) {
  DisturbanceModel model;
  model.lines[0] = {.frequency_hz = hz, .fade_per_s = 0.01, .kick_nm2_per_s = 1};
  model.line_count = 1;
  return model;
}

double command_of(const PreviewGains& gains, const DisturbanceFilter::State& state, double place,
                  double before, double speed = 0) {
  return weighted(gains.course, state, DisturbanceFilter::kPairs) - gains.from_place * place -
         gains.from_speed * speed - gains.from_command * before;
}

TEST_CASE("stage preview: the first command is that of the best course of commands") {
  const ResponseShape shape =
      GENERATE(ResponseShape{.time_constant_s = 0}, ResponseShape{.time_constant_s = 0.0015},
               ResponseShape{.time_constant_s = 0.019},
               ResponseShape{.order = 2, .frequency_hz = 8, .damping = 0.1},
               ResponseShape{.order = 2, .frequency_hz = 8, .damping = 0.7},
               ResponseShape{.order = 2, .frequency_hz = 80, .damping = 0.1},
               ResponseShape{.order = 2, .frequency_hz = 80, .damping = 0.7});
  const double penalty = GENERATE(0.003, 0.3);
  const double place = 0.7, speed = shape.order == 2 ? 30 : 0, before = -0.4, hz = 17.3;
  DisturbanceFilter::State state{};
  state[0] = {1.5, 20};
  state[1] = {0.8, -0.6};
  const auto course = [&](double t) {
    const double angle = 2 * std::numbers::pi * hz * t;
    return 1.5 + 20 * t + std::exp(-0.01 * t) * (0.8 * std::cos(angle) + 0.6 * std::sin(angle));
  };
  const auto go = [&](test::SteppedStage& stage, double command, double seconds) {
    const double tau_s = shape.time_constant_s;
    if (shape.order == 2)
      stage.go(command, seconds);
    else
      stage.place =
          command + (stage.place - command) * (tau_s > 0 ? std::exp(-seconds / tau_s) : 0);
  };
  // The place at each instant of each frame when a command lasts for the first frame.
  constexpr std::size_t kFrames = 200;
  const auto places = [&](test::SteppedStage stage, double first) {
    std::vector<double> found;
    for (std::size_t k = 0; k < kFrames; ++k) {
      double at_s = 0;
      for (std::size_t j = 0; j < kInstants; ++j) {
        const double t = 0.002 * (static_cast<double>(j) + 0.5) / kInstants;
        go(stage, k == 0 ? first : 0, t - at_s);
        at_s = t;
        found.push_back(stage.place);
      }
      go(stage, k == 0 ? first : 0, 0.002 - at_s);
    }
    return found;
  };
  const std::vector<double> alone = places({place, speed, shape.frequency_hz, shape.damping}, 0);
  const std::vector<double> answer = places({0, 0, shape.frequency_hz, shape.damping}, 1);
  // All commands of many frames by least squares: the places are linear in them.
  NormalEquations equations(kFrames);
  for (std::size_t k = 0; k < kFrames; ++k) {
    for (std::size_t j = 0; j < kInstants; ++j) {
      const double t =
          0.002 * (static_cast<double>(k) + (static_cast<double>(j) + 0.5) / kInstants);
      std::vector<double> row(kFrames, 0.0);
      for (std::size_t c = 0; c <= k; ++c)
        row[c] = answer[(k - c) * kInstants + j] / std::sqrt(double{kInstants});
      equations.add(row, (course(t) - alone[k * kInstants + j]) / std::sqrt(double{kInstants}));
    }
    std::vector<double> change(kFrames, 0.0);
    change[k] = std::sqrt(penalty);
    if (k > 0) change[k - 1] = -std::sqrt(penalty);
    equations.add(change, k > 0 ? 0 : std::sqrt(penalty) * before);
  }
  std::vector<double> commands;
  REQUIRE(equations.solve(0, commands));
  const PreviewGains gains =
      StagePreview({.period_s = 0.002, .response = shape, .penalty = penalty}).gains(one_line(hz));
  CAPTURE(shape.order, shape.time_constant_s, shape.frequency_hz, shape.damping, penalty);
  CHECK(command_of(gains, state, place, before, speed) ==
        Approx(commands[0]).epsilon(shape.order == 1 ? 1e-3 : 3e-3));
}

TEST_CASE("stage preview: a stage that is where it should be is left there") {
  const PreviewGains gains =
      StagePreview({.period_s = 0.002, .response = {.time_constant_s = 0.019}, .penalty = 0.1})
          .gains({});
  DisturbanceFilter::State state{};
  state[0] = {12.5, 0};
  CHECK(command_of(gains, state, 12.5, 12.5) == Approx(12.5).epsilon(1e-4));
}

TEST_CASE("stage preview: whatever the stage, it ends where the course stays") {
  const double rate_hz = GENERATE(50.0, 500.0, 2000.0);
  const double hz = GENERATE(0.1, 1.0, 7.85, 150.0);
  const double damping = GENERATE(0.05, 0.7, 5.0);
  const double penalty = GENERATE(0.003, 0.03, 10.0);
  const PreviewSettings settings{.period_s = 1 / rate_hz,
                                 .response = {.order = 2, .frequency_hz = hz, .damping = damping},
                                 .penalty = penalty};
  CAPTURE(rate_hz, hz, damping, penalty);
  const PreviewGains gains = StagePreview(settings).gains({});
  const double standing = 1 + gains.from_place + gains.from_command;
  CHECK(gains.course[0].first == Approx(standing).epsilon(1e-6));
  // A line that hardly turns is a place and a speed.
  const double turns_hz = 1e-5;
  DisturbanceModel line = one_line(turns_hz);
  line.lines[0].fade_per_s = 0;
  const PreviewGains slow = StagePreview(settings).gains(line);
  CHECK(slow.course[1].first == Approx(gains.course[0].first).epsilon(1e-4));
  CHECK(slow.course[1].second ==
        Approx(-2 * std::numbers::pi * turns_hz * gains.course[0].second).epsilon(1e-3));
}

}  // namespace
}  // namespace driftd::control
