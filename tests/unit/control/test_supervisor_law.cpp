// SPDX-License-Identifier: MIT
// The supervisor with the law that learns: what it coasts through, and that a stage that does not
// follow is held as it is with PI.
#include <cmath>
#include <iterator>
#include <numbers>

#include "support/virtual_tuner.hpp"
#include "unit/control/supervisor_bench.hpp"

namespace driftd::control {
namespace {

using test::Bench;
using test::kMs;
using test::supervisor_settings;

SupervisorSettings learning(double coast_nm = 1.5) {
  SupervisorSettings s = supervisor_settings();
  s.controller.law = ControlLaw::Auto;
  s.controller.coast_nm = coast_nm;
  return s;
}

/// A sample that drifts by 20 nm/s and shakes by 1.5 nm at 5 Hz.
struct Shaken : Bench {
  explicit Shaken(const SupervisorSettings& s) : Bench(s) {}
  Decision step(test::Frame what = {}) {
    const double t_s = 1e-9 * static_cast<double>(now_ns - began_ns);
    const double angle = 2 * std::numbers::pi * 5 * t_s;
    sample_nm = {20 * t_s + 1.5 * std::sin(angle) + away_nm.x,
                 -8 * t_s + 1.5 * std::cos(angle) + away_nm.y};
    tuner.give(supervisor, now_ns + every_ns);
    const Decision d = Bench::frame(what);
    tuner.take(supervisor, now_ns);
    return d;
  }
  double worst_nm(int frames, test::Frame what = {}) {
    double most = 0;
    for (int i = 0; i < frames; ++i) {
      step(what);
      most = std::max({most, std::abs(left_nm.x - zero_nm.x), std::abs(left_nm.y - zero_nm.y)});
    }
    return most;
  }
  void learn() {
    lock();
    began_ns = now_ns;
    worst_nm(2000);
    REQUIRE(state() == LockState::Locked);
    REQUIRE(supervisor.law().state().observer);
    REQUIRE(supervisor.law().observer().is_tuned(0));
    REQUIRE(supervisor.law().observer().is_tuned(1));
  }
  /// The stage stands where it is, whatever it is told; or goes again.
  void stick(bool sticks) {
    obeys = !sticks;
    const Vec2 image = used.controller.image_to_stage.invert(true_stage.at(now_ns));
    const double by = sticks ? -1 : 1;
    zero_nm = {zero_nm.x + by * image.x, zero_nm.y + by * image.y};
  }
  std::int64_t began_ns = 0;
  Vec2 away_nm;
  driftd::test::VirtualTuner tuner;
};

TEST_CASE("a lock that has learnt goes on through frames without markers, for a while") {
  Shaken bench(learning());
  bench.learn();
  CHECK(bench.worst_nm(500) < 0.6);
  const int before = bench.corrections;
  // Held still it would be off by 4 nm, and by the shaking.
  CHECK(bench.worst_nm(100, {.valid = false}) < 1);
  CHECK(bench.corrections == before + 100);
  const Decision coasted = bench.step({.valid = false});
  CHECK(coasted.verdict == LockEvent::Coasting);
  CHECK(coasted.coasting);
  CHECK(bench.state() == LockState::Locked);
  const Decision seen = bench.step();
  CHECK(seen.verdict == LockEvent::GoodFrame);
  CHECK_FALSE(seen.coasting);
  for (int i = 0; i < 1100; ++i) bench.step({.valid = false});
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::TooFewMarkers);
  const int held = bench.corrections;
  bench.step({.valid = false});
  CHECK(bench.corrections == held);
}

TEST_CASE(
    "nothing is coasted through that was not learnt, not asked for, or is not well otherwise") {
  Shaken fresh(learning());
  fresh.lock();
  CHECK(fresh.step({.valid = false}).verdict == LockEvent::FewMarkers);
  Shaken never(learning(0));
  never.learn();
  CHECK(never.step({.valid = false}).verdict == LockEvent::FewMarkers);
  Shaken bench(learning());
  bench.learn();
  CHECK(bench.step({.not_sent = true, .valid = false}).verdict == LockEvent::FewMarkers);
  // A bad frame before: it is not known well enough how things are.
  CHECK(bench.step({.valid = false}).verdict == LockEvent::FewMarkers);
  bench.step();
  CHECK(bench.step({.valid = false, .stage = StageSays::Error}).verdict == LockEvent::FewMarkers);
  bench.step();
  CHECK(bench.step({.stale = true}).verdict == LockEvent::StaleFrame);
}

TEST_CASE(
    "a stage that dies while the observer holds the lock is held, and resumed when it follows") {
  Shaken bench(learning());
  bench.learn();
  const Vec2 stood_nm = bench.supervisor.controller().total_nm();
  bench.obeys = false;
  // It stands where it was: what is told from here on is not carried out.
  const Vec2 there = bench.true_stage.at(bench.now_ns);
  const Vec2 image = bench.used.controller.image_to_stage.invert(there);
  bench.zero_nm = {bench.zero_nm.x - image.x, bench.zero_nm.y - image.y};
  int frames = 0;
  while (bench.state() == LockState::Locked && frames < 1000) {
    bench.step();
    ++frames;
  }
  CHECK(bench.state() == LockState::Holding);
  CHECK(bench.reason() == LockReason::StageNotFollowing);
  CHECK(frames < 250);
  const Vec2 total_nm = bench.supervisor.controller().total_nm();
  CHECK(std::hypot(total_nm.x - stood_nm.x, total_nm.y - stood_nm.y) < 30);
}

TEST_CASE("the law can be changed while it holds the lock") {
  Shaken bench(learning());
  bench.learn();
  const double usual_nm = bench.worst_nm(500);
  SupervisorSettings pi = learning();
  pi.controller.law = ControlLaw::Pi;
  bench.supervisor.change_settings(pi);
  CHECK(bench.worst_nm(500) > usual_nm);  // PI leaves more
  CHECK(bench.state() == LockState::Locked);
  bench.supervisor.change_settings(learning());
  bench.worst_nm(1000);
  CHECK(bench.supervisor.law().state().observer);
  CHECK(bench.worst_nm(500) < 1.3 * usual_nm);
}

/// What a lock may be held for, and what its frames are like for nine seconds: `bad` in a row that
/// are as `during`, then `good` ones, fewer than resume it.
struct Hold {
  const char* what;
  LockReason reason;
  int bad, good;
  test::Frame during = {};
  /// Called with each frame of that time, numbered from 0, and with the first one after it.
  void (*world)(Shaken&, int frame) = [](Shaken&, int) {};
  bool resumes = true;
};

constexpr int kHeldFrames = 4600;

const Hold kHolds[] = {
    {"stage_error", LockReason::StageError, 1, 0, {.stage = StageSays::Error}},
    {"stage_limit", LockReason::StageLimit, 1, 0, {.stage = StageSays::Limit}},
    {"stage_silent", LockReason::StageSilent, 1, 0, {.stage = StageSays::Silent}},
    {"corrections_not_sent", LockReason::CorrectionsNotSent, 5, 4, {.not_sent = true}},
    {"too_few_markers", LockReason::TooFewMarkers, 5, 4, {.not_sent = true, .valid = false}},
    {"stale_frame", LockReason::StaleFrame, 5, 4, {.stale = true}},
    {"no_frames",
     LockReason::NoFrames,
     1,
     0,
     {},
     [](Shaken& bench, int frame) {
       if (frame % 2000 == 0) bench.silence(500 * kMs);
     }},
    {"implausible_jump",
     LockReason::ImplausibleJump,
     1,
     0,
     {},
     [](Shaken& bench, int frame) {
       bench.away_nm = {frame < 500 ? 70.0 : 0.0, 0};
     }},
    {"stage_not_following",
     LockReason::StageNotFollowing,
     1,
     0,
     {},
     [](Shaken& bench, int frame) {
       if (frame == 0 || frame == kHeldFrames) bench.stick(frame == 0);
     }},
    {"range_exceeded",
     LockReason::RangeExceeded,
     1,
     0,
     {},
     [](Shaken& bench, int frame) {
       SupervisorSettings s = bench.used;
       s.controller.range_limit_nm = 60;
       if (frame == 0) bench.supervisor.change_settings(s);
     },
     false}};

TEST_CASE("what a lock leaves while it is held is not charged to the observer") {
  const std::size_t which = GENERATE(range(std::size_t{0}, std::size(kHolds)));
  const Hold& hold = kHolds[which];
  CAPTURE(hold.what);
  SupervisorSettings patient = learning();
  patient.lock.hold_timeout_ns = 60'000 * kMs;
  patient.max_drift_nm_per_s = 30;
  Shaken bench(patient);
  bench.learn();
  const std::uint32_t changes = bench.supervisor.law().state().changes;
  bool held = false;
  const auto go_on = [&](const test::Frame& what) {
    bench.step(what);
    held = held || (bench.state() == LockState::Holding && bench.reason() == hold.reason);
    REQUIRE(bench.supervisor.law().state().reason == LawReason::Configured);
    REQUIRE(bench.supervisor.law().state().changes == changes);
  };
  for (int i = 0; i < kHeldFrames; ++i) {
    hold.world(bench, i);
    go_on(i % (hold.bad + hold.good) < hold.bad ? hold.during : test::Frame{});
  }
  CHECK(held);
  hold.world(bench, kHeldFrames);
  for (int i = 0; i < 2500; ++i) go_on({});
  CHECK(bench.state() == (hold.resumes ? LockState::Locked : LockState::Holding));
}

TEST_CASE("a driver that keeps frames waiting now more, now less, is the same stage") {
  test::Feed feed(learning());
  for (int i = 0; i < 5; ++i) feed.frame();
  Supervisor& lock = feed.supervisor;
  lock.set_stage_waiting_us(5000);
  lock.law().offer(make_plan(lock.observer_wish()));
  REQUIRE(lock.law().state().observer);
  for (const double waiting_us : {5400.0, 4600.0, 5700.0}) {
    lock.set_stage_waiting_us(waiting_us);
    CHECK(lock.law().state().observer);
  }
  lock.set_stage_waiting_us(6000);  // it really is another
  CHECK(lock.law().state().reason == LawReason::NotReady);
  lock.law().offer(make_plan(lock.observer_wish()));
  REQUIRE(lock.law().state().observer);
  lock.set_stage_waiting_us(0);
  CHECK(lock.observer_wish().stage.delay_us == feed.used.controller.stage_delay_us);
}

TEST_CASE("another rate limit takes nothing of what was learnt") {
  Shaken bench(learning());
  bench.learn();
  const double usual_nm = bench.worst_nm(500);
  const std::uint32_t epoch = bench.supervisor.law().observer().epoch();
  const std::uint32_t changes = bench.supervisor.law().state().changes;
  SupervisorSettings slower = learning();
  slower.controller.rate_limit_nm_per_s /= 2;
  bench.supervisor.change_settings(slower);
  CHECK(bench.worst_nm(500) < 1.3 * usual_nm);
  const Observer& observer = bench.supervisor.law().observer();
  CHECK(observer.is_tuned(0));
  CHECK(observer.is_tuned(1));
  CHECK(observer.epoch() == epoch);
  CHECK(observer.settings().change_limit_nm ==
        Approx(1e-9 * static_cast<double>(bench.every_ns) * slower.controller.rate_limit_nm_per_s));
  CHECK(bench.supervisor.law().state().changes == changes);
}

}  // namespace
}  // namespace driftd::control
