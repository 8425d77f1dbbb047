// SPDX-License-Identifier: MIT
#include <cmath>
#include <numbers>
#include <vector>

#include "control/identification/dense_solver.hpp"
#include "control/observer/stage_preview.hpp"
#include "support/catch.hpp"

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
                  double before) {
  return weighted(gains.course, state, DisturbanceFilter::kPairs) - gains.from_place * place -
         gains.from_command * before;
}

TEST_CASE("stage preview: the first command is that of the best course of commands") {
  const double tau_s = GENERATE(0.0, 0.0015, 0.019);
  const double penalty = GENERATE(0.003, 0.3);
  const PreviewSettings settings{.period_s = 0.002, .time_constant_s = tau_s, .penalty = penalty};
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

TEST_CASE("stage preview: a stage that is where it should be is left there") {
  const PreviewGains gains =
      StagePreview({.period_s = 0.002, .time_constant_s = 0.019, .penalty = 0.1}).gains({});
  DisturbanceFilter::State state{};
  state[0] = {12.5, 0};
  CHECK(command_of(gains, state, 12.5, 12.5) == Approx(12.5).epsilon(1e-4));
}

TEST_CASE("stage preview: a slow stage looks farther ahead") {
  const StagePreview fast({.period_s = 0.002, .time_constant_s = 0.001, .penalty = 0.03});
  const StagePreview slow({.period_s = 0.002, .time_constant_s = 0.05, .penalty = 0.03});
  CHECK(fast.frames() >= 2);
  CHECK(slow.frames() > 2 * fast.frames());
}

}  // namespace
}  // namespace driftd::control
