// SPDX-License-Identifier: MIT
#include "control/law/observer/gain_schedule.hpp"

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

double command_nm(const GainSchedule& schedule, const StageAhead& ahead) {
  return schedule.sets[schedule.set_for(ahead, kLimitNm)].gains.command_nm(ahead);
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
  const ToDo to_do = preview.to_do({});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double largest_share = 0;
  for (int i = 0; i < 300; ++i) {
    StageAhead ahead{.place_nm = 10 * normal(random),
                     .speed_nm_per_s = 10 * 6.28 * hz * normal(random),
                     .told_nm = 10 * normal(random)};
    ahead.course[0].first = 10 * normal(random);
    const double begin_nm = to_do.length_nm(ahead);
    double before_nm = begin_nm;
    for (int frame = 0; frame < 20; ++frame) {
      const double command_nm = gains.command_nm(ahead);
      const double share = std::abs(command_nm - ahead.told_nm) / begin_nm;
      largest_share = std::max(largest_share, share);
      REQUIRE(share < 1.001);
      go(ahead, settings, command_nm);
      REQUIRE(to_do.length_nm(ahead) < 1.001 * before_nm);
      before_nm = to_do.length_nm(ahead);
    }
  }
  CHECK(largest_share > 0.8);
}

TEST_CASE("gain schedule: what is to do bounds the present change beside lines, too") {
  DisturbanceModel model;
  model.lines[0] = {.frequency_hz = 12, .fade_per_s = 0.3, .kick_nm2_per_s = 1};
  model.lines[1] = {.frequency_hz = 55, .fade_per_s = 0.3, .kick_nm2_per_s = 1};
  model.line_count = 2;
  const PreviewSettings settings = ringing(GENERATE(8, 20), 0.1, GENERATE(0.03, 30));
  const StagePreview preview(settings);
  const PreviewGains gains = preview.gains(model);
  const ToDo to_do = preview.to_do(model);
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double largest_share = 0;
  for (int i = 0; i < 3000; ++i) {
    StageAhead ahead{.place_nm = normal(random),
                     .speed_nm_per_s = 100 * normal(random),
                     .told_nm = normal(random),
                     .pairs = 3};
    for (std::size_t pair = 0; pair < 3; ++pair)
      ahead.course[pair] = {normal(random), normal(random)};
    const double change_nm = std::abs(gains.command_nm(ahead) - ahead.told_nm);
    largest_share = std::max(largest_share, change_nm / to_do.length_nm(ahead));
  }
  CHECK(largest_share <= 1.0001);
  CHECK(largest_share > 0.8);
}

TEST_CASE("gain schedule: there is a bound for a stage that is damped beyond measure, too") {
  const PreviewSettings settings = ringing(60, 100);
  const GainSchedule schedule = GainScheduler(settings).schedule(StagePreview(settings), {});
  StageAhead ahead;
  ahead.course[0].first = 100;
  CHECK(schedule.count > 5);
  for (std::size_t k = 0; k < schedule.count; ++k)
    CHECK(std::isfinite(schedule.sets[k].to_do.length_nm(ahead)));
}

TEST_CASE("gain schedule: nothing is to do for a stage that goes along a course with the rest") {
  const StagePreview preview(ringing(8, 0.1));
  const ToDo to_do = preview.to_do({});
  // A place that goes by 20 nm/s; the command leads by what the stage lags behind.
  const double speed = 20, lag_s = 2 * 0.1 / (2 * std::acos(-1.0) * 8);
  StageAhead ahead{.place_nm = 3, .speed_nm_per_s = speed};
  ahead.course[0] = {3, speed};
  ahead.told_nm = 3 + speed * (lag_s - 0.5 * test::kPeriodS);
  const double along_nm = to_do.length_nm(ahead);
  ahead.course[0].first = 4;
  CHECK(along_nm < 0.1 * to_do.length_nm(ahead));
}

/// Frames from a knock until the stage, commanded within limits, stays within 0.1 nm.
int frames_to_rest(const PreviewSettings& settings, double knock_nm) {
  const StagePreview preview(settings);
  const GainSchedule schedule = GainScheduler(settings).schedule(preview, {});
  StageAhead ahead;
  ahead.course[0].first = knock_nm;
  int last = 0;
  for (int frame = 0; frame < 2500; ++frame) {
    const double wanted_nm = command_nm(schedule, ahead);
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
  CHECK(command_nm(schedule, ahead) == preview.gains({}).command_nm(ahead));
  ahead.course[0].first = 100;
  const double calm_nm = command_nm(schedule, ahead);
  CHECK(calm_nm > 0);
  CHECK(calm_nm < 0.1 * preview.gains({}).command_nm(ahead));
}

}  // namespace
}  // namespace driftd::control
