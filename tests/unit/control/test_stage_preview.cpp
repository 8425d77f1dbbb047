// SPDX-License-Identifier: MIT
#include <cmath>
#include <numbers>
#include <vector>

#include "control/identification/dense_solver.hpp"
#include "control/observer/stage_preview.hpp"
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
  const double tau_s = GENERATE(0.0, 0.0015, 0.019);
  const double penalty = GENERATE(0.003, 0.3);
  const PreviewSettings settings{
      .period_s = 0.002, .response = {.time_constant_s = tau_s}, .penalty = penalty};
  const double place = 0.7, before = -0.4, hz = 17.3;
  DisturbanceFilter::State state{};
  state[0] = {1.5, 20};
  state[1] = {0.8, -0.6};
  const auto course = [&](double t) {
    const double angle = 2 * std::numbers::pi * hz * t;
    return 1.5 + 20 * t + std::exp(-0.01 * t) * (0.8 * std::cos(angle) + 0.6 * std::sin(angle));
  };
  // All commands of many frames by least squares: place(t) is linear in them.
  constexpr std::size_t kFrames = 150;
  NormalEquations equations(kFrames);
  std::vector<double> from(kFrames, 0.0);  // the place at a frame's beginning, from the commands
  double rest = place;                     // and from where it stood
  const auto left = [&](double t) { return tau_s > 0 ? std::exp(-t / tau_s) : 0.0; };
  for (std::size_t k = 0; k < kFrames; ++k) {
    for (std::size_t j = 0; j < kInstants; ++j) {
      const double t = 0.002 * (static_cast<double>(j) + 0.5) / kInstants;
      std::vector<double> row(from);
      for (double& f : row) f *= left(t) / std::sqrt(double{kInstants});
      row[k] += (1 - left(t)) / std::sqrt(double{kInstants});
      const double wanted = course(t + 0.002 * static_cast<double>(k)) - rest * left(t);
      equations.add(row, wanted / std::sqrt(double{kInstants}));
    }
    std::vector<double> change(kFrames, 0.0);
    change[k] = std::sqrt(penalty);
    if (k > 0) change[k - 1] = -std::sqrt(penalty);
    equations.add(change, k > 0 ? 0 : std::sqrt(penalty) * before);
    for (double& f : from) f *= left(0.002);
    from[k] += 1 - left(0.002);
    rest *= left(0.002);
  }
  std::vector<double> commands;
  REQUIRE(equations.solve(0, commands));
  const PreviewGains gains = StagePreview(settings).gains(one_line(hz));
  CHECK(command_of(gains, state, place, before) == Approx(commands[0]).epsilon(1e-3));
}

TEST_CASE("stage preview: so it is with a stage of second order, wherever it is and however fast") {
  const double hz = GENERATE(8.0, 80.0);
  const double damping = GENERATE(0.1, 0.7);
  const double penalty = GENERATE(0.003, 0.3);
  const double place = 0.7, speed = 30, before = -0.4;
  DisturbanceFilter::State state{};
  state[0] = {1.5, 20};
  // The place at each instant of each frame: where it goes by itself, and by each command.
  constexpr std::size_t kFrames = 200;
  std::vector<double> alone, answer;  // to a command of 1 that lasts a frame
  const auto go = [&](test::SteppedStage stage, double first, std::vector<double>& places) {
    for (std::size_t k = 0; k < kFrames; ++k) {
      double at_s = 0;
      for (std::size_t j = 0; j < kInstants; ++j) {
        const double t = 0.002 * (static_cast<double>(j) + 0.5) / kInstants;
        stage.go(k == 0 ? first : 0, t - at_s);
        at_s = t;
        places.push_back(stage.place);
      }
      stage.go(k == 0 ? first : 0, 0.002 - at_s);
    }
  };
  go({place, speed, hz, damping}, 0, alone);
  go({0, 0, hz, damping}, 1, answer);
  NormalEquations equations(kFrames);
  for (std::size_t k = 0; k < kFrames; ++k) {
    for (std::size_t j = 0; j < kInstants; ++j) {
      const double t =
          0.002 * (static_cast<double>(k) + (static_cast<double>(j) + 0.5) / kInstants);
      std::vector<double> row(kFrames, 0.0);
      for (std::size_t c = 0; c <= k; ++c)
        row[c] = answer[(k - c) * kInstants + j] / std::sqrt(double{kInstants});
      equations.add(row, (1.5 + 20 * t - alone[k * kInstants + j]) / std::sqrt(double{kInstants}));
    }
    std::vector<double> change(kFrames, 0.0);
    change[k] = std::sqrt(penalty);
    if (k > 0) change[k - 1] = -std::sqrt(penalty);
    equations.add(change, k > 0 ? 0 : std::sqrt(penalty) * before);
  }
  std::vector<double> commands;
  REQUIRE(equations.solve(0, commands));
  const PreviewGains gains =
      StagePreview({.period_s = 0.002,
                    .response = {.order = 2, .frequency_hz = hz, .damping = damping},
                    .penalty = penalty})
          .gains({});
  CHECK(command_of(gains, state, place, before, speed) == Approx(commands[0]).epsilon(3e-3));
}

TEST_CASE("stage preview: a stage that is where it should be is left there") {
  const PreviewGains gains =
      StagePreview({.period_s = 0.002, .response = {.time_constant_s = 0.019}, .penalty = 0.1})
          .gains({});
  DisturbanceFilter::State state{};
  state[0] = {12.5, 0};
  CHECK(command_of(gains, state, 12.5, 12.5) == Approx(12.5).epsilon(1e-4));
}

TEST_CASE(
    "stage preview: whatever the stage, it ends where the course stays, and goes with one that "
    "goes") {
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
