// SPDX-License-Identifier: MIT
// The supervisor's rules one at a time: what of a frame goes where, times that no two of which are
// equal, what is forgotten and what is not.
#include <cmath>
#include <random>

#include "unit/control/supervisor_bench.hpp"

namespace driftd::control {
namespace {

using test::Bench;
using test::Feed;
using test::Frame;
using test::kAgeNs;
using test::kMs;
using test::supervisor_settings;

TEST_CASE("the averaged drift is corrected, with its frames, the exposure's time and the frame's") {
  Feed feed;
  feed.lock();
  Controller twin(supervisor_settings().controller);
  twin.remember_stage(feed.now_ns - kAgeNs);
  for (int i = 0; i < 12; ++i) {
    const Vec2 mean_nm{0.3 + 0.01 * i, -0.2};
    const Decision d = feed.frame({0.25, -0.35 + 0.02 * i}, mean_nm, 3);
    REQUIRE(d.has_correction);
    const std::int64_t taken_ns = feed.now_ns - kAgeNs;
    twin.remember_stage(taken_ns);
    const Correction expected = twin.update(mean_nm, taken_ns, feed.now_ns, 3);
    CHECK(d.correction.total_nm.x == expected.total_nm.x);
    CHECK(d.correction.total_nm.y == expected.total_nm.y);
  }
}

TEST_CASE("a lock that is resumed goes on from its total") {
  Feed feed;
  feed.lock();
  for (int i = 0; i < 12; ++i) feed.frame({0.3, -0.2});
  const Vec2 total = feed.supervisor.controller().total_nm();
  REQUIRE(std::hypot(total.x, total.y) > 0.5);
  feed.supervisor.without_frame(feed.now_ns, feed.now_ns + 100 * kMs, false);
  REQUIRE(feed.state() == LockState::Holding);
  for (int i = 0; i < 6; ++i) feed.frame();
  REQUIRE(feed.state() == LockState::Locked);
  const Vec2 after = feed.supervisor.controller().total_nm();
  CHECK(std::hypot(after.x - total.x, after.y - total.y) < 0.5);
  CHECK(feed.supervisor.controller().travelled_nm().x == 0);
}

TEST_CASE("a reference and a hold have time-outs of their own") {
  Feed feed;
  feed.supervisor.command(LockEvent::CommandLock, feed.now_ns);
  const std::int64_t begin_ns = feed.now_ns;
  while (feed.now_ns < begin_ns + 3990 * kMs) feed.frame();
  CHECK(feed.state() == LockState::Referencing);
  while (feed.now_ns < begin_ns + 4010 * kMs) feed.frame();
  CHECK(feed.state() == LockState::Idle);
  feed.lock();
  feed.supervisor.without_frame(feed.now_ns, feed.now_ns, true);
  REQUIRE(feed.state() == LockState::Holding);
  const std::int64_t held_ns = feed.now_ns;
  feed.supervisor.without_frame(held_ns, held_ns + 6990 * kMs, true);
  CHECK(feed.state() == LockState::Holding);
  feed.supervisor.without_frame(held_ns, held_ns + 7010 * kMs, true);
  CHECK(feed.state() == LockState::Lost);
}

TEST_CASE("a reload reaches the supervisor's own limits") {
  Feed feed;
  feed.lock();
  feed.frame();
  SupervisorSettings wider = supervisor_settings();
  wider.max_jump_nm = 90;
  feed.supervisor.change_settings(wider);
  CHECK(feed.frame({0, 70}).verdict == LockEvent::GoodFrame);
}

TEST_CASE("a jump is measured from the last frame's own drift, not from the average's") {
  Feed feed;
  feed.lock();
  feed.frame({0, 0}, {0, 30}, 2);
  CHECK(feed.frame({0, 41}, {0, 30}, 2).verdict == LockEvent::Jump);
}

TEST_CASE("the way that the lock itself takes the sample is no jump, and one against it is") {
  SupervisorSettings settings = supervisor_settings();
  settings.controller.step_limit_nm = 100;
  settings.controller.rate_limit_nm_per_s = 1e6;
  settings.controller.range_limit_nm = settings.controller.travel_limit_nm = 1000;
  for (const bool against : {false, true}) {
    Feed feed(settings);
    while (feed.supervisor.reference_frames() > settings.reference_frames) feed.frame();
    feed.frame();
    feed.supervisor.command(LockEvent::CommandLock, feed.now_ns);
    // As a lock at a saved place begins.
    feed.frame({300, 0}, {300, 0}, 1, {.new_reference = true});
    REQUIRE(feed.state() == LockState::Locked);
    StageModel stage({.image_to_stage = settings.controller.image_to_stage,
                      .delay_us = settings.controller.stage_delay_us,
                      .time_constant_us = settings.controller.stage_time_constant_us});
    double last_nm = 300, farthest_nm = 0;
    for (int i = 0; i < 60; ++i) {
      const Vec2 by_stage =
          settings.controller.image_to_stage.invert(stage.at(feed.now_ns + feed.every_ns - kAgeNs));
      const double way_nm = 300 + by_stage.x - last_nm;
      if (against && way_nm < -45) {
        CHECK(feed.frame({last_nm + 45, by_stage.y}).verdict == LockEvent::Jump);
        break;
      }
      farthest_nm = std::max(farthest_nm, -way_nm);
      const Decision d = feed.frame({300 + by_stage.x, by_stage.y});
      REQUIRE(d.verdict == LockEvent::GoodFrame);
      if (d.has_correction) stage.command(d.correction.total_nm, feed.now_ns);
      last_nm += way_nm;
    }
    if (!against) CHECK(farthest_nm > 45);  // max_jump_nm is 40
    if (!against) CHECK(std::abs(last_nm) < 1);
  }
}

TEST_CASE("after a jump and after a stale frame the average starts anew, after no other frame") {
  Feed feed;
  feed.lock();
  CHECK_FALSE(feed.frame().restart_average);
  CHECK_FALSE(feed.frame({}, {}, 1, {.not_sent = true}).restart_average);
  CHECK(feed.frame({}, {}, 1, {.stale = true}).restart_average);
  CHECK_FALSE(feed.frame().restart_average);
  CHECK(feed.frame({0, -41}).restart_average);
  CHECK_FALSE(feed.frame().restart_average);
}

TEST_CASE("a reference takes the frames that the stage monitor has still to see") {
  SupervisorSettings s = supervisor_settings();
  s.reference_frames = 5;
  s.rest_moves_to_lock = 20;
  Feed feed(s);
  CHECK(feed.supervisor.reference_frames() == 22);
  for (int i = 0; i < 10; ++i) feed.frame();  // nine moves
  CHECK(feed.supervisor.reference_frames() == 13);
  feed.supervisor.command(LockEvent::CommandLock, feed.now_ns);
  for (int i = 0; i < 11; ++i) feed.frame();
  CHECK(feed.supervisor.reference_frames() == 5);  // one is missing
  CHECK(feed.frame({}, {}, 1, {.valid = false}).verdict == LockEvent::FewMarkers);
  CHECK(feed.frame({}, {}, 1, {.new_reference = true}).verdict == LockEvent::GoodFrame);
  CHECK(feed.state() == LockState::Referencing);
  feed.frame();
  feed.frame();
  CHECK(feed.frame({}, {}, 1, {.new_reference = true}).verdict == LockEvent::ReferenceDone);
  CHECK(feed.state() == LockState::Locked);
}

TEST_CASE("the reference's time-out allows for what the stage monitor has to see") {
  SupervisorSettings s = supervisor_settings();
  s.rest_moves_to_lock = 20;
  Feed feed(s, 500 * kMs);
  feed.frame();
  feed.frame();
  feed.supervisor.command(LockEvent::CommandLock, feed.now_ns);
  for (int i = 0; i < 43; ++i) feed.frame();  // 22 frames of 0.5 s, twice
  CHECK(feed.state() == LockState::Referencing);
  feed.frame();
  feed.frame();
  CHECK(feed.state() == LockState::Idle);
  CHECK(feed.reason() == LockReason::ReferenceTimeout);
}

TEST_CASE("only the time since the last drift was measured widens the jump, and only once") {
  Feed slow;
  slow.every_ns = 2000 * kMs;  // seen every 2 s: never blind
  slow.lock();
  slow.frame();
  slow.frame();
  CHECK(slow.frame({0, 43}).verdict == LockEvent::Jump);

  SupervisorSettings patient = supervisor_settings();
  patient.lock.hold_timeout_ns = 600'000 * kMs;
  Feed feed(patient);
  feed.lock();
  for (int i = 0; i < 3; ++i) feed.frame();
  for (const std::int64_t away_ns : {10'000 * kMs, 2000 * kMs}) {
    feed.supervisor.without_frame(feed.now_ns, feed.now_ns + away_ns / 2, true);
    feed.now_ns += away_ns;
    if (away_ns == 2000 * kMs) CHECK(feed.frame({0, 60}).verdict == LockEvent::Jump);
    for (int i = 0; i < 8; ++i) CHECK(feed.frame().verdict == LockEvent::GoodFrame);
  }
  slow.supervisor.without_frame(slow.now_ns, slow.now_ns, true);
  slow.frame();
  slow.frame();  // seen again
  CHECK(slow.frame({0, 43}).verdict == LockEvent::Jump);
}

TEST_CASE("only time at the range counts, from when it was reached last, and more than allowed") {
  SupervisorSettings narrow = supervisor_settings();
  narrow.controller.range_limit_nm = 8;
  Bench bench(narrow);
  bench.noise_nm = 0;
  bench.lock();
  const auto until_limited = [&](bool limited) {
    for (int i = 0; i < 50; ++i)
      if (((bench.frame().correction.limited & kLimitRange) != 0) == limited) return;
    FAIL("the limit is not reached, or not left");
  };
  const Vec2 far_nm{12, -10};  // on the stage 13 and -12 nm
  bench.sample_nm = far_nm;
  until_limited(true);
  bench.frames(100);
  bench.sample_nm = {0, 0};
  until_limited(false);
  bench.frames(60);
  bench.sample_nm = far_nm;
  until_limited(true);
  const std::int64_t since_ns = bench.now_ns;
  while (bench.now_ns < since_ns + 300 * kMs)
    REQUIRE(bench.frame().verdict == LockEvent::GoodFrame);
  REQUIRE(bench.now_ns == since_ns + 300 * kMs);
  CHECK(bench.frame().verdict == LockEvent::RangeExceeded);

  SupervisorSettings slow = supervisor_settings();
  slow.controller.step_limit_nm = 0.01;
  Bench held_back(slow);
  held_back.lock();
  held_back.sample_nm = far_nm;
  for (int i = 0; i < 400; ++i) {
    const Decision d = held_back.frame();
    REQUIRE(d.verdict == LockEvent::GoodFrame);
    REQUIRE(d.correction.limited == kLimitStep);
  }
}

TEST_CASE("the stage is watched by what each frame shows, not by averages") {
  // The mean is of a stage that obeys and a sample that goes to and fro. In one run each frame
  // shows the same, in the other that nothing moves.
  for (const bool stuck : {false, true}) {
    Feed feed;
    feed.lock();
    std::mt19937 random(3);
    Vec2 sample_nm{2, -3};
    int alarms = 0;
    for (int i = 0; i < 400; ++i) {
      if (random() % 25 == 0) sample_nm = {-sample_nm.x, -sample_nm.y};
      const Vec2 stage_nm = feed.used.controller.image_to_stage.invert(
          feed.supervisor.controller().stage_at(feed.now_ns + feed.every_ns - kAgeNs));
      const Vec2 mean_nm{stage_nm.x + sample_nm.x, stage_nm.y + sample_nm.y};
      const Decision d = feed.frame(stuck ? Vec2{} : mean_nm, mean_nm);
      if (d.verdict == LockEvent::StageNotFollowing) ++alarms;
    }
    CHECK(alarms == (stuck ? 1 : 0));
  }
}

TEST_CASE("how the sample moved while it was not seen is not held against the stage") {
  Bench bench;
  bench.lock();
  bench.frames(1500);
  bench.sample_nm = {24, -18};
  bench.frame();
  bench.frame();
  const Vec2 seen_nm = bench.left_nm;
  bench.frames(3, {.valid = false});
  // The corrections under way brought the sample back; meanwhile it moved twice as far the other
  // way, as it would on a stage that is reversed.
  const Vec2 stage_nm = bench.used.controller.image_to_stage.invert(
      bench.true_stage.at(bench.now_ns + bench.every_ns - kAgeNs));
  const Vec2 back_nm{bench.sample_nm.x + stage_nm.x - seen_nm.x,
                     bench.sample_nm.y + stage_nm.y - seen_nm.y};
  REQUIRE(std::abs(back_nm.x) > 4);
  REQUIRE(std::abs(back_nm.y) > 4);
  bench.sample_nm = {bench.sample_nm.x - 2 * back_nm.x, bench.sample_nm.y - 2 * back_nm.y};
  CHECK(bench.frame().verdict == LockEvent::GoodFrame);
  CHECK(bench.frames(100).verdict == LockEvent::GoodFrame);
}

/// Of 92 frames, from when the command that waited leaves on.
int alarms_once_it_leaves(Bench& bench) {
  bench.leaves = true;
  bench.true_stage.command(bench.supervisor.controller().total_nm(), bench.now_ns + kMs);
  int count = 0;
  for (int k = 0; k < 92; ++k)
    count += bench.frame().verdict == LockEvent::StageNotFollowing ? 1 : 0;
  return count;
}

TEST_CASE("what a stage does while its command waits in a busy computer is not held against it") {
  const auto alarms = [](bool told) {
    Bench bench;
    bench.lock();
    bench.frames(1000);
    int count = 0;
    for (int i = 0; i < 40; ++i) {
      bench.sample_nm.x += i % 2 == 0 ? 15 : -15;
      bench.frame();
      bench.leaves = false;
      for (int k = 0; k < 8; ++k)
        count += bench.frame({.unsent = told}).verdict == LockEvent::StageNotFollowing ? 1 : 0;
      count += alarms_once_it_leaves(bench);
    }
    return count;
  };
  CHECK(alarms(false) > 0);
  CHECK(alarms(true) == 0);
}

TEST_CASE("a command that waits is noted with frames that show nothing, too") {
  // Where the lock coasts then, it is known of the last command alone that it left late.
  const auto alarms = [](bool told) {
    SupervisorSettings late = test::supervisor_settings();
    late.controller.stage_delay_us = 20'000;
    Bench bench(late, 5 * kMs);
    bench.lock();
    bench.frames(1000);
    int count = 0;
    for (int i = 0; i < 40; ++i) {
      bench.sample_nm.x += i % 2 == 0 ? 30 : -30;
      bench.leaves = false;
      bench.frame();
      bench.frames(3, {.valid = false, .unsent = told});
      count += alarms_once_it_leaves(bench);
    }
    return count;
  };
  CHECK(alarms(false) > 0);
  CHECK(alarms(true) == 0);
}

TEST_CASE("a stage that is stuck is found though each command waits in a busy computer") {
  const std::int64_t period_ns = GENERATE(2 * kMs, kMs / 10);  // at 10,000 frames/s few are watched
  Bench bench(supervisor_settings(), period_ns);
  bench.lock();
  bench.frames(static_cast<int>(2000 * kMs / period_ns), {.unsent = true});
  bench.obeys = false;
  const std::int64_t begin_ns = bench.now_ns;
  while (bench.state() == LockState::Locked && bench.now_ns - begin_ns < 2000 * kMs) {
    bench.sample_nm.x += 0.01 * static_cast<double>(period_ns) / (2.0 * kMs);
    bench.frame({.unsent = true});
  }
  CHECK(bench.reason() == LockReason::StageNotFollowing);
}

TEST_CASE("the monitor sees frames at least 1.6 ms apart, and a reference has enough of them") {
  Feed feed(test::supervisor_settings(), 1 * kMs);
  const int at_first = feed.supervisor.reference_frames();
  for (int i = 0; i < 11; ++i) feed.frame();  // of which it sees six
  CHECK(feed.supervisor.reference_frames() == 2 * (at_first - 5) - 2);
  Feed slower(test::supervisor_settings(), 2 * kMs);
  for (int i = 0; i < 11; ++i) slower.frame();
  CHECK(slower.supervisor.reference_frames() == at_first - 10);
}

TEST_CASE("a calibration takes the stage along from where it is, and only while that can leave") {
  Feed feed;
  feed.lock();
  for (int i = 0; i < 20; ++i) feed.frame({30, -20});
  feed.supervisor.command(LockEvent::CommandUnlock, feed.now_ns);
  feed.supervisor.command(LockEvent::CommandCalibrate, feed.now_ns);
  const auto excited = [&](Frame what = {}) {
    what.excitation_nm = Vec2{6, -4};
    return feed.frame({}, {}, 1, what);
  };
  CHECK_FALSE(excited({.stale = true}).has_correction);
  CHECK_FALSE(excited({.not_sent = true}).has_correction);
  CHECK_FALSE(excited({.unsent = true}).has_correction);  // the one before has not left yet
  Decision told = excited();
  REQUIRE(told.has_correction);
  CHECK(told.correction.total_nm.x == 0);  // not what the lock before had come to
  CHECK(told.correction.total_nm.y == 0);
  for (int i = 0; i < 50; ++i) told = excited();
  CHECK(told.probe);
  CHECK(told.correction.total_nm.x == Approx(6));
  CHECK(told.correction.total_nm.y == Approx(-4));
}

TEST_CASE("an absence is no frame period") {
  Feed feed;
  feed.supervisor.arrived(feed.now_ns);
  feed.supervisor.without_frame(feed.now_ns, feed.now_ns + 1, true);
  feed.supervisor.arrived(feed.now_ns + 40'000 * kMs);
  CHECK(feed.supervisor.period().ns() == 0);
  feed.supervisor.arrived(feed.now_ns + 40'003 * kMs);
  CHECK(feed.supervisor.period().ns() == Approx(3e6));
}

}  // namespace
}  // namespace driftd::control
