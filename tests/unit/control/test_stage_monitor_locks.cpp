// SPDX-License-Identifier: MIT
// What the stage monitor keeps from one lock to the next, what it has to see before the first, and
// the anchor: where a stage in doubt is sent back to.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "unit/control/still_sample.hpp"

namespace driftd::control {
namespace {

using test::check_same;
using test::kTrust;
using test::Still;
using test::surprise;

TEST_CASE("the anchor goes with the stage until there is a doubt of 5") {
  Still still;
  still.move({2, 3}, {2, 3});
  check_same(still.verdict.anchor_nm, still.modelled_nm);
  Vec2 anchor;
  int left = 0;
  for (int i = 0; i < 60; ++i) {
    still.move({}, {i % 2 == 0 ? 0.5 : -0.3, 0.2});
    if (still.verdict.doubt < 5)
      anchor = still.modelled_nm;
    else
      ++left;
    check_same(still.verdict.anchor_nm, anchor);
  }
  CHECK(left > 20);
  CHECK_FALSE(still.verdict.follows);
}

TEST_CASE("the anchor is at most half a second old, or 32 frames") {
  // A stage that sticks brings some doubt; so small moves as follow tell nothing.
  struct Case {
    std::int64_t period_ms;
    std::size_t frames;  // from one renewal of the oldest place to the next
  };
  for (const Case& c : {Case{2, 125}, Case{3, 84}, Case{50, 16}, Case{200, 16}}) {
    Still still(65);
    still.period_ns = c.period_ms * 1'000'000;
    still.monitor.skip_move();
    still.rest();
    std::vector<Vec2> places{still.modelled_nm};
    std::size_t doubted = 0;
    for (std::size_t i = 1; i < 6 * c.frames; ++i) {
      if (still.verdict.doubt < 6)
        still.stick(0.4);
      else
        still.move({1e-4, 2e-4}, {1e-4, 2e-4});
      REQUIRE(still.verdict.follows);
      places.push_back(still.modelled_nm);
      if (still.verdict.doubt < 5) doubted = i;
      const std::size_t renewed = i / c.frames;
      const std::size_t oldest = renewed == 0 ? 0 : (renewed - 1) * c.frames;
      check_same(still.verdict.anchor_nm, places[std::max(doubted, oldest)]);
    }
    CHECK(doubted < 3 * c.frames);
  }
}

TEST_CASE("motion that has ended before the reference is forgotten, each axis by itself") {
  for (const Vec2 before : {Vec2{80, 0.3}, Vec2{0.2, 90}, Vec2{80, 90}, Vec2{0.2, 0.3}})
    for (const int frames : {30, 101}) {
      INFO(before.x << ' ' << before.y << ' ' << frames);
      StageMonitor monitor;
      std::mt19937 random(6);
      std::normal_distribution<double> normal;
      const auto see = [&](Vec2 sd_nm, int count) {
        for (int i = 0; i < count; ++i)
          monitor.update({.moved_nm = {sd_nm.x * normal(random), sd_nm.y * normal(random)},
                          .covariance_nm2 = {1e-4, 0, 1e-4},
                          .modelled_nm = {5, 6}});
      };
      see(before, 3000);
      const Vec2 idle = monitor.sd_nm();
      monitor.begin_reference();
      see({0.2, 0.3}, frames);
      monitor.prepare();
      const bool calmer = before.x > 1 || before.y > 1;
      CHECK(monitor.moves_at_rest() == (calmer ? std::min(frames - 1, 64) : 64));
      monitor.restart();
      see({0.2, 0.3}, 300);  // the recent moves are forgotten
      const Vec2 sd = monitor.sd_nm();
      const bool enough = frames > 64;
      CHECK((sd.x < 3) == (enough || before.x < 1));
      CHECK((sd.y < 3) == (enough || before.y < 1));
      if (before.x < 1) CHECK(sd.x == Approx(idle.x).epsilon(0.1));
      if (before.y < 1) CHECK(sd.y == Approx(idle.y).epsilon(0.1));
    }
}

TEST_CASE("a stage that is reversed is found as soon after motion that has ended as without") {
  const auto frames_to_alarm = [](double moved_nm) {
    StageMonitor monitor;
    std::mt19937 random(8);
    std::normal_distribution<double> normal;
    Vec2 place, modelled;
    const auto see = [&] {
      const Vec2 noise{0.3 * normal(random), 0.4 * normal(random)};
      return monitor.update({.moved_nm = {place.x + noise.x, place.y + noise.y},
                             .covariance_nm2 = {0.01, 0, 0.02},
                             .modelled_nm = modelled});
    };
    for (int i = 0; i < 3000; ++i) {
      place = {moved_nm * normal(random), 0.8 * moved_nm * normal(random)};
      see();
    }
    monitor.begin_reference();
    for (int i = 0; i < 100; ++i) see();
    monitor.restart();
    int frames = 0;
    for (bool follows = true; follows && frames < 5000; ++frames) {
      const Vec2 command{normal(random), normal(random)};
      modelled = {modelled.x + command.x, modelled.y + command.y};
      place = {place.x - command.x, place.y - command.y};
      follows = see().follows;
    }
    return frames;
  };
  CHECK(frames_to_alarm(0) < 30);
  CHECK(frames_to_alarm(100) < 30);
}

TEST_CASE("a place that is not compared is the anchor, unless the stage is in doubt") {
  Still still;
  still.monitor.skip_move();
  CHECK(still.move({}, {30, -40}).doubt == 0);
  check_same(still.verdict.anchor_nm, still.modelled_nm);
  const Vec2 anchor = still.modelled_nm;
  const double doubt = still.move({}, {4, -4}).doubt;
  CHECK(doubt == Approx(2 * surprise(4)));
  check_same(still.verdict.anchor_nm, anchor);
  still.monitor.skip_move();
  CHECK(still.move({}, {30, -40}).doubt == doubt);
  check_same(still.verdict.anchor_nm, anchor);
  CHECK(still.rest().doubt > doubt);
  check_same(still.verdict.anchor_nm, anchor);
}

TEST_CASE("a new lock begins without doubt, trust and alarm") {
  Still still;
  still.move({}, {0.5, -0.4});
  CHECK(still.rest(60).doubt > 1);
  still.monitor.restart();
  CHECK(still.move({}, {30, -40}).doubt == 0);  // not compared
  check_same(still.verdict.anchor_nm, still.modelled_nm);
  CHECK(still.rest(60).doubt == 0);
  CHECK(still.move({}, {2, 0}).doubt == Approx(surprise(2)));  // judged at once

  still.follow(400);
  still.rest(60);
  CHECK(still.verdict.trust == kTrust);
  still.monitor.restart();
  CHECK(still.rest(2).trust == 0);

  still.alarm();
  still.monitor.restart();
  CHECK(still.rest().follows);
  CHECK(still.verdict.looks == StageLooks::Following);
  CHECK(still.rest(60).follows);
}

TEST_CASE("only moves without a command count towards the 64, and only they are learned by then") {
  StageMonitor monitor;
  Vec2 place;
  const auto frame = [&](Vec2 sample, Vec2 stage, int frames = 1) {
    for (int i = 0; i < frames; ++i) {
      place = {place.x + stage.x, place.y + stage.y};
      monitor.update({.moved_nm = {sample.x + (i % 2) * 1e-3, sample.y},
                      .covariance_nm2 = {1e-4, 0, 1e-4},
                      .modelled_nm = place});
    }
  };
  frame({}, {}, 31);
  CHECK(monitor.moves_at_rest() == 30);
  frame({}, {0.1, 0.1});  // the deviation is that of the frame before
  const Vec2 learned = monitor.sd_nm();
  for (const Vec2 command : {Vec2{0.5, 0}, Vec2{0, -0.5}}) frame({}, command, 100);
  check_same(monitor.sd_nm(), learned);
  CHECK(monitor.moves_at_rest() == 30);
  CHECK(monitor.update({.moved_nm = {}, .covariance_nm2 = {}, .modelled_nm = place}).doubt == 0);
  frame({}, {}, 60);
  CHECK(monitor.moves_at_rest() == 64);
  CHECK(monitor.sd_nm().x != learned.x);
  CHECK(monitor.sd_nm().y != learned.y);
}

}  // namespace
}  // namespace driftd::control
