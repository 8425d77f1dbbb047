// SPDX-License-Identifier: MIT
// The supervisor with the law that learns: what it coasts through, and that a stage that does not
// follow is held as it is with PI.
#include <cmath>
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
    sample_nm = {20 * t_s + 1.5 * std::sin(angle), -8 * t_s + 1.5 * std::cos(angle)};
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
  std::int64_t began_ns = 0;
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

}  // namespace
}  // namespace driftd::control
