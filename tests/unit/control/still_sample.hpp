// SPDX-License-Identifier: MIT
// What the tests of the stage monitor's rules watch with it: a sample that rests, seen without
// noise, on a stage that follows or does not. The axes have unequal deviations.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "control/stage/stage_monitor.hpp"
#include "support/catch.hpp"

namespace driftd::control::test {

constexpr double kAlarm = StageMonitor::kAlarm, kTrust = StageMonitor::kTrust;
/// Variance of the measurement: more than the monitor assumes of the sample at its start.
constexpr Vec2 kCoarse{3, 5};
/// Less than that: what is learned of the sample decides.
constexpr Vec2 kFine{0.01, 0.02};

/// The surprise c of docs/internals/stage-monitor.md of an innovation of so many deviations.
inline double surprise(double deviations) {
  return 2 * std::log(1 + deviations * deviations / 4);
}

/// A sample that rests, seen without noise; it has been seen for `frames` frames.
struct Still {
  explicit Still(int frames = 100, Vec2 sd = kCoarse) : sd_nm(sd) { rest(frames); }
  /// The sample and the modelled stage move by so many coarse deviations.
  StageVerdict move(Vec2 sample, Vec2 stage) {
    place_nm = {place_nm.x + kCoarse.x * sample.x, place_nm.y + kCoarse.y * sample.y};
    modelled_nm = {modelled_nm.x + kCoarse.x * stage.x, modelled_nm.y + kCoarse.y * stage.y};
    time_ns += period_ns;
    return verdict = monitor.update(sample_now());
  }
  ObservedFrame sample_now() const {
    return {.moved_nm = place_nm,
            .covariance_nm2 = {sd_nm.x * sd_nm.x, 0, sd_nm.y * sd_nm.y},
            .modelled_nm = modelled_nm,
            .taken_ns = time_ns};
  }
  StageVerdict rest(int frames = 1) {
    for (int i = 0; i < frames; ++i) move({}, {});
    return verdict;
  }
  /// Commands that are obeyed, along each axis in turn, to and fro.
  StageVerdict follow(int frames, double size = 4) {
    for (int i = 0; i < frames; ++i) {
      const double to = i % 4 < 2 ? size : -size;
      const Vec2 both = i % 2 == 0 ? Vec2{to, 0} : Vec2{0, to};
      move(both, both);
    }
    return verdict;
  }
  /// A command at random that a stage that is stuck does not obey. (One that repeats itself is
  /// learned as the sample's own motion.)
  StageVerdict stick(Vec2 size) {
    return move({}, {size.x * normal(random), size.y * normal(random)});
  }
  StageVerdict stick(double size) { return stick({size, size}); }
  /// Until there is an alarm.
  void stick_until_alarm(double size) {
    for (int i = 0; i < 1000 && verdict.follows; ++i) stick(size);
    REQUIRE_FALSE(verdict.follows);
  }
  /// Alarmed by a stuck stage until there is so much doubt, then at rest until nothing echoes.
  void alarm(double doubt = kAlarm) {
    for (int i = 0; i < 1000 && (verdict.follows || verdict.doubt < doubt); ++i) stick(2);
    REQUIRE_FALSE(verdict.follows);
    rest(60);
  }
  /// The stage follows again, and is seen to.
  void resume() {
    for (int i = 0; i < 100 && !verdict.follows; ++i) follow(1 + i % 4);
    REQUIRE(verdict.follows);
  }

  StageMonitor monitor;
  Vec2 sd_nm;
  StageVerdict verdict;
  Vec2 place_nm{70, -20}, modelled_nm{-30, 90};
  std::int64_t time_ns = 9'000'000'000, period_ns = 0;
  std::mt19937 random{11};
  std::normal_distribution<double> normal;
};

inline void check_same(Vec2 a, Vec2 b) {
  CHECK(a.x == b.x);
  CHECK(a.y == b.y);
}

}  // namespace driftd::control::test
