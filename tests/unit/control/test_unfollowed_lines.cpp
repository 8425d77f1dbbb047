// SPDX-License-Identifier: MIT
// Lines that a slow camera shows and the stage is not to follow: which these are, and that neither
// law moves the stage by them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "control/law/controller.hpp"
#include "control/law/law_choice.hpp"
#include "control/law/observer/observer.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr double kPeriodS = 1.0 / 30;
constexpr std::int64_t kPeriodNs = 33'333'333, kLatencyNs = 3'000'000;

Line line_of(double hz, double q) {
  return {.frequency_hz = hz, .fade_per_s = std::numbers::pi * hz / q, .kick_nm2_per_s = 0.1};
}
DisturbanceModel model_of(const Line& line) {
  DisturbanceModel model{.walk_nm2_per_s = 0.1, .noise_nm2 = 0.04};
  model.lines[0] = line;
  model.line_count = 1;
  return model;
}
bool is_followed(const Line& line, double period_s, const DisturbanceModel& before = {}) {
  DisturbanceModel model = model_of(line);
  decide_followed(model, before, period_s);
  CHECK(follows_all(model) == model.lines[0].followed);
  return model.lines[0].followed;
}

TEST_CASE("sharp lines are followed from 44 frames/s on, broad and very slow ones always") {
  CHECK(is_followed(line_of(3, 50), 1.0 / 44));
  CHECK_FALSE(is_followed(line_of(3, 50), 1.0 / 43.9));
  CHECK(is_followed(line_of(3, 4.9), kPeriodS));
  CHECK_FALSE(is_followed(line_of(3, 5.1), kPeriodS));
  CHECK(is_followed(line_of(30.0 / 32.1, 50), kPeriodS));
  CHECK_FALSE(is_followed(line_of(30.0 / 31.9, 50), kPeriodS));
  DisturbanceModel two = model_of(line_of(3, 2));
  two.lines[two.line_count++] = line_of(5, 50);
  decide_followed(two, {}, kPeriodS);
  CHECK(two.lines[0].followed);
  CHECK_FALSE(two.lines[1].followed);
  CHECK_FALSE(follows_all(two));
}

TEST_CASE("where lines are verified sharp ones are followed once they are the sample's own") {
  constexpr double kFastS = 0.01;
  const auto follows = [](Line line, LineOrigin origin) {
    line.origin = origin;
    DisturbanceModel model = model_of(line);
    decide_verified(model, {}, kFastS);
    return model.lines[0].followed;
  };
  CHECK(follows(line_of(7, 50), LineOrigin::Own));
  CHECK_FALSE(follows(line_of(7, 50), LineOrigin::Unknown));
  CHECK_FALSE(follows(line_of(93, 50), LineOrigin::Alias));
  // What is broad, slow or faint is followed as long as it is not known to be an alias.
  CHECK(follows(line_of(7, 4.9), LineOrigin::Unknown));
  CHECK_FALSE(follows(line_of(93, 4.9), LineOrigin::Alias));
  CHECK(follows(line_of(100 / 32.1, 50), LineOrigin::Unknown));
  Line faint = line_of(7, 50);
  faint.kick_nm2_per_s = 0.04 * 0.04 * 2 * faint.fade_per_s;
  CHECK(follows(faint, LineOrigin::Unknown));
  CHECK_FALSE(follows(faint, LineOrigin::Alias));
  // An alias stays one where nothing is verified any more.
  DisturbanceModel alias = model_of(line_of(93, 50));
  alias.lines[0].origin = LineOrigin::Alias;
  decide_followed(alias, {}, kFastS);
  CHECK_FALSE(alias.lines[0].followed);
}

TEST_CASE("a line near a bound stays what it was in the model before") {
  const auto known = [](double hz, bool followed) {
    DisturbanceModel before = model_of(line_of(hz, 5));
    before.lines[0].followed = followed;
    return before;
  };
  CHECK(is_followed(line_of(3, 6.2), kPeriodS, known(3.1, true)));
  CHECK_FALSE(is_followed(line_of(3, 6.3), kPeriodS, known(3.1, true)));
  CHECK_FALSE(is_followed(line_of(3, 4.1), kPeriodS, known(2.9, false)));
  CHECK(is_followed(line_of(3, 3.9), kPeriodS, known(2.9, false)));
  // Frames of a period: 26, 25, 39, 41.
  CHECK(is_followed(line_of(30.0 / 26, 50), kPeriodS, known(1.1, true)));
  CHECK_FALSE(is_followed(line_of(30.0 / 25, 50), kPeriodS, known(1.1, true)));
  CHECK_FALSE(is_followed(line_of(30.0 / 39, 50), kPeriodS, known(0.8, false)));
  CHECK(is_followed(line_of(30.0 / 41, 50), kPeriodS, known(0.8, false)));
  // Another line is not the one before, and of two the nearer one is.
  CHECK_FALSE(is_followed(line_of(3, 6), kPeriodS, known(3.7, true)));
  CHECK_FALSE(is_followed(line_of(3, 6), kPeriodS, known(2.3, true)));
  DisturbanceModel two = known(3.4, true);
  two.lines[two.line_count++] = known(3.1, false).lines[0];
  CHECK_FALSE(is_followed(line_of(3, 6), kPeriodS, two));
  CHECK(is_followed(line_of(3.3, 6), kPeriodS, two));
}

TEST_CASE("a rate is another one from where it is clearly beyond that of sharp lines") {
  const auto same = [](double planned_hz, double measured_hz) {
    ObserverSettings planned, measured;
    planned.period_s = 1 / planned_hz;
    measured.period_s = 1 / measured_hz;
    return is_same_rate(planned, measured);
  };
  CHECK(same(45, 42));
  CHECK_FALSE(same(45, 41.5));
  CHECK(same(43, 46));
  CHECK_FALSE(same(43, 46.5));
  CHECK(same(60, 53));  // elsewhere 15 % are none
  CHECK(same(40, 36));
}

ObserverSettings slow_camera() {
  ObserverSettings settings;
  settings.period_s = kPeriodS;
  settings.stage.delay_us = 2500;
  settings.change_limit_nm = 50;
  return settings;
}

Tuning tuning_of(const DisturbanceModel& model, const Observer& observer, std::size_t axis) {
  Tuning tuning;
  tuning.axis = axis;
  tuning.epoch = observer.epoch();
  tuning.taken_ns = observer.frame().taken_ns;
  tuning.filter.start(model, observer.filter(axis).place_nm(), 0);
  tuning.gains = StagePreview(preview_of(observer.settings())).gains(model);
  tuning.usual_variance_nm2 = 0.04;
  return tuning;
}

TEST_CASE("a line that is followed is, wherever its frequency is tracked to") {
  // 32.3 frames a period are learnt, and become 29: what the gains weigh is no noise to others.
  Observer observer(slow_camera());
  DisturbanceModel model = model_of(line_of(30.0 / 32.3, 500));
  model.tracks = true;
  decide_followed(model, {}, kPeriodS);
  REQUIRE(model.lines[0].followed);
  double fastest_hz = 0;
  for (int i = 1; i < 3000; ++i) {
    const std::int64_t taken_ns = kPeriodNs * i;
    const double phase = 2 * std::numbers::pi * (30.0 / 29) * 1e-9 * static_cast<double>(taken_ns);
    observer.see({.moved_nm = {-3 * std::sin(phase), 2 * std::cos(phase)},
                  .variance_nm2 = {0.04, 0.04},
                  .taken_ns = taken_ns,
                  .now_ns = taken_ns + kLatencyNs});
    observer.told({}, taken_ns + kLatencyNs);
    for (std::size_t axis = 0; i == 10 && axis < kAxes; ++axis)
      observer.offer(tuning_of(model, observer, axis));
    if (!observer.is_tuned(0)) continue;
    fastest_hz = std::max(fastest_hz, observer.filter(0).model().lines[0].frequency_hz);
    REQUIRE(observer.unfollowed_nm().x == 0);
    REQUIRE(observer.unfollowed_nm().y == 0);
  }
  CHECK(fastest_hz > 30.0 / 31);
}

TEST_CASE("what is not followed weighs nothing, and is told for each axis by itself") {
  Observer observer(slow_camera());
  std::array<DisturbanceModel, kAxes> models{model_of(line_of(3, 50)), model_of(line_of(5, 50))};
  for (DisturbanceModel& model : models) {
    model.lines[model.line_count++] = line_of(7, 50);
    decide_followed(model, {}, kPeriodS);
    model.lines[1].followed = true;
  }
  const PreviewGains gains = StagePreview(preview_of(observer.settings())).gains(models[0]);
  CHECK(gains.course[1].first == 0);
  CHECK(gains.course[1].second == 0);
  CHECK(gains.course[2].first != 0);
  for (int i = 1; i < 400; ++i) {
    const std::int64_t taken_ns = kPeriodNs * i;
    const double turns = 2 * std::numbers::pi * 1e-9 * static_cast<double>(taken_ns);
    observer.see({.moved_nm = {3 * std::sin(3 * turns), 0.5 * std::sin(5 * turns)},
                  .variance_nm2 = {0.04, 0.04},
                  .taken_ns = taken_ns,
                  .now_ns = taken_ns + kLatencyNs});
    observer.told({}, taken_ns + kLatencyNs);
    for (std::size_t axis = 0; i == 1 && axis < kAxes; ++axis)
      observer.offer(tuning_of(models[axis], observer, axis));
    if (i < 300) continue;
    // The filters follow where the stage would have to be.
    CHECK(observer.unfollowed_nm().x == Approx(-3 * std::sin(3 * turns)).margin(0.3));
    CHECK(observer.unfollowed_nm().y == Approx(-0.5 * std::sin(5 * turns)).margin(0.1));
  }
}

TEST_CASE("only `auto` keeps it from PI, and only of the frame that showed it") {
  const ControlLaw law = GENERATE(ControlLaw::Auto, ControlLaw::Observer, ControlLaw::Pi);
  LawSettings settings{.law = law, .step_limit_nm = 50, .rate_limit_nm_per_s = 5000};
  settings.stage = slow_camera().stage;
  LawChoice choice(settings);
  ObserverSettings wish = choice.wish(kPeriodS, 50);
  wish.period_s = kPeriodS;
  choice.offer(make_plan(wish));
  DisturbanceModel model = model_of(line_of(3, 50));
  decide_followed(model, {}, kPeriodS);
  for (int i = 1; i < 100; ++i) {
    const std::int64_t taken_ns = kPeriodNs * i;
    const double phase = 6 * std::numbers::pi * 1e-9 * static_cast<double>(taken_ns);
    choice.see({.moved_nm = {3 * std::sin(phase), 2 * std::cos(phase)},
                .variance_nm2 = {0.04, 0.04},
                .taken_ns = taken_ns,
                .now_ns = taken_ns + kLatencyNs},
               {});
    choice.told({}, false, false, false, taken_ns + kLatencyNs);
    for (std::size_t axis = 0; i == 1 && axis < kAxes; ++axis)
      choice.offer(tuning_of(model, choice.observer(), axis));
  }
  REQUIRE(std::abs(choice.observer().unfollowed_nm().y) > 0.5);
  const std::int64_t last_ns = kPeriodNs * 99;
  CHECK((choice.unfollowed_nm(last_ns).y != 0) == (law == ControlLaw::Auto));
  CHECK(choice.unfollowed_nm(last_ns + 1).y == 0);
}

/// PI has relieved an observer that was misled and knows by now what moves the sample: a line that
/// it is not to follow, of 15 frames a period.
class RelievedLock {
 public:
  RelievedLock() {
    controller_.law().offer(make_plan(controller_.observer_wish(kPeriodS)));
    fly(2, 1);
    teach({.walk_nm2_per_s = 1e4, .noise_nm2 = 0.01});
    for (int i = 0; i < 40 && controller_.law().state().observer; ++i) fly(30, 1);
    REQUIRE(controller_.law().state().reason == LawReason::WorseThanPi);
    DisturbanceModel known = model_of(line_of(2, 500));
    decide_followed(known, {}, kPeriodS);
    REQUIRE_FALSE(known.lines[0].followed);
    teach(known);
    amplitude_nm_ = 4;
  }
  /// @returns how far the stage was told to go to and fro in the last second, from a mean over
  ///          `averaged` frames
  double fly(int frames, int averaged) {
    std::vector<double> told;
    for (int i = 0; i < frames; ++i) {
      const std::int64_t taken_ns = kPeriodNs * ++count_, now_ns = taken_ns + kLatencyNs;
      const double phase = 2 * std::numbers::pi * 2e-9 * static_cast<double>(taken_ns);
      // White of 0.2 nm, by turns: an observer that is misled follows it.
      const double noise_nm = 0.2 * (count_ % 2 == 0 ? 1 : -1);
      const Vec2 stage = stage_.at(taken_ns);
      seen_.push_back({amplitude_nm_ * std::sin(phase) + noise_nm + stage.x, stage.y});
      DriftEstimate drift;
      drift.valid = true;
      drift.frame_drift_nm = seen_.back();
      drift.frame_covariance_nm2 = {0.04, 0, 0.04};
      controller_.feed_law(drift, taken_ns, now_ns);
      controller_.remember_stage(taken_ns);
      Vec2 mean;
      for (int back = 0; back < averaged; ++back) {
        const Vec2& one = seen_[seen_.size() - 1 - static_cast<std::size_t>(back)];
        mean = {mean.x + one.x / averaged, mean.y + one.y / averaged};
      }
      const Correction c = controller_.update(mean, taken_ns, now_ns, averaged);
      stage_.command(c.total_nm, now_ns);
      told.push_back(c.total_nm.x);
    }
    const auto from = told.end() - std::min<std::ptrdiff_t>(30, std::ssize(told));
    const auto [low, high] = std::minmax_element(from, told.end());
    return *high - *low;
  }

 private:
  static ControllerSettings settings() {
    return {.image_to_stage = {},
            .proportional = 0,
            .integral = 0.3,
            .step_limit_nm = 50,
            .rate_limit_nm_per_s = 5000,
            .range_limit_nm = 5000,
            .travel_limit_nm = 5000,
            .stage_delay_us = 2500,
            .stage_time_constant_us = 1000,
            .law = ControlLaw::Auto};
  }
  void teach(const DisturbanceModel& model) {
    for (std::size_t axis = 0; axis < kAxes; ++axis)
      controller_.law().offer(tuning_of(model, controller_.law().observer(), axis));
  }

  Controller controller_{settings()};
  StageModel stage_{{.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1000}};
  std::vector<Vec2> seen_;
  std::int64_t count_ = 0;
  double amplitude_nm_ = 0;
};

TEST_CASE("PI is shown the place without such lines, whatever it is averaged over") {
  const int averaged = GENERATE(1, 2, 5);
  CAPTURE(averaged);
  RelievedLock lock;
  CHECK(lock.fly(600, averaged) < 1);  // of 8 nm that the sample goes to and fro
}

}  // namespace
}  // namespace driftd::control
