// SPDX-License-Identifier: MIT
// Commands that run away smoothly, which no frame by itself tells from a sample that moves as
// smoothly, and samples that really do.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "control/stage/stage_monitor.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

/// A sample that vibrates, seen with noise. (Of one that does not the monitor expects no smooth
/// motion at all, and finds each at once.)
struct World {
  explicit World(std::size_t count = 2, double rate_hz = 500)
      : axes(count), period_s(1 / rate_hz), monitor(count) {}
  double y(double value) const { return axes > 1 ? value : 0; }
  /// The stage is at the command; the sample's own place is `own_nm`.
  StageVerdict see(Vec2 own_nm) {
    time_ns += std::llround(1e9 * period_s);
    const Vec2 shaken_nm = vibration_nm();
    seen_nm = {own_nm.x + shaken_nm.x + stage_nm.x + noise_nm * normal(random),
               y(own_nm.y + shaken_nm.y + stage_nm.y + noise_nm * normal(random))};
    const double nm2 = noise_nm * noise_nm;
    verdict = monitor.update({.moved_nm = seen_nm,
                              .covariance_nm2 = {nm2, 0, y(nm2)},
                              .modelled_nm = {command_nm.x, y(command_nm.y)},
                              .taken_ns = time_ns});
    monitor.prepare();
    return verdict;
  }
  Vec2 vibration_nm() const {
    const double phase = 2e-9 * std::numbers::pi * static_cast<double>(time_ns);
    return {2.0 * std::sin(2.1 * phase) + std::sin(17.3 * phase) + std::sin(29.7 * phase),
            1.5 * std::sin(1.7 * phase) + std::cos(19.1 * phase) + std::cos(27.3 * phase)};
  }
  void command(Vec2 to_nm, double gain = 1) {
    stage_nm.x += gain * (to_nm.x - command_nm.x);
    stage_nm.y += gain * (to_nm.y - command_nm.y);
    command_nm = to_nm;
  }
  void rest(double seconds) {
    for (double s = 0; s < seconds; s += period_s) see({});
  }
  /// Obeyed at random, until the stage is believed again.
  void resume(Vec2 own_nm) {
    const Vec2 at_nm = command_nm;
    for (int i = 0; i < 2000 && !verdict.follows; ++i) {
      command({at_nm.x + 4 * normal(random), at_nm.y + 4 * normal(random)});
      see(own_nm);
    }
    REQUIRE(verdict.follows);
  }

  std::size_t axes;
  double period_s, noise_nm = 0.4;
  StageMonitor monitor;
  StageVerdict verdict;
  Vec2 command_nm, stage_nm, seen_nm;
  std::int64_t time_ns = 1'000'000'000;
  std::mt19937 random{3};
  std::normal_distribution<double> normal;
};

/// From rest with 150 nm/s^2, as an integrator that nothing answers. @returns how far it went, nm
template <typename Before = void (*)()>
double run_away(
    World& world, double gain, Before before_frame = [] {}) {
  for (double s = 0; s < 2; s += world.period_s) {
    const double far_nm = 75 * s * s;
    world.command({far_nm, -0.5 * far_nm}, gain);
    before_frame();
    if (!world.see({}).follows) return far_nm;
  }
  return 1e9;
}

TEST_CASE("a command that runs away smoothly while the sample lies still is found") {
  for (const std::size_t axes : {1U, 2U})
    for (const double rate_hz : {100.0, 500.0}) {
      CAPTURE(axes, rate_hz);
      World world(axes, rate_hz);
      world.rest(4);
      CHECK(run_away(world, 0) < 30);
      CHECK(world.verdict.looks == StageLooks::Stuck);
      CHECK(world.verdict.anchor_nm.x < 15);
    }
}

TEST_CASE("a stage that runs the other way is found before it was 15 nm off") {
  World world;
  world.rest(4);
  CHECK(run_away(world, -1) < 15);
  CHECK(world.verdict.looks == StageLooks::Reversed);
}

TEST_CASE("a stage that was just found out and turns round is found within frames") {
  World world(2, 200);
  world.rest(4);
  world.monitor.reassure();  // which triples what an alarm takes
  world.rest(0.3);
  double far_nm = 0;
  while (world.verdict.follows && far_nm < 100) {
    far_nm += 6;
    world.command({0, far_nm}, -1);
    world.see({});
  }
  CHECK(far_nm <= 30);
  CHECK(world.verdict.looks == StageLooks::Reversed);
}

/// After four seconds of rest each frame a fifth of what was seen of the sample is taken back.
/// @returns alarms
template <typename Own>
int alarms_of(World& world, double seconds, Own own) {
  int alarms = 0;
  for (double s = -4; s < seconds; s += world.period_s) {
    const Vec2 own_nm = own(s);
    if (s > 0)
      world.command(
          {world.command_nm.x - 0.2 * world.seen_nm.x, world.command_nm.y - 0.2 * world.seen_nm.y});
    if (world.see(own_nm).follows) continue;
    ++alarms;
    world.resume(own_nm);
  }
  return alarms;
}

TEST_CASE("a sample that drifts, or settles by a micrometre, has a stage that follows") {
  for (const std::size_t axes : {1U, 2U}) {
    CAPTURE(axes);
    World drifts(axes), settles(axes), begins(axes);
    CHECK(alarms_of(drifts, 30, [](double s) { return Vec2{10 * s, -8 * s}; }) == 0);
    CHECK(alarms_of(settles, 60, [](double s) {
            return Vec2{1000 * std::exp(-s / 30), 500 * std::exp(-s / 30)};
          }) == 0);
    CHECK(alarms_of(begins, 20, [](double s) { return Vec2{10 * std::max(0.0, s - 5), 0}; }) == 0);
  }
}

TEST_CASE("a vibration that was seen at rest is far, and no run") {
  World world;
  CHECK(alarms_of(world, 20, [](double s) {
          const double phase = 2 * std::numbers::pi * s;
          return Vec2{20 * std::sin(0.5 * phase), 15 * std::cos(0.4 * phase)};
        }) == 0);
}

TEST_CASE("a sample that was moved and is brought back is no run") {
  struct Case {
    double far_nm, seconds;   ///< moved so far in this time
    double waits_s, step_nm;  ///< and brought back, by so much a frame
  };
  for (const Case& c : {Case{200, 0.001, 0, 2}, Case{200, 0.001, 0, 20}, Case{60, 0.4, 0.1, 1},
                        Case{60, 0.4, -0.4, 0.02}}) {
    CAPTURE(c.far_nm, c.step_nm);
    World world;
    world.rest(4);
    for (double s = 0; s < 2; s += world.period_s) {
      if (s > c.seconds + c.waits_s)
        world.command({std::max(-c.far_nm, world.command_nm.x - c.step_nm), 0});
      REQUIRE(world.see({c.far_nm * std::min(1.0, s / c.seconds), 0}).follows);
    }
  }
}

TEST_CASE("no run is seen before the sample's own motion is known") {
  World world;
  CHECK(run_away(world, 0) > 200);
}

TEST_CASE("a sample that really runs is held a few times, and learnt") {
  World world;
  const int alarms = alarms_of(world, 40, [](double s) { return Vec2{120 * std::max(0.0, s), 0}; });
  CHECK(alarms >= 1);  // no sample is expected to
  CHECK(alarms <= 6);
}

TEST_CASE("no run is measured across a place that is not compared, but beside a late command") {
  const auto far_nm = [](void (StageMonitor::*skip)() noexcept, int every) {
    World world;
    world.rest(4);
    int frame = 0;
    return run_away(world, 0, [&] {
      if (++frame % every == 0) (world.monitor.*skip)();
    });
  };
  CHECK(far_nm(&StageMonitor::skip_move, 30) > 40);
  CHECK(far_nm(&StageMonitor::skip_frame, 9) < 30);
}

}  // namespace
}  // namespace driftd::control
