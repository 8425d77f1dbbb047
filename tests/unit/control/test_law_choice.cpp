// SPDX-License-Identifier: MIT
#include "control/law/law_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "control/law/controller.hpp"
#include "control/law/observer/observer_tuner.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kPeriodNs = 2'000'000, kLatencyNs = 1'500'000;
constexpr double kChangeNm = 4;

LawSettings settings(ControlLaw law) {
  return {.law = law,
          .pi = {.proportional = 0, .integral = 0.3},
          .stage = {.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1500},
          .step_limit_nm = 20,
          .rate_limit_nm_per_s = 20'000};
}

JudgeSettings judged(const LawSettings& law) {
  return {.stage = law.stage,
          .pi = law.pi,
          .step_limit_nm = law.step_limit_nm,
          .rate_limit_nm_per_s = law.rate_limit_nm_per_s};
}

/// A sample on a stage that obeys, held by a choice of laws.
struct Held {
  explicit Held(ControlLaw law, const DisturbanceModel& sample = test::shaken())
      : x(sample, 1), y(sample, 2), choice(settings(law)), stage(settings(law).stage) {}

  void plan() { choice.offer(make_plan(choice.wish(1e-9 * kPeriodNs, kChangeNm))); }
  void frame(bool seen = true) {
    ++count;
    const std::int64_t taken_ns = kPeriodNs * count, now_ns = taken_ns + kLatencyNs;
    const Vec2 place = stage.at(taken_ns);
    left = {x.advance() + place.x, y.advance() + place.y};
    const Vec2 moved{x.measured(left.x), y.measured(left.y)};
    Vec2 wanted = total;
    const double off = worse * (count % 2 == 0 ? 1 : -1);  // of an observer that errs
    if (seen) {
      choice.see(
          {.moved_nm = moved, .variance_nm2 = {0.09, 0.09}, .taken_ns = taken_ns, .now_ns = now_ns},
          place);
      wanted = choice.wanted_nm({place.x - moved.x, place.y - moved.y}, total, taken_ns);
      if (choice.state().observer) wanted = {wanted.x + off, wanted.y - off};
      if (choice.frame().taken_ns == taken_ns && tuner) tuner->take(choice.frame());
    } else if (choice.may_coast(now_ns, 1.5)) {
      wanted = choice.coast(now_ns);
      ++coasted;
    }
    last_change = std::hypot(wanted.x - total.x, wanted.y - total.y);
    total = wanted;
    choice.told(total, false, false, false, now_ns);
    stage.command(total, now_ns);
    for (std::size_t axis = 0; tuner && axis < kAxes; ++axis)
      if (tuner->is_due(axis))
        if (const auto tuning = tuner->tune(axis)) choice.offer(*tuning);
  }
  double rms(int frames, bool seen = true) {
    double sum = 0;
    for (int i = 0; i < frames; ++i) {
      frame(seen);
      sum += 0.5 * (left.x * left.x + left.y * left.y);
    }
    return std::sqrt(sum / frames);
  }
  /// A model so lively that the observer follows all noise.
  void mislead() { teach({.walk_nm2_per_s = 1e5, .noise_nm2 = 0.01}); }
  void teach(const DisturbanceModel& model) {
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      Tuning tuning;
      tuning.axis = axis;
      tuning.epoch = choice.observer().epoch();
      tuning.taken_ns = choice.frame().taken_ns;
      tuning.filter.start(model, choice.observer().filter(axis).place_nm(), 0);
      tuning.gains = StagePreview(preview_of(choice.observer().settings())).gains(model);
      tuning.usual_variance_nm2 = 0.09;
      choice.offer(tuning);
    }
  }

  test::RandomMotion x, y;
  LawChoice choice;
  StageModel stage;
  std::optional<ObserverTuner> tuner;
  std::int64_t count = 0;
  Vec2 total, left;
  double last_change = 0;
  int coasted = 0;
  double worse = 0;  ///< nm that the observer's commands are off
};

/// PI is good enough for it.
DisturbanceModel calm() {
  return {.walk_nm2_per_s = 0.25, .noise_nm2 = 0.09};
}

int seconds(double s) {
  return static_cast<int>(s * 1e9 / kPeriodNs);
}

TEST_CASE("law choice: PI holds until the observer has a plan, and pi means PI") {
  Held automatic(ControlLaw::Auto), pi(ControlLaw::Pi);
  for (Held* held : {&automatic, &pi}) held->rms(100);
  CHECK(automatic.total.x == pi.total.x);
  CHECK(automatic.total.y == pi.total.y);
  CHECK(automatic.choice.state().reason == LawReason::NotReady);
  CHECK(pi.choice.state().reason == LawReason::Configured);
  CHECK(pi.choice.wish(0.002, kChangeNm).period_s == 0);
  CHECK(automatic.choice.wish(0.002, kChangeNm).period_s == 0.002);
  automatic.plan();
  CHECK(automatic.choice.state().observer);
  automatic.frame();
  pi.frame();
  CHECK(automatic.total.x != pi.total.x);
  CHECK(automatic.last_change < kChangeNm);  // it goes on from where the stage is
}

TEST_CASE(
    "law choice: a plan for another stage is passed over, a new stage asks for another plan") {
  Held held(ControlLaw::Observer);
  ObserverSettings other = held.choice.wish(0.002, kChangeNm);
  other.stage.delay_us = 2600;
  held.choice.offer(make_plan(other));
  CHECK_FALSE(held.choice.state().observer);
  held.plan();
  REQUIRE(held.choice.state().observer);
  LawSettings slower = settings(ControlLaw::Observer);
  const bool rings = GENERATE(false, true);
  if (rings)
    slower.stage.resonance_hz = 90;
  else
    slower.stage.time_constant_us = 1600;
  held.choice.change_settings(slower);
  CHECK_FALSE(held.choice.state().observer);
  CHECK(held.choice.state().reason == LawReason::NotReady);
  held.plan();
  CHECK(held.choice.state().observer);
}

TEST_CASE("law choice: what the judge says of PI is what PI leaves") {
  Held held(ControlLaw::Pi);
  LawJudge judge(judged(settings(ControlLaw::Pi)));
  double sum = 0;
  int counted = 0;
  for (int i = 0; i < seconds(10.5); ++i) {
    const std::int64_t taken_ns = kPeriodNs * (held.count + 1);
    const Vec2 place = held.stage.at(taken_ns);
    held.frame();
    // As held.frame() had it: noise-free, so that both see the same.
    judge.see(held.left, place, taken_ns, taken_ns + kLatencyNs);
    if (i < seconds(0.5)) continue;
    sum += 0.5 * (held.left.x * held.left.x + held.left.y * held.left.y);
    ++counted;
  }
  CHECK(std::abs(judge.left_nm() - std::sqrt(sum / counted)) < 0.05);
  CHECK_FALSE(judge.pi_is_better());
  // PI that sees no noise leaves less than one that does, and nearly as much.
  CHECK(judge.pi_left_nm() < judge.left_nm());
  CHECK(judge.pi_left_nm() > 0.8 * judge.left_nm());
}

TEST_CASE("law choice: on a long way at the rate limit PI is not thought to be there at once") {
  LawSettings slow = settings(ControlLaw::Auto);
  slow.rate_limit_nm_per_s = 20;
  LawJudge judge(judged(slow));
  // The sample has jumped by 400 nm, and the lock brings it back as fast as it may.
  double total = 0;
  for (int i = 1; i < seconds(15); ++i) {
    const std::int64_t taken_ns = kPeriodNs * i;
    judge.see({400 - total, 0}, {-total, 0}, taken_ns, taken_ns + kLatencyNs);
    total += 20e-9 * kPeriodNs;
  }
  CHECK(judge.left_nm() > 100);
  CHECK(judge.pi_left_nm() > 0.99 * judge.left_nm());
  CHECK_FALSE(judge.pi_is_better());
}

TEST_CASE(
    "law choice: an observer that is misled is relieved by PI, and tried again a minute later") {
  Held held(ControlLaw::Auto, calm());
  held.plan();
  held.rms(seconds(1));
  held.mislead();
  const double misled = held.rms(seconds(8));
  REQUIRE(held.choice.state().observer);  // not on the evidence of moments
  held.rms(seconds(6));
  const LawState state = held.choice.state();
  CHECK_FALSE(state.observer);
  CHECK(state.reason == LawReason::WorseThanPi);
  CHECK(state.left_nm > state.pi_left_nm);
  held.rms(seconds(1));
  CHECK(held.rms(seconds(8)) < misled);
  held.rms(seconds(42));
  CHECK_FALSE(held.choice.state().observer);
  held.rms(seconds(12));
  CHECK(held.choice.state().reason == LawReason::TriedAgain);
  // It has learnt nothing: the next rest takes twice as long.
  held.rms(seconds(15));
  CHECK(held.choice.state().reason == LawReason::WorseThanPi);
  held.rms(seconds(90));
  CHECK_FALSE(held.choice.state().observer);
}

TEST_CASE("law choice: a driver that was slow for a while ends no rest of PI's") {
  Held held(ControlLaw::Auto, calm());
  held.plan();
  held.rms(seconds(1));
  held.mislead();
  held.rms(seconds(14));
  REQUIRE(held.choice.state().reason == LawReason::WorseThanPi);
  const LawState worse = held.choice.state();
  held.choice.set_driver_hz(50);
  held.rms(seconds(10));
  REQUIRE(held.choice.state().reason == LawReason::DriverTooSlow);
  held.choice.set_driver_hz(500);
  held.rms(seconds(20));
  CHECK(held.choice.state().reason == LawReason::WorseThanPi);
  CHECK(held.choice.state().left_nm == worse.left_nm);
  held.rms(seconds(35));
  CHECK(held.choice.state().observer);
}

TEST_CASE("law choice: relieved before it has learnt, the observer is back when it has") {
  Held held(ControlLaw::Auto, calm());
  held.plan();
  held.rms(seconds(1));
  held.mislead();
  held.rms(seconds(20));
  REQUIRE(held.choice.state().reason == LawReason::WorseThanPi);
  held.teach(calm());
  held.rms(seconds(1));
  CHECK_FALSE(held.choice.state().observer);  // it knew, wrongly
  // Of a slow camera: it takes 192 frames to learn, and the judge needs 160.
  Held slow(ControlLaw::Auto, calm());
  slow.choice.offer(make_plan(slow.choice.wish(1e-9 * kPeriodNs, kChangeNm)));
  slow.rms(seconds(1));
  REQUIRE(slow.choice.state().observer);
  slow.worse = 3;  // than PI, of which it knows nothing
  slow.rms(seconds(20));
  REQUIRE(slow.choice.state().reason == LawReason::WorseThanPi);
  slow.worse = 0;
  slow.teach(calm());
  slow.rms(seconds(1));
  CHECK(slow.choice.state().observer);
  CHECK(slow.choice.state().reason == LawReason::TriedAgain);
}

TEST_CASE("law choice: the law that is asked for is not relieved") {
  Held held(ControlLaw::Observer, calm());
  held.plan();
  held.rms(seconds(1));
  held.mislead();
  held.rms(seconds(20));
  CHECK(held.choice.state().observer);
  CHECK(held.choice.state().left_nm > held.choice.state().pi_left_nm);
}

TEST_CASE("law choice: an observer that learns leaves less than PI, and is not relieved") {
  Held held(ControlLaw::Auto), pi(ControlLaw::Pi);
  held.plan();
  held.tuner.emplace(held.choice.observer().settings());
  held.rms(seconds(6));
  pi.rms(seconds(6));
  const double left = held.rms(seconds(20)), pi_left = pi.rms(seconds(20));
  CHECK(left < 0.6 * pi_left);
  const LawState state = held.choice.state();
  CHECK(state.observer);
  CHECK(state.left_nm < state.pi_left_nm);
}

TEST_CASE("law choice: changes of law under way throw nothing") {
  Held held(ControlLaw::Auto), pi(ControlLaw::Pi);
  held.plan();
  held.tuner.emplace(held.choice.observer().settings());
  held.rms(seconds(6));
  const auto worst = [](Held& lock, double s) {
    double most = 0;
    for (int i = 0; i < seconds(s); ++i) {
      lock.frame();
      most = std::max({most, std::abs(lock.left.x), std::abs(lock.left.y)});
    }
    return most;
  };
  const double usual = worst(pi, 4);  // PI leaves more
  for (const ControlLaw law :
       {ControlLaw::Pi, ControlLaw::Auto, ControlLaw::Pi, ControlLaw::Observer}) {
    held.choice.change_settings(settings(law));
    CHECK(held.choice.state().observer == (law != ControlLaw::Pi));
    CHECK(worst(held, 0.5) < 1.25 * usual);
  }
}

TEST_CASE(
    "law choice: it coasts by what it has learnt, for as long as it knows where the sample is") {
  Held held(ControlLaw::Auto);
  held.plan();
  held.rms(seconds(0.3));
  const std::int64_t soon_ns = kPeriodNs * held.count + 3 * kLatencyNs;
  CHECK_FALSE(held.choice.may_coast(soon_ns, 1.5));  // it has learnt nothing
  held.tuner.emplace(held.choice.observer().settings());
  held.rms(seconds(6));
  const std::int64_t now_ns = kPeriodNs * held.count + 3 * kLatencyNs;
  CHECK(held.choice.may_coast(now_ns, 1.5));
  CHECK_FALSE(held.choice.may_coast(now_ns, 0));
  CHECK_FALSE(held.choice.may_coast(now_ns, 0.01));
  CHECK(held.choice.may_coast(now_ns + 1'900'000'000, 100));
  CHECK_FALSE(held.choice.may_coast(now_ns + 2'100'000'000, 100));
  CHECK(held.rms(seconds(0.1), false) < 0.6);  // the line alone is 0.7 nm
  CHECK(held.coasted == seconds(0.1));
  held.frame();
  CHECK(held.last_change < kChangeNm);
}

TEST_CASE("law choice: frames at another rate, or other axes, are told to be learnt anew") {
  Held held(ControlLaw::Auto);
  held.plan();
  held.tuner.emplace(held.choice.observer().settings());
  held.rms(seconds(3));
  REQUIRE(held.choice.observer().is_tuned(0));
  const std::uint32_t changes = held.choice.state().changes;
  held.plan();  // the same once more
  CHECK(held.choice.observer().is_tuned(0));
  CHECK(held.choice.state().changes == changes);
  if (GENERATE(false, true)) {
    held.choice.offer(make_plan(held.choice.wish(0.004, kChangeNm)));
  } else {
    LawSettings turned = settings(ControlLaw::Auto);
    turned.stage.image_to_stage = {0, 1, -1, 0};
    held.choice.change_settings(turned);
  }
  CHECK_FALSE(held.choice.observer().is_tuned(0));
  CHECK(held.choice.state().observer);
  CHECK(held.choice.state().reason == LawReason::LearnsAnew);
  CHECK(held.choice.state().changes == changes + 1);
}

TEST_CASE("law choice: of a slow camera PI is judged by as many frames, at its own pace") {
  const std::int64_t every_ns = GENERATE(50'000'000, 100'000'000, 200'000'000, 1'000'000'000);
  CAPTURE(every_ns);
  LawJudge judge(judged(settings(ControlLaw::Auto)));
  judge.set_period(1e-9 * static_cast<double>(every_ns));
  int frames = 0;
  // A law that does nothing about 1 nm.
  for (; frames < 400 && !judge.pi_is_better(); ++frames)
    judge.see({1, 0}, {0, 0}, every_ns * (frames + 1), every_ns * (frames + 1) + kLatencyNs);
  CHECK(judge.pi_is_better());
  const double blocks = static_cast<double>(LawJudge::kBlocks);
  CHECK(frames >= blocks * LawJudge::kBlockFrames);
  CHECK(1e-9 * static_cast<double>(every_ns * frames) >= blocks * LawJudge::kBlockS);
  // What was judged stays where a frame is missing, or brought no command.
  const double left_nm = judge.left_nm();
  judge.pause();
  judge.see({1, 0}, {0, 0}, every_ns * 500, every_ns * 500 + kLatencyNs);
  CHECK(judge.left_nm() == left_nm);
  CHECK(judge.pi_is_better());
  judge.restart();
  CHECK_FALSE(judge.pi_is_better());
}

TEST_CASE("law choice: PI is not charged with a command that left late while the lock coasted") {
  // Every third frame shows nothing. Its command leaves 0.4 ms late, or all others do, or none.
  const auto pi_left_nm = [](std::int64_t coasted_late_ns, std::int64_t late_ns) {
    Controller controller({.image_to_stage = {},
                           .proportional = 0,
                           .integral = 0.3,
                           .step_limit_nm = 20,
                           .rate_limit_nm_per_s = 20'000,
                           .range_limit_nm = 5000,
                           .travel_limit_nm = 5000,
                           .stage_delay_us = 2500,
                           .stage_time_constant_us = 1500,
                           .law = ControlLaw::Auto});
    StageModel stage({.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1500});
    controller.law().offer(make_plan(controller.observer_wish(1e-9 * kPeriodNs)));
    for (int i = 1; i < seconds(3); ++i) {
      const std::int64_t taken_ns = kPeriodNs * i, now_ns = taken_ns + kLatencyNs;
      const double phase = 2 * std::numbers::pi * 11e-9 * static_cast<double>(taken_ns);
      const Vec2 place = stage.at(taken_ns);
      DriftEstimate drift;
      drift.valid = true;
      drift.frame_drift_nm = {20 * std::sin(phase) + place.x, 20 * std::cos(phase) + place.y};
      drift.frame_covariance_nm2 = {0.09, 0, 0.09};
      if (i % 3 == 0) {
        stage.command(controller.coast(now_ns).total_nm, now_ns);
        controller.left_at(now_ns + coasted_late_ns);
        stage.left_at(now_ns + coasted_late_ns);
      } else {
        controller.feed_law(drift, taken_ns, now_ns);
        stage.command(controller.update(drift.frame_drift_nm, taken_ns, now_ns).total_nm, now_ns);
        controller.left_at(now_ns + late_ns);
        stage.left_at(now_ns + late_ns);
      }
    }
    return controller.law().state().pi_left_nm;
  };
  const double in_time_nm = pi_left_nm(0, 0);
  CHECK(in_time_nm > 1);
  CHECK(pi_left_nm(400'000, 0) == Approx(in_time_nm).epsilon(1e-6));
  CHECK(pi_left_nm(0, 400'000) > 1.005 * in_time_nm);
}

TEST_CASE("law choice: nothing of it touches the heap") {
  Held held(ControlLaw::Auto);
  const ObserverPlan plan = make_plan(held.choice.wish(0.002, kChangeNm));
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  driftd::test::watch_this_thread(true);
  held.choice.offer(plan);
  for (int i = 0; i < 2000; ++i) held.frame(i % 100 < 95);
  held.choice.reset({});
  held.choice.take_back({}, 0);
  driftd::test::watch_this_thread(false);
  CHECK(driftd::test::watched_allocations() == 0);
}

}  // namespace
}  // namespace driftd::control
