// SPDX-License-Identifier: MIT
// The tracking loop with a sample on a stage that obeys, each axis and direction by itself; second
// locks, withheld corrections, a second camera. The stage's axes are turned, mirrored and scaled
// against the image's.
#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using control::Vec2;
using driftd::daemon::test::Bench;
using driftd::daemon::test::ScriptedCamera;

namespace {

constexpr Vec2 kDirections[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
constexpr double kA = 0.2, kB = -1.1, kC = -0.9, kD = 0.1;

Vec2 times(double factor, Vec2 v) {
  return {factor * v.x, factor * v.y};
}
Vec2 plus(Vec2 a, Vec2 b) {
  return {a.x + b.x, a.y + b.y};
}
/// What the stage is told against a drift of the image.
Vec2 against(Vec2 drift_nm) {
  return {-(kA * drift_nm.x + kB * drift_nm.y), -(kC * drift_nm.x + kD * drift_nm.y)};
}
double number(const nlohmann::json& message, const char* key) {
  return message[key].get<double>();
}

/// A stage without delay, its limits wide and unequal.
struct StageBench : Bench {
  StageBench() {
    config.stage.image_to_stage = {{{kA, kB}, {kC, kD}}};
    config.stage.delay_us = 0;
    config.stage.time_constant_us = 0;
    config.control.range_limit_nm = 400;
    config.control.travel_limit_nm = 900;
    config.control.step_limit_nm = 7;
    config.lock.max_jump_nm = 40;
    config.lock.bad_frames_to_hold = 4;
    config.lock.hold_timeout_s = 100;
    config.lock.reference_timeout_s = 30;
  }
  void lock_here() {
    command_here(LoopCommand::Kind::Lock);
    frames(15, at);
  }
  /// From where the sample is, in steps that are no jump.
  void drift(Vec2 by_nm, int frame_count) {
    const Vec2 from = at.drift_nm;
    for (int i = 1; i <= frame_count; ++i) {
      at.drift_nm = plus(from, times(static_cast<double>(i) / frame_count, by_nm));
      frames(1, at);
    }
  }
  Vec2 last_position() const {
    const nlohmann::json p = of("position").back();
    return {number(p, "x_nm"), number(p, "y_nm")};
  }
  Vec2 last_total() const {
    const nlohmann::json c = of("correction").back();
    return {number(c, "total_x_nm"), number(c, "total_y_nm")};
  }
  ScriptedCamera::Step at;  ///< the sample's present place
};

}  // namespace

TEST_CASE(
    "a drift along either axis and in either direction is corrected by what the matrix says") {
  for (const Vec2 d : kDirections) {
    INFO(d.x << ' ' << d.y);
    StageBench bench;
    bench.lock_here();
    bench.drift(times(20, d), 400);  // 25 nm/s
    bench.frames(40, bench.at);
    const LoopReport report = bench.run();
    REQUIRE(report.lock.state == LockState::Locked);
    CHECK(std::abs(bench.last_position().x) < 0.5);
    CHECK(std::abs(bench.last_position().y) < 0.5);
    const Vec2 expected = against(times(20, d));
    CHECK(bench.last_total().x == Approx(expected.x).margin(1));
    CHECK(bench.last_total().y == Approx(expected.y).margin(1));
    CHECK(report.total_nm.x == Approx(bench.last_total().x).margin(1e-3));
    CHECK(report.total_nm.y == Approx(bench.last_total().y).margin(1e-3));
    const nlohmann::json position = bench.of("position").back();
    CHECK(number(position, "x_sd_nm") > 0);
  }
}

TEST_CASE("a jump beyond the limit holds the lock, along either axis and in either direction") {
  for (const Vec2 d : kDirections) {
    INFO(d.x << ' ' << d.y);
    for (const double jump_nm : {37.0, 43.0}) {  // of 40
      StageBench bench;
      bench.lock_here();
      bench.at.drift_nm = times(jump_nm, d);
      bench.frames(30, bench.at);
      const LoopReport report = bench.run();
      CHECK(report.lock.state == (jump_nm < 40 ? LockState::Locked : LockState::Holding));
      if (jump_nm < 40) continue;
      CHECK(report.lock.reason == control::LockReason::ImplausibleJump);
      for (const auto& c : bench.of("correction")) CHECK(c["frame_id"].get<int>() <= 15);
    }
  }
}

TEST_CASE("a lock engages once the sample was seen for 64 moves without corrections") {
  struct Case {
    int idle, hidden_at;  // frames before the lock, and the one after it without markers
    std::uint64_t locked_at;
  };
  // 64 moves, the first frame and the last, in which the references change; from `lock` on, which
  // compares nothing with what was before, a first frame again. A frame without markers takes two
  // moves, for which another reference is taken.
  for (const Case& c : {Case{0, -1, 66}, Case{30, -1, 67}, Case{64, -1, 76}, Case{65, -1, 77},
                        Case{0, 40, 79}, Case{30, 10, 80}}) {
    INFO(c.idle << ' ' << c.hidden_at);
    StageBench bench;
    bench.rest_moves_to_lock = 64;
    bench.config.lock.reference_frames = 12;
    bench.frames(c.idle, bench.at);
    bench.command_here(LoopCommand::Kind::Lock);
    for (int i = 0; i < 90; ++i) bench.frames(1, {.markers_shown = i != c.hidden_at});
    const LoopReport report = bench.run();
    REQUIRE(report.lock.state == LockState::Locked);
    const auto changes = bench.changes();
    REQUIRE(changes.size() == 2);
    CHECK(changes[1].frame_id == c.locked_at);
  }
}

TEST_CASE("what is implausible does not reach the correction through the average") {
  for (const Vec2 d : kDirections) {
    INFO(d.x << ' ' << d.y);
    StageBench bench;
    bench.config.drift.average_frames = 50;
    bench.lock_here();
    bench.frames(60, bench.at);
    bench.at.drift_nm = times(200, d);
    bench.frames(30, bench.at);
    bench.at.drift_nm = {};
    bench.frames(100, bench.at);
    const LoopReport report = bench.run();
    CHECK(report.lock.state == LockState::Locked);
    CHECK(report.lock.reason == control::LockReason::Recovered);
    for (const auto& c : bench.of("correction")) {
      CHECK(std::abs(number(c, "total_x_nm")) < 0.5);
      CHECK(std::abs(number(c, "total_y_nm")) < 0.5);
    }
  }
}

TEST_CASE("an average does not reach back over stale frames") {
  for (const Vec2 d : kDirections) {
    INFO(d.x << ' ' << d.y);
    StageBench bench;
    bench.config.drift.average_frames = 50;
    bench.frames(60, bench.at);
    ScriptedCamera::Step late = bench.at;
    late.late_ns = 80'000'000;  // 50 ms are allowed
    bench.frames(1, late);
    bench.at.drift_nm = times(30, d);
    bench.frames(1, bench.at);
    const LoopReport report = bench.run();
    CHECK(report.stale == 1);
    CHECK(bench.last_position().x == Approx(30 * d.x).margin(0.1));
    CHECK(bench.last_position().y == Approx(30 * d.y).margin(0.1));
  }
}

TEST_CASE("a second lock after a large total begins at zero, with its own number") {
  StageBench bench;
  bench.lock_here();
  bench.drift({12, -25}, 500);
  bench.frames(30, bench.at);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.drift({-8, 5}, 100);
  Vec2 idle_nm{}, referencing_nm{};
  bench.at_here([&] { idle_nm = bench.newest_report().total_nm; });
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(4, bench.at);
  bench.at_here([&] { referencing_nm = bench.newest_report().total_nm; });
  bench.frames(11, bench.at);
  bench.drift({10, 6}, 200);
  bench.frames(30, bench.at);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  CHECK(report.lock_id == 2);
  bool first = true;
  double largest_nm = 0;
  for (const auto& c : bench.of("correction")) {
    const Vec2 total{number(c, "total_x_nm"), number(c, "total_y_nm")};
    if (c["lock_id"] == 1) {
      largest_nm = std::max(largest_nm, std::hypot(total.x, total.y));
      continue;
    }
    if (first) CHECK(std::hypot(total.x, total.y) < 2);
    first = false;
  }
  CHECK(largest_nm > 25);
  CHECK(std::hypot(idle_nm.x, idle_nm.y) == Approx(largest_nm).margin(3));
  CHECK(referencing_nm.x == 0);
  CHECK(referencing_nm.y == 0);
  CHECK_FALSE(first);
  const Vec2 expected = against({10, 6});
  CHECK(bench.last_total().x == Approx(expected.x).margin(1));
  CHECK(bench.last_total().y == Approx(expected.y).margin(1));
  CHECK(std::hypot(bench.last_position().x, bench.last_position().y) < 0.5);
}

/// Locked, some corrections leave, and then those of a larger drift do not.
void withhold_a_drift(StageBench& bench) {
  bench.lock_here();
  bench.drift({4, -6}, 20);
  bench.frames(10, bench.at);
  bench.at_here([&] { bench.publisher.gate().close(); });
  bench.drift({-20, 12}, 20);
}

TEST_CASE("what was withheld at an unlock is not told as the stage's place") {
  StageBench bench;
  withhold_a_drift(bench);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(3, bench.at);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Idle);
  const auto sent = bench.of("correction").back();
  CHECK(report.total_nm.x == Approx(number(sent, "total_x_nm")).margin(2e-4));
  CHECK(report.total_nm.y == Approx(number(sent, "total_y_nm")).margin(2e-4));
}

TEST_CASE("after corrections that were withheld the next one is a step from the last that left") {
  StageBench bench;
  withhold_a_drift(bench);  // more than one step away by then
  bench.frames(3, bench.at);
  bench.at_here([&] { bench.publisher.gate().open(bench.lock_id); });
  bench.frames(40, bench.at);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  CHECK(bench.publisher.refused() == 0);
  Vec2 before{};
  for (const auto& c : bench.of("correction")) {
    const Vec2 total{number(c, "total_x_nm"), number(c, "total_y_nm")};
    CHECK(std::abs(total.x - before.x) <= 7 + 1e-3);
    CHECK(std::abs(total.y - before.y) <= 7 + 1e-3);
    CHECK(number(c, "delta_x_nm") == Approx(total.x - before.x).margin(2e-4));
    CHECK(number(c, "delta_y_nm") == Approx(total.y - before.y).margin(2e-4));
    before = total;
  }
  CHECK(std::hypot(bench.last_position().x, bench.last_position().y) < 0.5);
}

TEST_CASE("the middle of the exposure counts: what was corrected since is not corrected again") {
  for (const Vec2 d : kDirections) {
    StageBench bench;
    bench.source.exposure_us = 16'000;
    bench.config.camera.readout_us = 5'000;
    bench.camera.exposed_before_ns = 13'000'000;
    bench.lock_here();
    bench.frames(200, bench.at);
    bench.drift(times(20, d), 1);
    bench.frames(600, bench.at);
    bench.run();
    double overshoot_nm = 0;
    for (const auto& p : bench.of("position")) {
      if (p["x_nm"].is_null()) continue;
      overshoot_nm = std::max(overshoot_nm, -(number(p, "x_nm") * d.x + number(p, "y_nm") * d.y));
    }
    CHECK(overshoot_nm < 2);
    CHECK(std::hypot(bench.last_position().x, bench.last_position().y) < 0.5);
  }
}

TEST_CASE("a correction expires by when its frame was due, not by when it was fitted") {
  // 50 ms are allowed. Popped late or not, then a slow fit.
  struct Case {
    std::int64_t late_ms, fit_ms;
    bool leaves;
  };
  for (const Case& c :
       {Case{0, 45, true}, Case{0, 55, false}, Case{30, 15, true}, Case{30, 25, false}}) {
    INFO(c.late_ms << ' ' << c.fit_ms);
    StageBench bench;
    bench.lock_here();
    bench.frames(20, bench.at);
    ScriptedCamera::Step late = bench.at;
    late.late_ns = c.late_ms * 1'000'000;
    late.fit_ns = c.fit_ms * 1'000'000;
    bench.frames(1, late);  // the 36th
    bench.frames(2, bench.at);
    bench.run();
    bool left = false;
    for (const auto& correction : bench.of("correction"))
      left = left || correction["frame_id"] == 36;
    CHECK(left == c.leaves);
    CHECK((bench.publisher.expired() > 0) == !c.leaves);
  }
}

TEST_CASE("after a disconnection the camera's clock is checked anew, without a step") {
  StageBench bench;
  bench.frames(1, bench.at);
  bench.frames(300, bench.at);  // 0.6 s: enough to trust a clock
  ClockTrust before = ClockTrust::Checking;
  bench.at_here([&] {
    bench.ports.report.refresh();
    before = bench.ports.report.reading().clock_trust;
  });
  bench.frames(2, {.status = camera::PopStatus::Disconnected});
  bench.frames(5, bench.at);
  const LoopReport report = bench.run();
  CHECK(before == ClockTrust::Trusted);
  CHECK(report.clock_trust == ClockTrust::Checking);
  CHECK(report.clock_steps == 0);
}

TEST_CASE("a marker that is hidden is found again where the others have taken it") {
  for (const Vec2 d : kDirections) {
    StageBench bench;
    bench.stage_obeys = false;
    bench.frames(20, bench.at);
    bench.at.hidden = 1;
    bench.drift(times(600, d), 100);  // 6 px: it would be at the ROI's rim
    bench.at.hidden = 0;
    bench.frames(3, bench.at);
    bench.run();
    CHECK(bench.of("position").back()["markers_used"] == 5);
    CHECK(bench.last_position().x == Approx(600 * d.x).margin(1));
    CHECK(bench.last_position().y == Approx(600 * d.y).margin(1));
  }
}

TEST_CASE("markers are reported where they are on the sensor, with the ROIs that were cut") {
  StageBench bench;
  bench.frames(10, bench.at);
  bench.drift({250, -180}, 40);  // the ROIs move
  bench.run();
  bench.ports.markers.refresh();
  const MarkersReport& report = bench.ports.markers.reading();
  REQUIRE(report.count == 5);
  const auto listed = ScriptedCamera::markers();
  for (std::size_t i = 0; i < 5; ++i) {
    const MarkersReport::Entry& e = report.entries[i];
    CHECK(e.observation.x_px == Approx(listed[i].x_px + 2.5).margin(0.05));
    CHECK(e.observation.y_px == Approx(listed[i].y_px - 1.8).margin(0.05));
    CHECK(std::abs(e.roi.x_px + 6 - e.observation.x_px) <= 1.5);
    CHECK(std::abs(e.roi.y_px + 6 - e.observation.y_px) <= 1.5);
    CHECK(e.observation.x_sd_px > 0);
  }
}

TEST_CASE("the rms of both axes is that of the drift, from a new zero at each reference") {
  StageBench bench;
  bench.stage_obeys = false;
  bench.config.camera.frame_rate_hz = 0;
  ScriptedCamera::Step a = bench.at, b = bench.at;
  a.drift_nm = {6, -20};
  b.drift_nm = {-6, 20};
  for (int i = 0; i < 300; ++i) bench.frames(1, i % 2 == 0 ? a : b);
  const LoopReport report = bench.run();
  CHECK(report.rms_x_nm > 0);
  CHECK(report.rms_y_nm / report.rms_x_nm == Approx(20.0 / 6).epsilon(0.1));
  CHECK(report.frame_rate_hz > 1);
}
