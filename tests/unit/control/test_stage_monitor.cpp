// SPDX-License-Identifier: MIT
// The stage monitor in the closed loop, in virtual time, against a stage that stops following.
// Where a limit is not one of the requirements, it is the worst that was measured over many seeds,
// and a half.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/control/stage_simulation.hpp"

namespace driftd::control {
namespace {

using test::simulate;
using test::StageOutcome;
using test::StageSetup;
using test::turned;
using test::World;

struct NamedWorld {
  std::string name;
  World world;
};
std::vector<NamedWorld> worlds() {
  return {{"nominal", test::nominal_world()},
          {"vibration", test::vibration_world()},
          {"quiet", test::quiet_world()},
          {"noisy", test::noisy_world()}};
}

StageSetup setup_in(const World& world, double frame_rate_hz = 500) {
  StageSetup setup;
  setup.world = world;
  setup.frame_rate_hz = frame_rate_hz;
  setup.idle_s = 2;
  return setup;
}

TEST_CASE("a stage that is stuck for a while kicks nothing and is locked again by itself") {
  for (const NamedWorld& w : worlds())
    for (const double stuck_s : {0.3, 1.0})
      for (const unsigned seed : {1U, 2U, 3U}) {
        StageSetup setup = setup_in(w.world);
        setup.fault = {.response = {0, 0, 0, 0}, .begin_s = 5, .end_s = 5 + stuck_s};
        setup.seconds = 9;
        const StageOutcome out = simulate(setup, seed);
        INFO(w.name << ", stuck for " << stuck_s << " s, seed " << seed);
        CHECK(out.beyond_drift_nm < 10);
        CHECK(out.locked_at_end);
        if (out.alarms > 0) CHECK(out.first_resume_s < setup.fault.end_s + 1);
        if (stuck_s == 1.0) CHECK(out.first_looks != StageLooks::Following);
      }
}

struct Fault {
  std::string name;
  ImageToStage response;
  StageLooks looks;
};
std::vector<Fault> faults() {
  return {
      {"reversed", {-1, 0, 0, -1}, StageLooks::Reversed},
      {"x reversed", {-1, 0, 0, 1}, StageLooks::Reversed},
      {"y reversed", {1, 0, 0, -1}, StageLooks::Reversed},
      {"x stuck", {0, 0, 0, 1}, StageLooks::Stuck},
      {"y stuck", {1, 0, 0, 0}, StageLooks::Stuck},
      {"swapped", {0, 1, 1, 0}, StageLooks::TurnedOrSwapped},
      {"turned by 60 degrees", turned(60), StageLooks::TurnedOrSwapped},
      {"turned by 90 degrees", turned(90), StageLooks::TurnedOrSwapped},
      {"turned by 120 degrees", turned(120), StageLooks::TurnedOrSwapped},
      {"turned by -120 degrees", turned(-120), StageLooks::TurnedOrSwapped},
  };
}

TEST_CASE(
    "what does not follow is held before it moved the sample 50 nm, named, and never resumed") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  for (const Fault& fault : faults())
    for (const NamedWorld& w : worlds())
      for (const double begin_s : {0.0, 5.0}) {
        StageSetup setup = setup_in(w.world);
        setup.fault = {.response = fault.response, .begin_s = begin_s};
        setup.seconds = 10;
        const StageOutcome out = simulate(setup);
        INFO(fault.name << ", " << w.name << ", from " << begin_s << " s");
        CHECK(out.alarms == 1);
        CHECK(out.resumes == 0);
        CHECK(out.beyond_drift_nm < 30);
        CHECK(name_of(out.last_looks) == std::string(name_of(fault.looks)));
        // The requirement: 50 nm of the sample until it is held.
        CHECK(out.residual_at_alarm_nm < 50);
      }
}

TEST_CASE(
    "held by the observer, what drives the sample away is held as soon, and nothing else is") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  for (const NamedWorld& w : worlds()) {
    StageSetup setup = setup_in(w.world);
    setup.observed = true;
    setup.seconds = 20;
    StageOutcome out = simulate(setup);
    INFO(w.name);
    CHECK(out.alarms == 0);
    setup.learnt = out.learnt;
    setup.seconds = 300;
    out = simulate(setup, 2);
    INFO("doubt " << out.largest_doubt);
    CHECK(out.alarms == 0);
    for (const Fault& fault : faults()) {
      setup.fault = {.response = fault.response, .begin_s = 5};
      setup.seconds = 12;
      out = simulate(setup, 3);
      INFO(fault.name);
      CHECK(out.alarms == 1);
      CHECK(out.resumes == 0);
      CHECK(out.beyond_drift_nm < 36);
      CHECK(name_of(out.last_looks) == std::string(name_of(fault.looks)));
    }
    setup.fault = {};
  }
}

TEST_CASE("a dead stage is not locked a second after the residual passed 10 nm") {
  for (const NamedWorld& w : worlds())
    for (const double rate_hz : {500.0, 50.0}) {
      StageSetup setup = setup_in(w.world, rate_hz);
      setup.fault = {.response = {0, 0, 0, 0}, .begin_s = 0};
      setup.seconds = 30;
      const StageOutcome out = simulate(setup);
      INFO(w.name << ", " << rate_hz << " frames/s");
      REQUIRE(out.alarms == 1);
      CHECK(out.first_looks == StageLooks::Stuck);
      CHECK(out.resumes == 0);
      if (out.residual_10_nm_s >= 0) CHECK(out.first_alarm_s < out.residual_10_nm_s + 1);
    }
}

TEST_CASE("a stage that follows, and one that is described moderately wrong, raises no alarm") {
  if (driftd::test::kInstrumented) {
    WARN("SKIPPED: minutes of arithmetic when instrumented");
    return;
  }
  struct Wrong {
    double delay, gain, degrees;
  };
  for (const NamedWorld& w : worlds())
    for (const Wrong wrong : {Wrong{1, 1, 0}, Wrong{0.5, 0.8, 10}, Wrong{1.5, 0.8, -10},
                              Wrong{0.5, 1.2, -10}, Wrong{1.5, 1.2, 10}}) {
      StageSetup setup = setup_in(w.world);
      setup.model.stage_delay_us *= wrong.delay;
      setup.fault = {.response = turned(wrong.degrees, wrong.gain), .begin_s = 0};
      setup.seconds = wrong.degrees == 0 ? 180 : 40;
      const StageOutcome out = simulate(setup);
      INFO(w.name << ", delay x" << wrong.delay << ", gain " << wrong.gain << ", turned by "
                  << wrong.degrees << " degrees, doubt " << out.largest_doubt);
      CHECK(out.alarms == 0);
    }
}

TEST_CASE("knocks of the sample are no fault of the stage") {
  for (const NamedWorld& w : worlds()) {
    StageSetup setup = setup_in(w.world);
    setup.world.knock_nm = 20;
    setup.world.knock_every_s = 1.7;
    setup.seconds = 40;
    const StageOutcome out = simulate(setup);
    INFO(w.name << ", doubt " << out.largest_doubt);
    CHECK(out.alarms == 0);
  }
}

TEST_CASE("a vibration that begins may be doubted for moments, and is learned") {
  int alarms = 0;
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    StageSetup setup = setup_in(test::quiet_world());
    setup.world.lines = test::vibration_world().lines;
    setup.world.lines_begin_s = 10;
    setup.seconds = 40;
    const StageOutcome out = simulate(setup, seed);
    INFO("seed " << seed);
    CHECK(out.resumes == out.alarms);
    if (out.alarms > 0) CHECK(out.first_resume_s < out.first_alarm_s + 1);
    alarms += out.alarms;
  }
  CHECK(alarms < 16);
}

ObservedFrame sample_of(Vec2 moved_nm, Vec2 modelled_nm) {
  return {.moved_nm = moved_nm, .covariance_nm2 = {0.1, 0, 0.2}, .modelled_nm = modelled_nm};
}

TEST_CASE("without commands there is neither doubt nor trust") {
  StageMonitor monitor;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const StageVerdict v = monitor.update(sample_of({3 * normal(random), normal(random)}, {7, -2}));
    REQUIRE(v.follows);
    REQUIRE(v.doubt == 0);
    REQUIRE(v.trust == 0);
    REQUIRE(v.anchor_nm.x == 7);
    REQUIRE(v.anchor_nm.y == -2);
  }
  CHECK(monitor.sd_nm().x == Approx(3).epsilon(0.15));
  CHECK(monitor.sd_nm().y == Approx(1).epsilon(0.15));
}

TEST_CASE("the anchor is where the stage was when it stopped following") {
  // The stage wanders; from frame 1000 it stays where it was.
  StageMonitor monitor;
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  StageVerdict v;
  std::int64_t i = 0;
  Vec2 place{40, -60}, stage;
  for (; i < 2000 && v.follows; ++i) {
    if (i > 64) place = {place.x + 0.5 * normal(random), place.y + 0.8 * normal(random)};
    if (i < 1000) stage = place;
    v = monitor.update(
        sample_of({stage.x + 0.5 * normal(random), stage.y + 0.3 * normal(random)}, place));
  }
  REQUIRE_FALSE(v.follows);
  CHECK(i < 1050);
  CHECK(v.looks == StageLooks::Stuck);
  CHECK(std::abs(v.anchor_nm.x - stage.x) < 3);
  CHECK(std::abs(v.anchor_nm.y - stage.y) < 3);
  monitor.restart();
  CHECK(monitor.update(sample_of({0, 0}, {0, 0})).follows);
}

/// A monitor that has watched 64 moves at rest, and what goes on being commanded and seen.
struct Wandering {
  Wandering() {
    for (int i = 0; i < 65; ++i) see();
  }
  StageVerdict see() {
    return monitor.update(
        sample_of({place.x + 0.5 * normal(random), place.y + 0.3 * normal(random)}, commanded));
  }
  StageMonitor monitor;
  std::mt19937 random{5};
  std::normal_distribution<double> normal;
  Vec2 commanded, place;

  StageVerdict step(const ImageToStage& response) {
    const Vec2 move{2 * normal(random), 3 * normal(random)};
    commanded = {commanded.x + move.x, commanded.y + move.y};
    const Vec2 moved = response.apply(move);
    place = {place.x + moved.x, place.y + moved.y};
    return see();
  }
  int frames_to_alarm(const ImageToStage& response) {
    int frames = 1;
    while (step(response).follows && frames < 1000) ++frames;
    return frames;
  }
  StageVerdict follow(int frames) {
    StageVerdict v;
    for (int i = 0; i < frames; ++i) v = step({});
    return v;
  }
};

TEST_CASE("what no known fault explains is called so") {
  Wandering w;
  CHECK(w.follow(1000).trust > 0.8 * StageMonitor::kTrust);
  StageVerdict v;
  for (int i = 0; i < 200; ++i) v = w.step({-4, 0, 0, -4});
  CHECK_FALSE(v.follows);
  CHECK(v.looks == StageLooks::Unexplained);
}

TEST_CASE("what was doubted by evidence of one kind is doubted anew by another") {
  Wandering w;
  w.follow(1000);
  StageVerdict v;
  for (int i = 0; i < 100 && v.doubt < 10; ++i) v = w.step({0, 0, 0, 0});
  REQUIRE(v.follows);
  REQUIRE(v.doubt >= 10);
  ObservedFrame frame = sample_of(w.place, w.commanded);
  frame.expectation = Expectation{
      .innovation_nm = {}, .variance_nm2 = {1, 1}, .of_stage_x_nm = {}, .of_stage_y_nm = {}};
  CHECK(w.monitor.update(frame).doubt < 5);
}

TEST_CASE("a stage that has just shown that it follows is doubted three times as slowly") {
  Wandering w;
  w.follow(1000);
  const int first = w.frames_to_alarm({0, 0, 0, 0});
  CHECK(w.follow(100).follows);
  const int second = w.frames_to_alarm({0, 0, 0, 0});
  CHECK(second > 2 * first);
  CHECK(second < 100);
  CHECK(w.follow(20000).follows);
  CHECK(w.frames_to_alarm({0, 0, 0, 0}) < second);
}

TEST_CASE("a model set anew is no move, and forgets no alarm") {
  Wandering w;
  w.follow(1000);
  w.commanded = {w.commanded.x + 500, w.commanded.y - 300};
  w.monitor.skip_move();
  CHECK(w.follow(1).doubt < 3);
  CHECK(w.follow(100).follows);
  for (int i = 0; i < 50; ++i) w.step({0, 0, 0, 0});
  w.monitor.skip_move();
  CHECK_FALSE(w.step({0, 0, 0, 0}).follows);
  // Where the place jumps with a new reference, nothing was commanded either.
  w.place = {900, -900};
  w.monitor.restart();
  CHECK(w.follow(1).follows);
  CHECK(w.follow(100).follows);
}

TEST_CASE("samples that are not finite change nothing") {
  StageMonitor monitor;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t i = 0; i < 100; ++i) {
    monitor.update(sample_of({0.1 * static_cast<double>(i % 3), 0}, {0, 0}));
    monitor.update(sample_of({kNan, 0}, {0, 0}));
    const StageVerdict v = monitor.update(sample_of({0, 0}, {0, kNan}));
    REQUIRE(std::isfinite(v.doubt));
  }
  CHECK(std::isfinite(monitor.sd_nm().x));
  CHECK(std::isfinite(monitor.sd_nm().y));
}

TEST_CASE("it does not matter when the monitor prepares, only how soon it answers") {
  StageMonitor by_itself;
  StageMonitor prepared;
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Vec2 place;
  Vec2 stage;
  double seen_doubt = 0;
  for (int i = 0; i < 4000; ++i) {
    // Each of what may come between two samples, at times of its own.
    if (i % 701 == 700)
      for (StageMonitor* m : {&by_itself, &prepared}) m->begin_reference();
    if (i % 701 == 150)
      for (StageMonitor* m : {&by_itself, &prepared}) m->restart();
    if (i % 97 == 96)
      for (StageMonitor* m : {&by_itself, &prepared}) m->skip_move();
    const bool stuck = i % 701 > 500 && i % 701 < 540;
    const Vec2 command{i % 701 < 200 ? 0 : normal(random), i % 701 < 200 ? 0 : 2 * normal(random)};
    stage = {stage.x + command.x, stage.y + command.y};
    place = {place.x + (stuck ? 0 : command.x) + 0.3 * normal(random),
             place.y + (stuck ? 0 : command.y) + 0.2 * normal(random)};
    const StageVerdict a = by_itself.update(sample_of(place, stage));
    const StageVerdict b = prepared.update(sample_of(place, stage));
    if (i % 3 != 2) prepared.prepare();
    REQUIRE(a.doubt == b.doubt);
    REQUIRE(a.trust == b.trust);
    REQUIRE(a.looks == b.looks);
    REQUIRE(by_itself.sd_nm().x == prepared.sd_nm().x);
    REQUIRE(by_itself.sd_nm().y == prepared.sd_nm().y);
    seen_doubt = std::max(seen_doubt, a.doubt);
  }
  CHECK(seen_doubt > StageMonitor::kAlarm);  // the doubts compared were some
}

TEST_CASE("the monitor and its probe allocate nothing") {
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  StageMonitor monitor;
  StageProbe probe;
  driftd::test::watch_this_thread(true);
  probe.begin({1, 2});
  for (std::int64_t i = 0; i < 200; ++i) {
    const Vec2 at = probe.wanted_nm({1, 2}, {1, 2}, {0.1, 0.2}, 2'000'000 * i);
    monitor.update(sample_of(at, at));
    monitor.prepare();
  }
  driftd::test::watch_this_thread(false);
  CHECK(driftd::test::watched_allocations() == 0);
}

}  // namespace
}  // namespace driftd::control
