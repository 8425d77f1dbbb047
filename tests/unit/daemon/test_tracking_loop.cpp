// SPDX-License-Identifier: MIT
// The tracking loop between a scripted camera and a real fitter, estimator, controller and
// publisher.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::Bench;
using driftd::daemon::test::kFar;
using driftd::daemon::test::kFarPx;
using driftd::daemon::test::scripted_ns;

TEST_CASE("unlocked, every frame's drift is published and no correction leaves") {
  Bench bench;
  bench.frames(20);
  bench.frames(20, {.drift_nm = {12, -7}});
  const LoopReport report = bench.run();
  REQUIRE(report.fitted == 40);
  REQUIRE(bench.of("correction").empty());
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 40);
  REQUIRE(positions[10]["x_nm"].get<double>() == Approx(0).margin(0.5));
  REQUIRE(positions[35]["x_nm"].get<double>() == Approx(12).margin(0.5));
  REQUIRE(positions[35]["y_nm"].get<double>() == Approx(-7).margin(0.5));
  REQUIRE(positions[35]["markers_used"] == 5);
}

TEST_CASE("locked, corrections counter the drift along the stage's axes within the step limit") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(15, {.drift_nm = {30, 0}});  // the reference is here, wherever it began
  bench.frames(300, {.drift_nm = {42, -9}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() > 50);
  for (const auto& c : corrections) {
    REQUIRE(std::abs(c["delta_x_nm"].get<double>()) <= 5);
    REQUIRE(std::abs(c["delta_y_nm"].get<double>()) <= 5);
  }
  // Against +12 nm in x, and against -9 nm in y through the mirrored stage axis.
  REQUIRE(corrections.back()["total_x_nm"].get<double>() == Approx(-12).margin(0.3));
  REQUIRE(corrections.back()["total_y_nm"].get<double>() == Approx(-9).margin(0.3));
}

TEST_CASE("no correction leaves for a stale frame, and the lock holds after some") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(10, {.late_ns = 200'000'000});
  const LoopReport report = bench.run();
  REQUIRE(report.stale == 10);
  REQUIRE(report.lock.state == LockState::Holding);
  REQUIRE(report.lock.at_first == control::LockReason::StaleFrame);
  REQUIRE(bench.of("position").size() == 30);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE(
    "hidden markers: the lock holds without corrections, then resumes on the same reference") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(20, {.markers_shown = false});
  bench.frames(20, {.drift_nm = {3, -4}});
  bench.run();
  std::vector<LockState> states;
  for (const auto& change : bench.changes()) states.push_back(change.state);
  REQUIRE(states == std::vector<LockState>{LockState::Referencing, LockState::Locked,
                                           LockState::Holding, LockState::Locked});
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 70);
  for (std::size_t i = 30; i < 50; ++i) {
    REQUIRE(positions[i]["valid"] == false);
    REQUIRE(positions[i]["x_nm"].is_null());
  }
  // The first frame with markers again shows the move, the last ones that it was corrected.
  REQUIRE(positions[50]["x_nm"].get<double>() == Approx(3).margin(0.5));
  REQUIRE(positions[50]["y_nm"].get<double>() == Approx(-4).margin(0.5));
  REQUIRE(std::abs(positions.back()["x_nm"].get<double>()) < 1.5);
  for (const auto& c : bench.of("correction")) {
    const auto frame = c["frame_id"].get<std::size_t>();
    REQUIRE((frame <= 30 || frame > 50));
  }
}

TEST_CASE("the camera away: the lock holds at once and resumes") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(5, {.status = camera::PopStatus::Disconnected});
  bench.frames(20);
  const LoopReport report = bench.run();
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 4);
  REQUIRE(changes[2].state == LockState::Holding);
  REQUIRE(changes[2].reason == control::LockReason::NoFrames);
  REQUIRE(report.lock.state == LockState::Locked);
}

TEST_CASE("an implausible jump is not followed") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(30, {.drift_nm = {150, 0}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Holding);
  REQUIRE(report.lock.reason == control::LockReason::ImplausibleJump);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE("since when the markers are gone is told until they are back") {
  for (const int back : {0, 1}) {
    Bench bench;
    bench.frames(10);
    bench.frames(10, {.markers_shown = false});
    bench.frames(back);
    const std::int64_t begin_ns = scripted_ns;
    const LoopReport report = bench.run();
    if (back == 1) {
      REQUIRE(report.markers_gone_since_ns == 0);
    } else {
      REQUIRE(report.markers_gone_since_ns > begin_ns);
      REQUIRE(report.markers_gone_since_ns < report.time_ns);
    }
  }
}

TEST_CASE("a drift beyond the range: corrections stay at the limit, then the lock holds") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  for (int i = 0; i < 650; ++i) bench.frames(1, {.drift_nm = {0.1, 0.1 * i}});  // 50 nm/s
  const LoopReport report = bench.run();
  const auto corrections = bench.of("correction");
  for (const auto& c : corrections) REQUIRE(std::abs(c["total_y_nm"].get<double>()) <= 60);
  REQUIRE(corrections.back()["total_y_nm"].get<double>() == Approx(60));
  REQUIRE(corrections.back()["limited"][0] == "range");
  REQUIRE((report.limited & control::kLimitRange) != 0);
}

TEST_CASE("a stage that does not obey is not driven to its range limit") {
  Bench bench;
  bench.stage_obeys = false;
  bench.rest_moves_to_lock = 64;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(80);
  bench.frames(400, {.drift_nm = {4, -7}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Holding);
  REQUIRE(report.lock.reason == control::LockReason::StageNotFollowing);
  REQUIRE(report.stage == control::StageLooks::Stuck);
  bool probed = false;
  for (const auto& c : bench.of("correction")) {
    REQUIRE(std::abs(c["total_x_nm"].get<double>()) < 50);
    REQUIRE(std::abs(c["total_y_nm"].get<double>()) < 50);
    if (!c["probe"].get<bool>()) continue;
    probed = true;
  }
  REQUIRE(probed);
}

TEST_CASE("a jump in the first frame of a lock is not followed") {
  int first_locked = 0;
  {
    Bench bench;
    bench.command_here(LoopCommand::Kind::Lock);
    bench.frames(30);
    bench.run();
    for (const LockChange& change : bench.changes()) {
      if (change.state == LockState::Locked) first_locked = static_cast<int>(change.frame_id);
    }
    REQUIRE(first_locked > 0);
  }
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(first_locked);
  bench.frames(40, {.drift_nm = {80, 0}});  // config.lock.max_jump_nm is 50
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Holding);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= first_locked);
}

TEST_CASE("a GPU that fails while locked costs no frame and no lock") {
  Bench bench;
  bench.gpu_fails_at = 40;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(60, {.drift_nm = {4, 1}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  REQUIRE(report.fitter_error == std::string("device lost"));
  REQUIRE(std::string(report.fitter).starts_with("cpu"));
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 90);
  for (const auto& p : positions) REQUIRE(p["markers_used"] == 5);
  REQUIRE(std::abs(positions.back()["x_nm"].get<double>()) < 1);
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.back()["frame_id"] == 90);
}

TEST_CASE("the loop's thread neither allocates nor frees, locked, disturbed or without frames") {
  if (!driftd::test::can_watch()) {
    std::cout << "SKIPPED: the sanitizer owns the allocator\n";
    return;
  }
  Bench bench;
  bench.gpu_fails_at = 60;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(10);
  bench.camera.watch_after = 10;
  bench.frames(40, {.drift_nm = {4, 1}});
  bench.frames(5, {.status = camera::PopStatus::Timeout});
  bench.frames(5, {.status = camera::PopStatus::Disconnected});
  bench.frames(20, {.markers_shown = false});
  bench.frames(5, {.late_ns = 200'000'000});
  bench.frames(30, {.drift_nm = {4, 1}});
  bench.frames(10, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(10, kFar);
  const LoopReport report = bench.run();
  REQUIRE(report.drift.valid);  // at the new place: the ROIs were moved
  REQUIRE(driftd::test::watched_allocations() == 0);
}
