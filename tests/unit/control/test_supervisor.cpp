// SPDX-License-Identifier: MIT
// The supervisor with a sample on a stage, a publisher and a camera, each of which may fail.
#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/control/supervisor_bench.hpp"

namespace driftd::control {
namespace {

using test::Bench;
using test::Frame;
using test::kAgeNs;
using test::kMs;
using test::supervisor_settings;

TEST_CASE(
    "locked, the stage brings the sample back on both axes, through turned and mirrored axes") {
  for (const Vec2 sample : {Vec2{17, 0}, Vec2{-17, 0}, Vec2{0, 23}, Vec2{0, -23}}) {
    Bench bench;
    bench.lock();
    bench.sample_nm = sample;
    bench.frames(300);
    CHECK(bench.state() == LockState::Locked);
    CHECK(std::abs(bench.left_nm.x) < 1);
    CHECK(std::abs(bench.left_nm.y) < 1);
  }
}

TEST_CASE("a frame has one verdict, and only a good one corrects") {
  const auto verdict = [](Frame what, Vec2 sample = {}) {
    Bench bench;
    bench.lock();
    bench.frames(5);
    bench.sample_nm = sample;
    const Decision d = bench.frame(what);
    CHECK(d.has_correction == (d.verdict == LockEvent::GoodFrame));
    return d.verdict;
  };
  const Vec2 far{60, 0};
  CHECK(verdict({}) == LockEvent::GoodFrame);
  CHECK(verdict({}, far) == LockEvent::Jump);
  CHECK(verdict({.not_sent = true}) == LockEvent::NotSent);
  CHECK(verdict({.not_sent = true}, far) == LockEvent::Jump);
  CHECK(verdict({.not_sent = true, .valid = false}) == LockEvent::FewMarkers);
  CHECK(verdict({.stale = true, .not_sent = true, .valid = false}, far) == LockEvent::StaleFrame);
  CHECK(verdict({.stale = true, .refused = true}) == LockEvent::InternalFault);
  CHECK(verdict({.new_reference = true}, far) == LockEvent::ReferenceDone);
}

TEST_CASE("numbers that are no drift are as good as no markers") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const int which : {0, 1, 2, 3}) {
    Bench bench;
    bench.lock();
    DriftEstimate drift;
    drift.valid = true;
    drift.frames_averaged = 1;
    (which == 0   ? drift.drift_nm.x
     : which == 1 ? drift.drift_nm.y
     : which == 2 ? drift.frame_drift_nm.x
                  : drift.frame_drift_nm.y) = kNan;
    const std::int64_t now_ns = bench.now_ns + bench.every_ns;
    const Decision d =
        bench.supervisor.decide({.now_ns = now_ns, .taken_ns = now_ns - kAgeNs, .drift = &drift});
    CHECK(d.verdict == LockEvent::FewMarkers);
    CHECK_FALSE(d.has_correction);
  }
}

TEST_CASE("while nothing leaves the lock does not stay locked, and comes back when it does") {
  Bench bench;
  bench.lock();
  bench.frames(20);
  bench.leaves = false;
  bench.frames(3, {.not_sent = true});
  CHECK(bench.state() == LockState::Locked);
  bench.frame({.not_sent = true});
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::CorrectionsNotSent);
  CHECK_FALSE(bench.frames(50, {.not_sent = true}).has_correction);
  bench.leaves = true;
  bench.frames(6);
  CHECK(bench.state() == LockState::Locked);
}

TEST_CASE(
    "a jump is held against the last plausible place, in every direction, for as long as it "
    "lasts") {
  for (const Vec2 sign : {Vec2{1, 0}, Vec2{-1, 0}, Vec2{0, 1}, Vec2{0, -1}}) {
    Bench bench;
    bench.noise_nm = 0;
    bench.lock();
    bench.frames(10);
    bench.sample_nm = {39 * sign.x, 39 * sign.y};
    CHECK(bench.frame().verdict == LockEvent::GoodFrame);
    Bench other;
    other.noise_nm = 0;
    other.lock();
    other.frames(10);
    other.sample_nm = {41 * sign.x, 41 * sign.y};
    const int before = other.corrections;
    // Six seconds at 5 nm/s would be 30 nm; but the sample was seen all the time.
    for (int i = 0; i < 3000; ++i) REQUIRE(other.frame().verdict == LockEvent::Jump);
    CHECK(other.state() == LockState::Holding);
    CHECK(other.reason() == LockReason::ImplausibleJump);
    CHECK(other.corrections == before);
    CHECK(other.supervisor.jumped_nm().x == Approx(41 * sign.x).margin(0.1));
    CHECK(other.supervisor.jumped_nm().y == Approx(41 * sign.y).margin(0.1));
    other.sample_nm = {30 * sign.x, 30 * sign.y};
    other.frames(6);
    CHECK(other.state() == LockState::Locked);
  }
}

TEST_CASE("a jump while the stage's driver reports an error is a jump when the error is over") {
  for (const StageSays says : {StageSays::Error, StageSays::Limit, StageSays::Silent}) {
    Bench bench;
    bench.noise_nm = 0;
    bench.lock();
    bench.frames(10);
    bench.frames(5, {.stage = says});
    CHECK(bench.state() == LockState::Holding);
    CHECK_FALSE(bench.frame({.stage = says}).restart_average);
    bench.sample_nm = {100, 0};  // a controller was switched off and on, the stage went elsewhere
    CHECK(bench.frame({.stage = says}).restart_average);
    bench.frames(500, {.stage = says});
    CHECK(bench.frame({.stage = StageSays::Ready}).verdict == LockEvent::Jump);
    bench.frames(100);
    CHECK(bench.state() == LockState::Holding);
  }
}

TEST_CASE("a slow drift while the stage's driver reports an error is none") {
  Bench bench;
  bench.noise_nm = 0;
  bench.lock();
  bench.frames(10);
  for (int i = 0; i < 500; ++i) {
    bench.sample_nm.x += 0.2;
    bench.frame({.stage = StageSays::Error});
  }
  bench.frames(6, {.stage = StageSays::Ready});
  CHECK(bench.state() == LockState::Locked);
}

TEST_CASE("a drift while nothing was measured is no jump: 40 s at 1.6 nm/s, however it was blind") {
  for (const int how : {0, 1, 2}) {
    SupervisorSettings s = supervisor_settings();
    s.lock.hold_timeout_ns = 60'000 * kMs;
    Bench bench(s);
    bench.lock();
    bench.frames(50);
    if (how == 0) bench.silence(40'000 * kMs, true);
    if (how == 1) bench.frames(20'000, {.valid = false});
    if (how == 2) bench.frames(20'000, {.stale = true});
    CHECK(bench.state() == LockState::Holding);
    bench.sample_nm = {-64, 1.6 * 40};
    bench.frames(5);
    CHECK(bench.state() == LockState::Holding);
    bench.frame();
    CHECK(bench.state() == LockState::Locked);
    bench.frames(200);
    CHECK(std::abs(bench.left_nm.x) < 1);
    CHECK(std::abs(bench.left_nm.y) < 1);
  }
}

TEST_CASE("after a time without a drift more than it may have drifted is still a jump") {
  SupervisorSettings s = supervisor_settings();
  s.lock.hold_timeout_ns = 60'000 * kMs;
  Bench bench(s);
  bench.lock();
  bench.frames(50);
  bench.silence(10'000 * kMs, true);  // 40 + 10 s x 5 nm/s = 90
  bench.sample_nm = {0, 93};
  CHECK(bench.frame().verdict == LockEvent::Jump);
  bench.sample_nm = {0, 88};
  CHECK(bench.frame().verdict == LockEvent::GoodFrame);
}

TEST_CASE("idle and referencing, the sample may be moved about") {
  Bench bench;
  bench.frames(5);
  bench.sample_nm = {900, -800};
  CHECK(bench.frame().verdict == LockEvent::GoodFrame);
  bench.supervisor.command(LockEvent::CommandLock, bench.now_ns);
  bench.sample_nm = {0, 0};
  CHECK(bench.frame().verdict == LockEvent::GoodFrame);
}

TEST_CASE("without frames: held after the stall time, at once when the camera is away") {
  Bench bench;
  bench.lock();
  bench.frames(50);
  bench.silence(85 * kMs);
  CHECK(bench.state() == LockState::Locked);
  bench.silence(15 * kMs);
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::NoFrames);
  Bench away;
  away.lock();
  away.frames(50);
  away.silence(5 * kMs, true);
  CHECK(away.state() == LockState::Holding);
}

TEST_CASE("a slow camera locks and holds by its own period, measured") {
  for (const std::int64_t every_ns : {200 * kMs, 2000 * kMs}) {
    SupervisorSettings s = supervisor_settings();
    s.reference_frames = 30;  // longer than reference_timeout_ns
    Bench bench(s, every_ns);
    bench.frames(5);
    bench.lock();
    for (int i = 0; i < 20; ++i) {
      bench.silence(every_ns - 10 * kMs);
      bench.now_ns = bench.last_arrival_ns;
      bench.frame();
      REQUIRE(bench.state() == LockState::Locked);
    }
    bench.silence(3 * every_ns + 20 * kMs);
    CHECK(bench.state() == LockState::Holding);
  }
}

TEST_CASE("a lock that stays at its range limit holds, and a second lock starts anew") {
  Bench bench;
  bench.lock();
  const auto drift_for = [&](int frames, Vec2 each) {
    for (int i = 0; i < frames; ++i) {
      bench.sample_nm = {bench.sample_nm.x + each.x, bench.sample_nm.y + each.y};
      bench.frame();
    }
  };
  drift_for(7300, {0, -0.05});  // 365 nm: 401 on the stage's first axis
  REQUIRE(bench.state() == LockState::Locked);
  CHECK(std::abs(bench.supervisor.controller().total_nm().x) == 400);
  bench.frames(160);  // 320 ms more
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::RangeExceeded);
  bench.supervisor.command(LockEvent::CommandUnlock, bench.now_ns);
  const Vec2 total = bench.supervisor.controller().total_nm();
  bench.lock();
  CHECK(bench.supervisor.controller().total_nm().x == 0);
  CHECK(bench.supervisor.controller().total_nm().y == 0);
  CHECK(bench.supervisor.controller().travelled_nm().x == total.x);
  CHECK(bench.supervisor.controller().travelled_nm().y == total.y);
  bench.frames(10);
  CHECK(std::abs(bench.supervisor.controller().total_nm().x) < 2);
  drift_for(4600, {0, -0.05});  // 650 of travel leave 250
  CHECK(std::abs(bench.supervisor.controller().total_nm().x + total.x) == Approx(650));
}

TEST_CASE("a range made narrower while locked is entered in steps, without a fault") {
  Bench bench;
  bench.lock();
  for (int i = 0; i < 4000; ++i) {
    bench.sample_nm = {bench.sample_nm.x + 0.05, bench.sample_nm.y - 0.06};
    bench.frame();
  }
  const Vec2 before = bench.supervisor.controller().total_nm();
  REQUIRE(std::abs(before.x) > 150);
  SupervisorSettings narrower = bench.used;
  narrower.controller.range_limit_nm = 60;
  narrower.controller.step_limit_nm = 6;
  bench.supervisor.change_settings(narrower);
  Vec2 last = before;
  for (int i = 0; i < 100; ++i) {
    const Decision d = bench.frame();
    REQUIRE(bench.state() == LockState::Locked);
    REQUIRE(d.has_correction);
    REQUIRE(keeps(d.limits, last, d.correction.total_nm));
    REQUIRE(std::abs(d.correction.delta_nm.x) <= 6 + 1e-9);
    last = d.correction.total_nm;
  }
  CHECK(std::abs(last.x) == Approx(60));
  CHECK(std::abs(last.y) == Approx(60));
}

TEST_CASE("what never left is taken back: the next correction is a step from what was sent") {
  Bench bench;
  bench.lock();
  bench.frames(20);
  bench.sample_nm = {0, 30};
  const Decision sent = bench.frame();
  const std::int64_t sent_ns = bench.now_ns;
  bench.leaves = false;
  bench.frames(2);
  bench.supervisor.take_back(sent.correction.total_nm, sent_ns);
  CHECK(bench.supervisor.controller().total_nm().x == sent.correction.total_nm.x);
  bench.leaves = true;
  const Decision next = bench.frame();
  CHECK(keeps(next.limits, sent.correction.total_nm, next.correction.total_nm));
  bench.frames(200);
  CHECK(std::abs(bench.left_nm.y) < 1);
}

TEST_CASE("a lock that was held for the stage looks like nothing once it is unlocked or reset") {
  for (const LockEvent command : {LockEvent::CommandUnlock, LockEvent::CommandReset}) {
    Bench bench;
    bench.lock();
    bench.frames(200);
    bench.leaves = false;
    for (int i = 0; i < 500 && bench.state() == LockState::Locked; ++i) {
      bench.sample_nm = {bench.sample_nm.x + 0.03, bench.sample_nm.y - 0.04};
      bench.frame();
    }
    if (command == LockEvent::CommandReset) {  // an engaged lock is not reset
      for (int i = 0; i < 20'000 && bench.state() != LockState::Lost; ++i) bench.frame();
      REQUIRE(bench.state() == LockState::Lost);
    }
    REQUIRE(bench.supervisor.stage_looks() != StageLooks::Following);
    bench.supervisor.command(command, bench.now_ns);
    CHECK(bench.supervisor.stage_looks() == StageLooks::Following);
    bench.frames(3);
    CHECK(bench.supervisor.stage_looks() == StageLooks::Following);
  }
}

TEST_CASE(
    "a stage that sticks is held and tried by small moves, and locked again when it follows") {
  Bench bench;
  bench.lock();
  bench.frames(500);
  const Vec2 drift_nm{0.01, -0.02};  // a frame: 5 and 10 nm/s
  const auto go_on = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      bench.sample_nm = {bench.sample_nm.x + drift_nm.x, bench.sample_nm.y + drift_nm.y};
      bench.frame();
    }
  };
  go_on(500);
  REQUIRE(bench.state() == LockState::Locked);
  StageModel before = bench.true_stage;
  bench.leaves = false;  // the stage hears nothing, which nobody tells
  int frames_to_hold = 0;
  while (bench.state() == LockState::Locked && frames_to_hold < 500) {
    go_on(1);
    ++frames_to_hold;
  }
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::StageNotFollowing);
  CHECK(bench.supervisor.stage_looks() == StageLooks::Stuck);
  const Vec2 stuck_nm = before.at(bench.now_ns);
  go_on(10);  // back to where it last followed
  Vec2 furthest;
  for (int i = 0; i < 300; ++i) {
    go_on(1);
    const Vec2 total = bench.supervisor.controller().total_nm();
    furthest = {std::max(furthest.x, std::abs(total.x - stuck_nm.x)),
                std::max(furthest.y, std::abs(total.y - stuck_nm.y))};
  }
  CHECK(bench.state() == LockState::Holding);
  CHECK(furthest.x < 8);
  CHECK(furthest.y < 8);
  bench.leaves = true;
  int frames_to_lock = 0;
  while (bench.state() != LockState::Locked && frames_to_lock < 500) {
    go_on(1);
    ++frames_to_lock;
  }
  CHECK(bench.state() == LockState::Locked);
  CHECK(bench.reason() == LockReason::StageFollows);
  go_on(300);
  CHECK(std::abs(bench.left_nm.x - bench.zero_nm.x) < 1);
  CHECK(std::abs(bench.left_nm.y - bench.zero_nm.y) < 1);
}

TEST_CASE("a held stage is not tried while the sample is farther off than it may have drifted") {
  for (const Vec2 way : {Vec2{1, 0}, Vec2{-1, 0}, Vec2{0, 1}, Vec2{0, -1}}) {
    INFO(way.x << ", " << way.y);
    Bench bench;
    bench.lock();
    bench.frames(500);
    bench.obeys = false;
    const auto step = [&](double nm) {
      bench.sample_nm = {bench.sample_nm.x + nm * way.x, bench.sample_nm.y + nm * way.y};
      return bench.frame();
    };
    while (bench.state() == LockState::Locked) step(0.02);
    REQUIRE(bench.reason() == LockReason::StageNotFollowing);
    const Vec2 begun_nm = bench.left_nm;
    const std::int64_t held_ns = bench.now_ns;
    const auto off_nm = [&] {
      return way.x * (bench.left_nm.x - begun_nm.x) + way.y * (bench.left_nm.y - begun_nm.y);
    };
    // 40 nm, and 5 nm/s as configured; the noise is 0.1 nm.
    const auto allowed_nm = [&] { return 40 + 5e-9 * static_cast<double>(bench.now_ns - held_ns); };
    while (off_nm() < allowed_nm() - 1) REQUIRE(step(0.5).probe);
    while (off_nm() < allowed_nm() + 1) step(0.1);
    for (int i = 0; i < 20; ++i) CHECK_FALSE(step(0.02).has_correction);
    CHECK(bench.state() == LockState::Holding);
    while (off_nm() > allowed_nm() - 1) step(-0.1);
    CHECK(step(0).probe);
  }
}

}  // namespace
}  // namespace driftd::control
