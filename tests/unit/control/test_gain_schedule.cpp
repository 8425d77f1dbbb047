// SPDX-License-Identifier: MIT
#include "control/observer/gain_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

constexpr double kLimitNm = 4;

PreviewSettings ringing(double hz, double damping, double penalty = 0.03) {
  return {.period_s = test::kPeriodS,
          .response = {.order = 2, .frequency_hz = hz, .damping = damping},
          .penalty = penalty};
}

double length_nm(const std::array<PreviewGains, StagePreview::kStates>& to_do,
                 const StageAhead& ahead) {
  double sum = 0;
  for (const PreviewGains& part : to_do) sum += std::pow(part.command_nm(ahead), 2);
  return std::sqrt(sum);
}

/// A stage that was told `ahead.told_nm` is told another command and goes on for a frame.
void go(StageAhead& ahead, const PreviewSettings& settings, double command_nm) {
  test::SteppedStage stage{ahead.place_nm, ahead.speed_nm_per_s, settings.response.frequency_hz,
                           settings.response.damping};
  stage.go(command_nm, settings.period_s);
  ahead.place_nm = stage.place;
  ahead.speed_nm_per_s = stage.speed;
  ahead.told_nm = command_nm;
}

TEST_CASE("gain schedule: what is to do bounds every change of command that is to come, tightly") {
  const double hz = GENERATE(2, 8, 20), damping = GENERATE(0.05, 0.7), penalty = GENERATE(0.03, 30);
  CAPTURE(hz, damping, penalty);
  const PreviewSettings settings = ringing(hz, damping, penalty);
  const StagePreview preview(settings);
  const PreviewGains gains = preview.gains({});
  const auto to_do = preview.to_do({});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double largest_share = 0;
  for (int i = 0; i < 300; ++i) {
    StageAhead ahead{.place_nm = 10 * normal(random),
                     .speed_nm_per_s = 10 * 6.28 * hz * normal(random),
                     .told_nm = 10 * normal(random)};
    ahead.course[0].first = 10 * normal(random);
    const double begin_nm = length_nm(to_do, ahead);
    double before_nm = begin_nm;
    for (int frame = 0; frame < 20; ++frame) {
      const double command_nm = gains.command_nm(ahead);
      const double share = std::abs(command_nm - ahead.told_nm) / begin_nm;
      largest_share = std::max(largest_share, share);
      REQUIRE(share < 1.001);
      go(ahead, settings, command_nm);
      REQUIRE(length_nm(to_do, ahead) < 1.001 * before_nm);
      before_nm = length_nm(to_do, ahead);
    }
  }
  CHECK(largest_share > 0.8);
}

TEST_CASE("gain schedule: nothing is to do for a stage that goes along a course with the rest") {
  const StagePreview preview(ringing(8, 0.1));
  const auto to_do = preview.to_do({});
  // A place that goes by 20 nm/s; the command leads by what the stage lags behind.
  const double speed = 20, lag_s = 2 * 0.1 / (2 * std::acos(-1.0) * 8);
  StageAhead ahead{.place_nm = 3, .speed_nm_per_s = speed};
  ahead.course[0] = {3, speed};
  ahead.told_nm = 3 + speed * (lag_s - 0.5 * test::kPeriodS);
  const double along_nm = length_nm(to_do, ahead);
  ahead.course[0].first = 4;
  CHECK(along_nm < 0.1 * length_nm(to_do, ahead));
}

/// Frames from a knock until the stage, commanded within limits, stays within 0.1 nm.
int frames_to_rest(const PreviewSettings& settings, double knock_nm) {
  const StagePreview preview(settings);
  const GainSchedule schedule = GainScheduler(settings).schedule(preview, {});
  StageAhead ahead;
  ahead.course[0].first = knock_nm;
  int last = 0;
  for (int frame = 0; frame < 2500; ++frame) {
    const double wanted_nm = schedule.command_nm(ahead, kLimitNm);
    go(ahead, settings, std::clamp(wanted_nm, ahead.told_nm - kLimitNm, ahead.told_nm + kLimitNm));
    if (std::abs(ahead.place_nm - knock_nm) > 0.1 || std::abs(ahead.speed_nm_per_s) > 10)
      last = frame;
  }
  return last;
}

TEST_CASE("gain schedule: a stage that rings comes to rest within limits, whatever the knock") {
  const double hz = GENERATE(2, 8, 12, 20, 40), damping = GENERATE(0.02, 0.1, 0.7);
  const double knock_nm = GENERATE(3, 10, 60, 500);
  CAPTURE(hz, damping, knock_nm);
  // It goes by no more than the limit a frame, and needs half a period to come to rest.
  const double least = knock_nm / kLimitNm + 0.5 / hz / test::kPeriodS;
  CHECK(frames_to_rest(ringing(hz, damping), knock_nm) < 3 * least);
}

TEST_CASE("gain schedule: fast stages, and those of first order, have one set") {
  const auto sets = [](const PreviewSettings& settings) {
    return GainScheduler(settings).schedule(StagePreview(settings), {}).count;
  };
  CHECK(sets(ringing(8, 0.7, 0.003)) == GainSchedule::kMost);
  CHECK(sets(ringing(8, 0.7, 20)) == GainSchedule::kMost - 4);  // 0.03 * 8^4 > 20
  CHECK(sets(ringing(150, 0.7)) == 1);
  CHECK(sets({.period_s = test::kPeriodS, .response = {.time_constant_s = 0.05}}) == 1);
}

TEST_CASE("gain schedule: within its limit it commands as its gains alone do") {
  const PreviewSettings settings = ringing(8, 0.7);
  const StagePreview preview(settings);
  const GainSchedule schedule = GainScheduler(settings).schedule(preview, {});
  StageAhead ahead;
  ahead.course[0].first = 0.01;
  CHECK(schedule.command_nm(ahead, kLimitNm) == preview.gains({}).command_nm(ahead));
  ahead.course[0].first = 100;
  const double calm_nm = schedule.command_nm(ahead, kLimitNm);
  CHECK(calm_nm > 0);
  CHECK(calm_nm < 0.1 * preview.gains({}).command_nm(ahead));
}

}  // namespace
}  // namespace driftd::control
