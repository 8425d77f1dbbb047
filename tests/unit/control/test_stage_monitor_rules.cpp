// SPDX-License-Identifier: MIT
// The stage monitor's rules one at a time, most of them on frames without noise, in which doubt and
// trust are what docs/internals/stage-monitor.md says they are. The axes have unequal deviations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "control/stage/stage_model.hpp"
#include "control/stage/stage_monitor.hpp"
#include "unit/control/still_sample.hpp"

namespace driftd::control {
namespace {

using test::check_same;
using test::kAlarm;
using test::kCoarse;
using test::kFine;
using test::kTrust;
using test::Still;
using test::surprise;

TEST_CASE("doubt is the likelihood ratio of Student's distribution, each axis by its deviation") {
  CHECK(Still().move({}, {2, 0}).doubt == Approx(surprise(2)));
  CHECK(Still().move({}, {0, -3}).doubt == Approx(surprise(3)));
  CHECK(Still().move({}, {2, -3}).doubt == Approx(surprise(2) + surprise(3)));
  CHECK(Still().move({0, 0.3}, {2, 0}).doubt == Approx(surprise(2)));
  CHECK(Still().move({-2, 0}, {2, 0}).doubt == Approx(surprise(4)));  // reversed
  CHECK(Still().move({0, 3}, {0, -3}).doubt == Approx(surprise(6)));
  CHECK(Still().move({2, 3}, {2, 3}).doubt == 0);
  CHECK(Still().move({2, 3}, {}).doubt == 0);  // the sample's own
}

TEST_CASE("trust is that against the likeliest other stage, and at most 12") {
  CHECK(Still().move({2, 0}, {2, 0}).trust == 0);  // y may be stuck
  CHECK(Still().move({0, 3}, {0, 3}).trust == 0);
  // A stage of 0.45 times the gain leaves less of (1.6, -1.9) than one with an axis stuck.
  const double small_gain = surprise(0.55 * 1.6) + surprise(0.55 * 1.9);
  CHECK(small_gain < surprise(1.6));
  CHECK(Still().move({1.6, -1.9}, {1.6, -1.9}).trust == Approx(small_gain));
  // One whose x is stuck leaves less of (1, -3).
  CHECK(Still().move({1, -3}, {1, -3}).trust == Approx(surprise(1)));
  Still still;
  CHECK(still.follow(400).trust == kTrust);
  still.rest(60);
  CHECK(still.move({}, {1.5, 0}).trust == Approx(kTrust - surprise(1.5)));
}

TEST_CASE("what speaks for the model does not outweigh a later doubt") {
  Still still;
  still.follow(400);
  CHECK(still.rest(60).doubt == 0);
  CHECK(still.move({}, {2, -3}).doubt == Approx(surprise(2) + surprise(3)));
}

TEST_CASE("nothing is doubted before 64 moves were seen, but trust may grow") {
  CHECK(Still(64).move({}, {2, 0}).doubt == 0);  // the first frame is no move
  CHECK(Still(65).move({}, {2, 0}).doubt == Approx(surprise(2)));
  CHECK(Still(10).move({1, -3}, {1, -3}).trust == Approx(surprise(1)));
}

TEST_CASE("each candidate is predicted from the moves that it leaves, a knock as four deviations") {
  const MotionPredictor::Past a = MotionPredictor().coefficients();
  for (const Vec2 along : {Vec2{1, 0}, Vec2{0, -1}})
    for (const double size : {2.0, 10.0}) {
      Still still;
      still.move({}, {size * along.x, size * along.y});
      double doubt = surprise(size);
      REQUIRE(still.verdict.doubt == Approx(doubt));
      for (std::size_t i = 0; i < 25; ++i) {
        doubt += surprise(std::min(size, 4.0) * a[i]);
        REQUIRE(still.rest().doubt == Approx(doubt).epsilon(1e-4));
      }
    }
}

TEST_CASE("each axis is predicted by what was learned of it") {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  for (const bool x_vibrates : {true, false}) {
    StageMonitor monitor;
    double walk = 0;
    for (int i = 0; i < 4000; ++i) {
      walk += 5 * normal(random);
      const double line = 40 * std::sin(0.4 * i);
      monitor.update({.moved_nm = x_vibrates ? Vec2{line, walk} : Vec2{walk, line},
                      .covariance_nm2 = {1e-4, 0, 1e-4},
                      .modelled_nm = {3, 4}});
    }
    const Vec2 sd = monitor.sd_nm();
    CHECK((x_vibrates ? sd.x : sd.y) < 2);  // the line's moves have 11
    CHECK((x_vibrates ? sd.y : sd.x) == Approx(5).epsilon(0.15));
  }
}

TEST_CASE("the deviation is the largest of learned, measured and recent") {
  check_same(StageMonitor().sd_nm(), {2, 2});
  CHECK(Still().monitor.sd_nm().x == Approx(kCoarse.x));
  CHECK(Still().monitor.sd_nm().y == Approx(kCoarse.y));
  // Innovations of 0: what was assumed, 4 nm^2, weighs as 16 moves.
  CHECK(Still(100, kFine).monitor.sd_nm().x == Approx(std::sqrt(4 * 16 / (16 + 98.0))));

  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  StageMonitor monitor;
  Vec2 place;
  const auto walk = [&](int frames, Vec2 sd) {
    for (int i = 0; i < frames; ++i) {
      place = {place.x + sd.x * normal(random), place.y + sd.y * normal(random)};
      monitor.update({.moved_nm = place, .covariance_nm2 = {0.01, 0, 0.01}, .modelled_nm = {}});
    }
    return monitor.sd_nm();
  };
  CHECK(walk(5000, {1, 2}).x == Approx(1).epsilon(0.1));
  const Vec2 later = walk(150, {6, 2});
  CHECK(later.x == Approx(6).epsilon(0.3));
  CHECK(later.y == Approx(2).epsilon(0.3));
  CHECK(walk(150, {6, 9}).y == Approx(9).epsilon(0.3));
}

TEST_CASE("a knock of the sample is learned as four deviations") {
  for (const Vec2 knock : {Vec2{30, -20}, Vec2{-12, 40}}) {
    Still still(100, kFine);
    const double learned_nm2 = 4 * 16 / (16 + 99.0);
    still.move(knock, {});
    still.rest();
    const double expected_nm = std::sqrt(learned_nm2 * (1 + (16 - 1) / 116.0));
    CHECK(still.monitor.sd_nm().x == Approx(expected_nm));
    CHECK(still.monitor.sd_nm().y == Approx(expected_nm));
  }
}

TEST_CASE("what a stage that is stuck leaves is not taken for the sample's own motion") {
  Still still(500, kFine);
  const Vec2 before = still.monitor.sd_nm();
  still.alarm(100);
  CHECK(still.monitor.sd_nm().x == Approx(before.x).epsilon(0.1));
  CHECK(still.monitor.sd_nm().y == Approx(before.y).epsilon(0.1));
}

/// The doubt that is an alarm so many frames after a probe has succeeded.
double credited_alarm(int frames) {
  return kAlarm + 2 * kAlarm * std::pow(1 - 1 / 2000.0, frames);
}

TEST_CASE("an alarm takes a doubt of 20, of 60 just after the stage has shown that it follows") {
  Still still;
  for (int i = 0; i < 1000 && still.verdict.follows; ++i) {
    still.stick(0.5);
    REQUIRE(still.verdict.follows == (still.verdict.doubt < kAlarm));
  }
  REQUIRE_FALSE(still.verdict.follows);
  for (const int frames : {0, 300, 2000}) {
    still.rest(60);
    still.resume();
    int since = frames;
    still.follow(frames);
    for (int i = 0; i < 1000 && still.verdict.follows; ++i) {
      still.stick(0.5);
      REQUIRE(still.verdict.follows == (still.verdict.doubt < credited_alarm(++since)));
    }
    CHECK_FALSE(still.verdict.follows);
  }
  // With a new lock the credit ends.
  still.rest(60);
  still.resume();
  still.monitor.restart();
  still.rest(60);
  still.stick_until_alarm(0.5);
  CHECK(still.verdict.doubt < kAlarm + 3);
}

TEST_CASE("nothing is learned in doubt, unless the stage has just shown that it follows") {
  for (const bool credited : {false, true}) {
    Still still(100, kFine);
    if (credited) {
      still.alarm();
      still.resume();
    }
    // What was learned in a frame shows in the deviation of the next.
    bool learned = true;
    int since = 0;
    for (int i = 0; i < 400; ++i) {
      const Vec2 before = still.monitor.sd_nm();
      still.stick(0.05);
      const Vec2 sd = still.monitor.sd_nm();
      if (i > 0) {
        REQUIRE((sd.x != before.x) == learned);
        REQUIRE((sd.y != before.y) == learned);
      }
      const double most = credited ? 8 * credited_alarm(++since) / kAlarm : 8;
      learned = still.verdict.follows && still.verdict.doubt < most;
    }
    CHECK_FALSE(still.verdict.follows);
  }
}

TEST_CASE("a stage is trusted again when both axes have answered since the alarm") {
  for (const bool x_sticks : {true, false}) {
    const auto one = [&](double size) { return x_sticks ? Vec2{size, 0} : Vec2{0, size}; };
    const auto other = [&](double size) { return x_sticks ? Vec2{0, size} : Vec2{size, 0}; };
    Still still;
    still.follow(400);
    for (int i = 0; i < 400 && still.verdict.follows; ++i) {
      const Vec2 obeyed = other(i % 4 < 2 ? 4 : -4);
      if (i % 2 == 0)
        still.stick(one(1));
      else
        still.move(obeyed, obeyed);
    }
    REQUIRE_FALSE(still.verdict.follows);
    CHECK(still.verdict.trust == 0);
    still.rest(60);
    for (int i = 0; i < 200; ++i) {
      const Vec2 step = one(i % 2 == 0 ? 4 : -4);
      REQUIRE_FALSE(still.move(step, step).follows);
    }
    still.resume();
  }
}

TEST_CASE("after a success the stage counts as following where it is, without a doubt") {
  Still still;
  still.alarm(80);
  still.resume();
  CHECK(still.verdict.doubt == 0);
  CHECK(still.verdict.trust == kTrust);
  CHECK(still.verdict.looks == StageLooks::Following);
  check_same(still.verdict.anchor_nm, still.modelled_nm);
  Still later = still;
  later.rest(60);
  CHECK(later.move({}, {4, -4}).doubt == Approx(2 * surprise(4)));
  const Vec2 anchor = still.modelled_nm;
  CHECK(still.move({}, {40, -40}).looks == StageLooks::Following);
  CHECK(still.verdict.doubt > 10);
  check_same(still.verdict.anchor_nm, anchor);
}

/// Commands along both axes at random, answered by `response`, on a sample that moves by itself.
StageLooks looks_of(const ImageToStage& response, double own_growth = 1) {
  constexpr double commands_nm = 20;
  double size = 0;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  StageMonitor monitor;
  Vec2 place, modelled;
  StageVerdict verdict;
  const auto frame = [&](const ImageToStage& r, double growth) {
    const Vec2 step{size * normal(random), size * normal(random)};
    const Vec2 moved = r.apply(step);
    modelled = {modelled.x + step.x, modelled.y + step.y};
    place = {place.x + moved.x + growth * normal(random),
             place.y + moved.y + 0.6 * growth * normal(random)};
    verdict = monitor.update(
        {.moved_nm = place, .covariance_nm2 = {0.01, 0, 0.02}, .modelled_nm = modelled});
  };
  for (int i = 0; i < 65; ++i) frame({}, 1);
  size = commands_nm;
  for (int i = 0; i < 2000; ++i) frame({}, 1);
  REQUIRE(verdict.follows);
  for (int i = 0; i < 60; ++i) frame(response, own_growth);
  return verdict.looks;
}

TEST_CASE("each stage that is known is recognized, and what is none of them is not explained") {
  const double cosine = 0.5, sine = std::sqrt(0.75);
  struct Known {
    ImageToStage response;
    StageLooks looks;
  };
  const Known stages[] = {
      {{1, 0, 0, 1}, StageLooks::Following},
      {{0, 0, 0, 0}, StageLooks::Stuck},
      {{0, 0, 0, 1}, StageLooks::Stuck},
      {{1, 0, 0, 0}, StageLooks::Stuck},
      {{-1, 0, 0, -1}, StageLooks::Reversed},
      {{-1, 0, 0, 1}, StageLooks::Reversed},
      {{1, 0, 0, -1}, StageLooks::Reversed},
      {{0.45, 0, 0, 0.45}, StageLooks::WrongGain},
      {{2.2, 0, 0, 2.2}, StageLooks::WrongGain},
      {{0, 1, 1, 0}, StageLooks::TurnedOrSwapped},
      {{0, -1, -1, 0}, StageLooks::TurnedOrSwapped},
      {{cosine, -sine, sine, cosine}, StageLooks::TurnedOrSwapped},
      {{cosine, sine, -sine, cosine}, StageLooks::TurnedOrSwapped},
      {{0, -1, 1, 0}, StageLooks::TurnedOrSwapped},
      {{0, 1, -1, 0}, StageLooks::TurnedOrSwapped},
      {{-cosine, -sine, sine, -cosine}, StageLooks::TurnedOrSwapped},
      {{-cosine, sine, -sine, -cosine}, StageLooks::TurnedOrSwapped},
      {{1, 0, 0, -4}, StageLooks::Unexplained},
      {{-4, 0, 0, 1}, StageLooks::Unexplained},
      {{0.45, 0, 0, 0.75}, StageLooks::Unexplained},
  };
  for (const Known& k : stages) {
    INFO(k.response.a << ' ' << k.response.b << ' ' << k.response.c << ' ' << k.response.d);
    CHECK(name_of(looks_of(k.response)) == std::string(name_of(k.looks)));
  }
  // A stuck stage is told on a sample that moves more than it did: up to 8 times the mean square.
  CHECK(looks_of({0, 0, 0, 0}, 2) == StageLooks::Stuck);
  CHECK(looks_of({0, 0, 0, 0}, 5) == StageLooks::Unexplained);
}

TEST_CASE("what the stage looks like is judged anew while it is held") {
  Still still;
  still.stick_until_alarm(1);
  CHECK(still.verdict.looks == StageLooks::Stuck);
  for (int i = 0; i < 100; ++i) {
    const Vec2 step{4 * still.normal(still.random), 4 * still.normal(still.random)};
    still.move({-step.x, -step.y}, step);
  }
  CHECK(still.verdict.looks == StageLooks::Reversed);
}

TEST_CASE("names of what the stage looks like") {
  CHECK(name_of(StageLooks::Following) == std::string("following"));
  CHECK(name_of(StageLooks::Stuck) == std::string("stuck"));
  CHECK(name_of(StageLooks::Reversed) == std::string("reversed"));
  CHECK(name_of(StageLooks::WrongGain) == std::string("wrong_gain"));
  CHECK(name_of(StageLooks::TurnedOrSwapped) == std::string("turned_or_swapped"));
  CHECK(name_of(StageLooks::Unexplained) == std::string("unexplained"));
}

TEST_CASE("a sample with a number that is none is as if it had not come") {
  using Spoil = void (*)(ObservedFrame&, double);
  const Spoil spoils[] = {
      [](ObservedFrame& s, double bad) { s.moved_nm.x = bad; },
      [](ObservedFrame& s, double bad) { s.moved_nm.y = bad; },
      [](ObservedFrame& s, double bad) { s.modelled_nm.x = bad; },
      [](ObservedFrame& s, double bad) { s.modelled_nm.y = bad; },
      [](ObservedFrame& s, double bad) { s.covariance_nm2.xx = bad; },
      [](ObservedFrame& s, double bad) { s.covariance_nm2.yy = bad; },
  };
  for (const Spoil spoil : spoils)
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 2e9}) {
      Still still;
      const double before = still.move({}, {2, 0}).doubt;
      const Vec2 sd = still.monitor.sd_nm();
      ObservedFrame sample = still.sample_now();
      spoil(sample, bad);
      CHECK(still.monitor.update(sample).doubt == before);
      check_same(still.monitor.sd_nm(), sd);
      // The next is compared with the last that was good.
      const double echo = surprise(2 * MotionPredictor().coefficients()[0]);
      CHECK(still.rest().doubt == Approx(before + echo).epsilon(1e-4));
    }
  Still far;
  far.monitor.skip_move();
  far.place_nm = {1e9, -1e9};  // just a place
  far.rest();
  check_same(far.verdict.anchor_nm, far.modelled_nm);
  CHECK(far.move({}, {2, 0}).doubt == Approx(surprise(2)));
}

}  // namespace
}  // namespace driftd::control
