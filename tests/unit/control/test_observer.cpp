// SPDX-License-Identifier: MIT
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "control/law/observer/observer.hpp"
#include "control/law/observer/observer_tuner.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

using test::ObservedLock;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The observer's own model and state once more.
Tuning same_again(const Observer& observer, std::size_t axis) {
  const StagePreview preview(preview_of(observer.settings()));
  Tuning tuning;
  tuning.axis = axis;
  tuning.epoch = observer.epoch();
  tuning.taken_ns = observer.frame().taken_ns;
  tuning.filter = observer.filter(axis);
  tuning.gains = preview.gains(observer.filter(axis).model());
  tuning.stage = observer.stage_error(axis);
  tuning.usual_variance_nm2 = test::shaken().noise_nm2;
  return tuning;
}

Tuning tuning_of(const DisturbanceModel& model, const Observer& observer, std::size_t axis) {
  Tuning tuning = same_again(observer, axis);
  const double place_nm = tuning.filter.place_nm();
  tuning.filter.start(model, place_nm, 0);
  tuning.gains = StagePreview(preview_of(observer.settings())).gains(model);
  return tuning;
}

/// @param offered  is called for each tuning that the observer gets
/// @returns the mean square of what is left
double fly_tuned(
    ObservedLock& lock, ObserverTuner& tuner, int frames,
    const std::function<void(const Tuning&)>& offered = [](const Tuning&) {}) {
  double sum = 0;
  for (int i = 0; i < frames; ++i) {
    lock.fly();
    sum += lock.left_nm().x * lock.left_nm().x + lock.left_nm().y * lock.left_nm().y;
    tuner.take(lock.observer().frame());
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      if (!tuner.is_due(axis)) continue;
      const auto tuning = tuner.tune(axis);
      if (!tuning) continue;
      lock.observer().offer(*tuning);
      offered(*tuning);
    }
  }
  return sum / (2 * frames);
}

double mean_square(ObservedLock& lock, int frames) {
  double sum = 0;
  for (int i = 0; i < frames; ++i) {
    lock.fly();
    sum += lock.left_nm().x * lock.left_nm().x + lock.left_nm().y * lock.left_nm().y;
  }
  return sum / (2 * frames);
}

TEST_CASE("observer: what is left is what its filter says of the future") {
  double seen = 0, promised = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    ObservedLock lock(test::shaken(), {}, seed);
    lock.fly();
    for (std::size_t axis = 0; axis < kAxes; ++axis)
      lock.observer().offer(tuning_of(test::shaken(), lock.observer(), axis));
    mean_square(lock, 2000);
    seen += mean_square(lock, 5000);
    // A frame's place is decided by commands of two and three frames before.
    DisturbanceFilter filter = lock.observer().filter(0);
    double mean = 0;
    for (int i = 0; i < 3; ++i) {
      filter.predict(test::kPeriodS);
      if (i > 0) mean += 0.5 * filter.variance_nm2();
    }
    promised += mean;
  }
  CHECK(seen == Approx(promised).epsilon(0.15));
}

/// What four locks that know the sample left, mean squares of 10 s of two axes each added, and what
/// each of them foretold.
struct Foretold {
  double seen_nm2 = 0, total_nm2 = 0, lag_nm2 = 0;
  std::vector<ResidualForecast> each;
};
Foretold fly_and_foretell(const ObserverSettings& settings) {
  const StagePreview preview(preview_of(settings));
  Foretold all;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    ObservedLock lock(test::shaken(), {}, seed, settings);
    lock.fly();
    for (std::size_t axis = 0; axis < kAxes; ++axis)
      lock.observer().offer(tuning_of(test::shaken(), lock.observer(), axis));
    mean_square(lock, 2000);
    all.seen_nm2 += mean_square(lock, 5000);
    all.each.push_back(forecast_residual(lock.observer().filter(0), preview, {.lead_s = 4e-3}));
    all.total_nm2 += all.each.back().total_nm2();
    all.lag_nm2 += all.each.back().lag_nm2;
  }
  return all;
}

TEST_CASE("observer: what is left is what was foretold, by markers and by motion") {
  const Foretold all = fly_and_foretell(test::observer_settings());
  for (const ResidualForecast& f : all.each) {
    CHECK(f.stage_nm2 == Approx(0).margin(1e-9));
    CHECK(f.markers_nm2 > 0.3 * f.total_nm2());  // noise of 0.3 nm, a walk of 0.045 nm a frame
    CHECK(f.motion_nm2 > 0);
  }
  // The frames' own instants are among those that are foretold.
  CHECK(std::sqrt(all.total_nm2 / all.seen_nm2) == Approx(1).epsilon(0.1));
  CHECK(all.lag_nm2 < 0.3 * all.total_nm2);
}

TEST_CASE("observer: so it is with a slow stage of second order, which lags behind") {
  ObserverSettings settings = test::observer_settings();
  settings.stage.resonance_hz = 25;
  settings.stage.damping = 0.3;
  settings.penalty = GENERATE(0.003, 0.3);
  const Foretold all = fly_and_foretell(settings);
  CHECK(std::sqrt(all.total_nm2 / all.seen_nm2) == Approx(1).epsilon(0.1));
  CHECK(all.lag_nm2 > 0.07 * all.total_nm2);
}

/// What a stage of second order leaves of a course that a filter foresees: mean squares of each
/// frame.
std::vector<double> left_nm2(const PreviewGains& gains, const PreviewSettings& settings, int frames,
                             const std::function<DisturbanceFilter::State(double)>& course) {
  test::SteppedStage stage{0, 0, settings.response.frequency_hz, settings.response.damping};
  double command = 0;
  std::vector<double> left;
  for (int k = 0; k < frames; ++k) {
    const double frame_s = settings.period_s * k;
    command = weighted(gains.course, course(frame_s), DisturbanceFilter::kPairs) -
              gains.from_place * stage.place - gains.from_speed * stage.speed -
              gains.from_command * command;
    double sum = 0, at_s = 0;
    for (const double t : {0.00025, 0.00075, 0.00125, 0.00175}) {
      stage.go(command, t - at_s);
      at_s = t;
      double place = 0;
      for (const auto& [first, second] : course(frame_s + t)) place += first;
      sum += (stage.place - place) * (stage.place - place) / 4;
    }
    stage.go(command, settings.period_s - at_s);
    left.push_back(sum);
  }
  return left;
}

TEST_CASE("observer: the lag is what a stage of second order leaves of a line and of each step") {
  const PreviewSettings settings{.period_s = test::kPeriodS,
                                 .response = {.order = 2, .frequency_hz = 25, .damping = 0.3},
                                 .penalty = 3};
  const StagePreview preview(settings);
  DisturbanceModel steps{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
  DisturbanceFilter walk(steps);
  for (int i = 0; i < 4000; ++i) {
    walk.predict(test::kPeriodS);
    walk.update(0);
  }
  DisturbanceFilter next = walk;
  next.predict(test::kPeriodS);
  const DisturbanceFilter::Pair step = walk.gains()[0];
  double sum = 0;
  for (const double nm2 : left_nm2(preview.gains(steps), settings, 600, [&](double t) {
         DisturbanceFilter::State state{};
         state[0] = {step.first + step.second * t, step.second};
         return state;
       }))
    sum += nm2;
  CHECK(lag_nm2(walk, preview) ==
        Approx(sum * (next.variance_nm2() + steps.noise_nm2)).epsilon(0.02));

  DisturbanceModel line = test::shaken();
  line.walk_nm2_per_s = line.noise_nm2 = 1e-9;
  line.lines[0].fade_per_s = 1e-6;
  DisturbanceFilter shaken(line);
  shaken.start(line, 0, 0);
  for (int i = 0; i < 4000; ++i) {
    shaken.predict(test::kPeriodS);
    shaken.update(std::sin(2 * std::numbers::pi * 30 * test::kPeriodS * i));
  }
  const std::vector<double> left =
      left_nm2(preview.gains(shaken.model()), settings, 1000, [&](double t) {
        DisturbanceFilter::State state = shaken.ahead(t);
        state[0] = {};
        return state;
      });
  const double mean = std::accumulate(left.begin() + 500, left.end(), 0.0) / 500;
  CHECK(mean > 0.001);
  CHECK(lag_nm2(shaken, preview) == Approx(mean).epsilon(0.03));
}

TEST_CASE("observer: a stage that is slow lags behind a fast line, and it is foretold") {
  DisturbanceModel model = test::shaken();
  DisturbanceFilter filter(model);
  for (int i = 0; i < 4000; ++i) {
    filter.predict(test::kPeriodS);
    filter.update(std::sin(2 * std::acos(-1.0) * 30 * test::kPeriodS * i));
  }
  const StagePreview fast({.response = {.time_constant_s = 1e-3}, .penalty = 1e-4});
  const StagePreview slow({.response = {.time_constant_s = 20e-3}, .penalty = 10});
  CHECK(lag_nm2(filter, fast) < 0.02);
  CHECK(lag_nm2(filter, slow) == Approx(0.5).epsilon(0.3));  // it does nearly nothing about 1 nm
}

TEST_CASE("observer: the same model handed over, even late, changes no command") {
  ObservedLock plain(test::shaken(), {}, 1), handed(test::shaken(), {}, 1);
  for (int i = 0; i < 500; ++i) {
    plain.fly();
    handed.fly();
  }
  const Tuning x = same_again(handed.observer(), 0), y = same_again(handed.observer(), 1);
  const int late = GENERATE(0, 50, 900);
  for (int i = 0; i < late; ++i) {
    plain.fly();
    handed.fly();
  }
  handed.observer().offer(x);
  handed.observer().offer(y);
  for (int i = 0; i < 300; ++i) {
    const Vec2 one = plain.fly(), other = handed.fly();
    REQUIRE(other.x == Approx(one.x).margin(1e-9));
    REQUIRE(other.y == Approx(one.y).margin(1e-9));
  }
  CHECK(handed.observer().tunings() == 2);
}

TEST_CASE("observer: a rate that a busy camera changes is the same, another stage is another") {
  const ObserverSettings has = test::observer_settings();
  ObserverSettings wants = has;
  wants.period_s = 1.1 * has.period_s;
  wants.change_limit_nm = 2 * has.change_limit_nm;
  CHECK(is_same_rate(has, wants));
  CHECK(needs_other_plan(has, wants));
  wants = has;
  wants.period_s = 1.2 * has.period_s;
  CHECK_FALSE(is_same_rate(has, wants));
  CHECK(needs_other_plan(has, wants));
  wants = has;
  wants.stage.damping = 0.2;  // a stage of second order, which it is not
  CHECK_FALSE(needs_other_plan(has, wants));
  wants.stage.resonance_hz = 40;
  CHECK(needs_other_plan(has, wants));
}

TEST_CASE("observer: a tuning older than what is remembered is passed over") {
  ObservedLock lock(test::shaken(), {}, 1);
  for (int i = 0; i < 10; ++i) lock.fly();
  const Tuning old = same_again(lock.observer(), 0);
  for (std::size_t i = 0; i < Observer::kRemembered + 10; ++i) lock.fly();
  lock.observer().offer(old);
  lock.fly();
  CHECK(lock.observer().tunings() == 0);
  // And one that was made before the lock.
  const Tuning recent = same_again(lock.observer(), 0);
  lock.observer().reset();
  lock.observer().offer(recent);
  lock.fly();
  CHECK(lock.observer().tunings() == 0);
}

TEST_CASE("observer: nothing that is not finite comes out, and it goes on afterwards") {
  ObservedLock lock(test::shaken(), {}, 2);
  for (int i = 0; i < 100; ++i) lock.fly();
  Observer& observer = lock.observer();
  const std::int64_t taken_ns = observer.frame().taken_ns;
  const Vec2 before = lock.fly();
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()})
    for (const Sight& sight :
         {Sight{{bad, 0}, {0.1, 0.1}, taken_ns + 4'000'001, taken_ns + 5'000'000},
          Sight{{0, 0}, {0.1, bad}, taken_ns + 4'000'001, taken_ns + 5'000'000}}) {
      const Vec2 wanted = observer.see(sight);
      CHECK(wanted.x == before.x);
      CHECK(wanted.y == before.y);
      observer.told({bad, bad}, sight.now_ns);
    }
  // Not later than the frame before, and sent before it was taken.
  CHECK(observer.see({{5, 5}, {0.1, 0.1}, taken_ns, taken_ns + 1}).x == before.x);
  CHECK(observer.see({{5, 5}, {0.1, 0.1}, taken_ns + 9'000'000, taken_ns}).x == before.x);
  CHECK(mean_square(lock, 500) < 1);
}

TEST_CASE("observer: missing frames are bridged") {
  ObservedLock lock(test::shaken(), {}, 3);
  lock.fly();
  for (std::size_t axis = 0; axis < kAxes; ++axis)
    lock.observer().offer(tuning_of(test::shaken(), lock.observer(), axis));
  mean_square(lock, 2000);
  DisturbanceFilter filter = lock.observer().filter(0);
  const double variance_nm2 = filter.variance_nm2();
  filter.predict(10 * test::kPeriodS);
  CHECK(filter.variance_nm2() > variance_nm2);
  CHECK(filter.variance_nm2() < 0.2);  // of a line of 1 nm, 0.5 nm^2
}

TEST_CASE("observer: its frames do not touch the heap") {
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  ObservedLock lock(test::shaken(), {}, 4);
  for (int i = 0; i < 300; ++i) {
    const bool offers = i > 0 && i % 50 == 0;
    const Tuning tuning = same_again(lock.observer(), static_cast<std::size_t>(i % 100 == 0));
    driftd::test::watch_this_thread(true);
    if (offers) lock.observer().offer(tuning);
    lock.fly();
    driftd::test::watch_this_thread(false);
    REQUIRE(driftd::test::watched_allocations() == 0);
  }
  CHECK(lock.observer().tunings() > 0);
}

TEST_CASE("tuner: it learns line, gain and dead time, and the sample stands stiller") {
  const StageError wrong{.gain = 0.8, .late_s = 1e-3};
  ObservedLock lock(test::shaken(), wrong, 5);
  ObserverTuner tuner(test::observer_settings());
  const double untuned_nm2 = mean_square(lock, 200);
  fly_tuned(lock, tuner, 10'000);
  CHECK(mean_square(lock, 2000) < 0.3 * untuned_nm2);
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    CHECK(lock.observer().stage_error(axis).gain == Approx(wrong.gain).margin(0.1));
    CHECK(lock.observer().stage_error(axis).late_s == Approx(wrong.late_s).margin(7e-4));
    const DisturbanceModel& model = lock.observer().filter(axis).model();
    REQUIRE(model.line_count >= 1);
    CHECK(model.lines[0].frequency_hz == Approx(30).margin(0.2));
  }
}

TEST_CASE("tuner: of a stage that was described wrong it foretells what is left") {
  const StageError wrong{.gain = 1.2, .late_s = 1.25e-3};
  ObservedLock lock(test::shaken(), wrong, 8);
  ObserverTuner tuner(test::observer_settings());
  fly_tuned(lock, tuner, 5000);
  const double left_nm2 = mean_square(lock, 2000);
  double foretold_nm2 = 0;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    const auto forecast = tuner.forecast(axis);
    REQUIRE(forecast);
    foretold_nm2 += 0.5 * forecast->total_nm2();
  }
  CHECK(std::sqrt(foretold_nm2 / left_nm2) == Approx(1).epsilon(0.15));
}

TEST_CASE("tuner: the stage's own noise is learnt, and still known in the next lock") {
  ObservedLock lock(test::shaken(), {}, 8);
  lock.fit_share = 0.5;
  ObserverTuner tuner(test::observer_settings());
  fly_tuned(lock, tuner, 15'000);
  const auto before = tuner.forecast(0);
  REQUIRE(before);
  CHECK(before->stage_nm2 == Approx(0.5 * test::shaken().noise_nm2).epsilon(0.1));
  lock.observer().reset();
  fly_tuned(lock, tuner, 1000);  // too short to know better
  const auto after = tuner.forecast(0);
  REQUIRE(after);
  CHECK(after->stage_nm2 == Approx(before->stage_nm2).epsilon(0.01));
  CHECK(after->stage_known_in_s == 0);
}

TEST_CASE("tuner: commands that never left are no part of what the stage was told") {
  ObservedLock lock(test::shaken(), {}, 9);
  ObserverTuner tuner(test::observer_settings());
  fly_tuned(lock, tuner, 300);
  SECTION("one far away") {
    lock.withhold(40);  // computed and told, but on its way to nowhere; a frame sees it so ...
    tuner.take(lock.observer().frame());
    lock.leaves = false;
    lock.fly();
    tuner.take(lock.observer().frame());
    CHECK(std::abs(tuner.stage().told_nm().x - lock.stage().told_nm().x) > 30);
    lock.take_back();  // ... until it is known
  }
  SECTION("some, and one that does leave before the next frame shows anything") {
    lock.kick(60);
    lock.leaves = false;
    for (int i = 0; i < 4; ++i) {
      lock.fly();
      tuner.take(lock.observer().frame());
    }
    CHECK(std::abs(tuner.stage().told_nm().x - lock.stage().told_nm().x) > 10);
    lock.take_back();
    lock.coast();
  }
  lock.leaves = true;
  for (int i = 0; i < 2; ++i) {
    lock.fly();
    tuner.take(lock.observer().frame());
  }
  for (int back = 0; back < 20; ++back) {
    const std::int64_t time_ns = lock.observer().frame().taken_ns - 500'000 * back;
    CAPTURE(back);
    CHECK(tuner.stage().at(time_ns).x == Approx(lock.stage().at(time_ns).x).margin(0.01));
  }
}

/// A frame each so often: a model takes as many frames as at any rate, and no more time than that.
TEST_CASE("tuner: a slow camera takes longer, and not for ever") {
  const double period_s = GENERATE(0.05, 0.1, 0.2);
  CAPTURE(period_s);
  ObserverSettings settings = test::observer_settings();
  settings.period_s = period_s;
  settings.change_limit_nm = 20;
  ObserverTuner tuner(settings);
  Observer observer(settings);
  test::RandomMotion x({.walk_nm2_per_s = 2000, .noise_nm2 = 0.09}, 3);
  int frames = 0, tuned_at = 0;
  for (; frames < 1000; ++frames) {
    const auto taken_ns = static_cast<std::int64_t>(1e9 * period_s * (frames + 1));
    observer.see({.moved_nm = {x.measured(x.advance()), 0},
                  .variance_nm2 = {0.09, 0.09},
                  .taken_ns = taken_ns,
                  .now_ns = taken_ns + 1'500'000});
    observer.told({}, taken_ns + 1'500'000);
    tuner.take(observer.frame());
    if (tuner.is_due(0)) {
      if (const auto tuning = tuner.tune(0)) observer.offer(*tuning);
    }
    if (tuned_at == 0 && observer.is_tuned(0)) tuned_at = frames;
    // Less than a whole record, 256 frames here, does not tell the stage's noise from the markers'.
    const auto forecast = tuner.forecast(0);
    if (frames < 254 && forecast)
      REQUIRE(forecast->stage_known_in_s == Approx(period_s * (256 - frames)).margin(0.01));
  }
  CHECK(tuned_at >= static_cast<int>(ObserverTuner::kLeastFrames) - 1);
  CHECK(tuned_at < 400);
  REQUIRE(tuner.forecast(0).has_value());
  CHECK(tuner.forecast(0)->stage_known_in_s == 0);
}

TEST_CASE("tuner: a model that is right is kept") {
  ObservedLock lock(test::shaken(), {}, 6);
  ObserverTuner tuner(test::observer_settings());
  std::vector<std::uint64_t> tunings;
  for (int second = 0; second < 30; ++second) {
    fly_tuned(lock, tuner, 500);
    tunings.push_back(lock.observer().tunings());
  }
  CHECK(tunings[5] > 2);
  CHECK(tunings[29] - tunings[15] <= 4);  // of 14 refits
}

TEST_CASE("tuner: where lines drift it commands by the frequencies that its filter has") {
  // Gains that belong to other lines, or to where a line was, leave much of it.
  DisturbanceModel sample{.walk_nm2_per_s = 1, .noise_nm2 = 0.09};
  sample.lines[0] = {.frequency_hz = 2.2, .fade_per_s = 0.05, .kick_nm2_per_s = 0.4};
  sample.lines[1] = {.frequency_hz = 18, .fade_per_s = 0.05, .kick_nm2_per_s = 0.1};
  sample.lines[2] = {.frequency_hz = 50, .fade_per_s = 0.05, .kick_nm2_per_s = 0.1};
  sample.line_count = 3;
  ObservedLock lock(sample, {}, 4);
  lock.drift_lines(0.01);
  const ObserverSettings settings = test::observer_settings();
  ObserverTuner tuner(settings);
  const StagePreview preview(preview_of(settings));
  int tracked = 0;
  const auto check = [&](const Tuning& tuning) {
    const DisturbanceModel& model = tuning.filter.model();
    const StageAhead ahead{.place_nm = 1,
                           .speed_nm_per_s = 0,
                           .told_nm = 1,
                           .course = tuning.filter.state(),
                           .pairs = 1 + model.line_count};
    tracked += model.tracks ? 1 : 0;
    CHECK(tuning.gains.sets[0].gains.command_nm(ahead) ==
          Approx(preview.gains(model).command_nm(ahead)).epsilon(1e-9));
  };
  fly_tuned(lock, tuner, 10'000, check);
  CHECK(tracked > 0);
}

ObserverSettings ringing_stage(double hz, double damping) {
  ObserverSettings settings = test::observer_settings();
  settings.stage = {.image_to_stage = {},
                    .delay_us = 2500,
                    .time_constant_us = 0,
                    .resonance_hz = hz,
                    .damping = damping};
  settings.change_limit_nm = 1000;
  return settings;
}

TEST_CASE("tuner: one that begins in a lock, or after a gap, has the stage where it is") {
  // Else it learns how a stage would swing that is told at once what it was told step by step.
  SECTION("another plan") {
    const ObserverSettings settings = ringing_stage(2, 0.02);
    ObservedLock lock({.walk_nm2_per_s = 4, .noise_nm2 = 0.04}, {}, 3, settings);
    ObserverTuner first(settings), second(settings);
    fly_tuned(lock, first, 2500);
    const double before_nm2 = fly_tuned(lock, first, 2500);
    lock.observer().adopt(make_plan(settings));
    CHECK(std::sqrt(fly_tuned(lock, second, 1000) / before_nm2) < 1.6);  // 2.3
  }
  SECTION("commands while markers are hidden") {
    const ObserverSettings settings = ringing_stage(0.5, 0.05);
    ObservedLock lock({.walk_nm2_per_s = 40'000, .noise_nm2 = 0.04}, {}, 3, settings);
    ObserverTuner tuner(settings);
    fly_tuned(lock, tuner, 2500);
    const double before_nm2 = fly_tuned(lock, tuner, 2500);
    for (int gap = 0; gap < 3; ++gap) {
      for (int i = 0; i < 500; ++i) lock.coast();
      fly_tuned(lock, tuner, 1000);
      CHECK(std::sqrt(fly_tuned(lock, tuner, 3000) / before_nm2) < 3);  // 32
    }
  }
}

}  // namespace
}  // namespace driftd::control
