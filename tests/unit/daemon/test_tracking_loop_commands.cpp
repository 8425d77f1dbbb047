// SPDX-License-Identifier: MIT
// What the tracking loop does with its commands: lock and unlock, new markers, moved ROIs, reloads.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::Bench;
using driftd::daemon::test::kFar;
using driftd::daemon::test::kFarPx;
using driftd::daemon::test::scripted_ns;
using driftd::daemon::test::ScriptedCamera;

namespace {

/// Locked, then far away, with the ROIs moved after half of the frames there.
LoopReport jump_and_move(Bench& bench, control::Vec2 displacement_px = kFarPx) {
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(20, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, displacement_px);
  bench.frames(20, kFar);
  return bench.run();
}

}  // namespace

TEST_CASE("ROIs moved to where the markers are: the drift is how far they went") {
  Bench bench;
  const LoopReport report = jump_and_move(bench);
  const auto positions = bench.of("position");
  for (std::size_t i = 30; i < 50; ++i) REQUIRE(positions[i]["valid"] == false);
  for (std::size_t i = 50; i < 70; ++i) {
    REQUIRE(positions[i]["markers_used"] == 5);
    REQUIRE(positions[i]["x_nm"].get<double>() == Approx(900).margin(0.5));
    REQUIRE(positions[i]["y_nm"].get<double>() == Approx(-1100).margin(0.5));
  }
  // lock.max_jump_nm is 50: nothing of it is corrected.
  REQUIRE(report.lock.state == LockState::Holding);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE(
    "a jump that lock.max_jump_nm allows is corrected after the ROIs moved, in limited steps") {
  Bench bench;
  bench.config.lock.max_jump_nm = 2000;
  const LoopReport report = jump_and_move(bench);
  INFO(control::name_of(report.lock.reason) << " " << control::name_of(report.stage));
  REQUIRE(report.lock.state == LockState::Locked);
  double before = 0;
  int after_the_move = 0;
  for (const auto& c : bench.of("correction")) {
    const auto total = c["total_x_nm"].get<double>();
    REQUIRE(std::abs(total) <= 60);
    REQUIRE(std::abs(total - before) <= 5 + 1e-3);
    REQUIRE((c["frame_id"].get<int>() <= 30 || c["frame_id"].get<int>() > 50));
    after_the_move += c["frame_id"].get<int>() > 50 ? 1 : 0;
    before = total;
  }
  REQUIRE(after_the_move >= 10);
  REQUIRE(before <= -50);  // against +900 nm, up to the range limit
}

TEST_CASE("ROIs of markers that came back by themselves stay") {
  Bench bench;
  bench.frames(20);
  bench.frames(5, {.markers_shown = false});
  bench.frames(5);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(20);
  bench.run();
  const auto positions = bench.of("position");
  for (std::size_t i = 25; i < positions.size(); ++i) REQUIRE(positions[i]["markers_used"] == 5);
}

TEST_CASE("a reference begun before the jump starts over at the new place") {
  Bench bench;
  bench.config.lock.reference_frames = 40;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(10, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(60, kFar);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() >= 10);
  for (const auto& c : corrections) {
    REQUIRE(c["frame_id"].get<int>() >= 80);  // 40 + 40 frames of the new reference
    REQUIRE(std::abs(c["total_x_nm"].get<double>()) < 2);
  }
}

TEST_CASE("unlocked in mid-flight, the loop goes idle before the next frame") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(10, {.drift_nm = {3, 0}});
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Idle);
  for (const auto& c : bench.of("correction")) REQUIRE(c["frame_id"].get<int>() <= 30);
}

TEST_CASE("the travel counts every lock, also before one that was unlocked in its reference") {
  Bench bench;
  bench.config.control.travel_limit_nm = 50;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  for (int i = 0; i < 400; ++i) bench.frames(1, {.drift_nm = {-0.1 * i, 0}});  // travels 40 nm
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(5, {.drift_nm = {-40, 0}});
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(4, {.drift_nm = {-40, 0}});
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(5, {.drift_nm = {-40, 0}});
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30, {.drift_nm = {-40, 0}});
  for (int i = 0; i < 300; ++i) bench.frames(1, {.drift_nm = {-40 - 0.1 * i, 0}});
  bench.run();
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.back()["lock_id"] == 3);
  // 10 nm are left of the travel.
  REQUIRE(corrections.back()["total_x_nm"].get<double>() == Approx(10).margin(1));
  REQUIRE(corrections.back()["limited"][0] == "range");
}

TEST_CASE("the commands taken are counted, and a lock's state is told with the one before") {
  Bench bench;
  bench.frames(3);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(20);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.command_here(LoopCommand::Kind::Reset);
  bench.frames(2);
  const LoopReport report = bench.run();
  CHECK(report.commands_taken == 4);  // the first markers, too
  CHECK(report.lock_id == 1);
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].previous == LockState::Idle);
  CHECK(changes[0].state == LockState::Referencing);
  CHECK(changes[0].frame_id == 3);
  CHECK(changes[1].previous == LockState::Referencing);
  CHECK(changes[1].state == LockState::Locked);
  CHECK(changes[1].frame_id == 13);  // ten frames of the reference
  CHECK(changes[2].previous == LockState::Locked);
  CHECK(changes[2].state == LockState::Idle);
  CHECK(changes[2].reason == control::LockReason::UnlockCommanded);
}

TEST_CASE("how many good frames a reference still takes is told") {
  for (const int frames : {3, 10}) {
    Bench bench;
    bench.frames(3);
    bench.command_here(LoopCommand::Kind::Lock);
    bench.frames(frames);
    const LoopReport report = bench.run();
    CAPTURE(frames);
    CHECK((report.lock.state == LockState::Locked) == (frames > 9));
    CHECK(report.reference_left == (frames > 9 ? 0 : 10 - frames));
  }
}

namespace {

/// The markers as listed by hand, so far off.
std::vector<control::Marker> listed_off(double x_px, double y_px) {
  auto markers = ScriptedCamera::markers();
  for (control::Marker& m : markers) {
    m.x_px += x_px;
    m.y_px += y_px;
  }
  return markers;
}

}  // namespace

TEST_CASE("new markers are measured from their own places, which is no jump") {
  Bench bench;
  bench.stage_obeys = false;
  bench.config.lock.bad_frames_to_hold = 2;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(20);
  bench.at_here([&] { bench.send_markers(listed_off(0.2, -0.8)); });
  bench.frames(10);  // 80 nm from the places listed; lock.max_jump_nm is 50
  const LoopReport report = bench.run();
  CHECK(report.lock.state == LockState::Locked);
  CHECK(report.drift.drift_nm.x == Approx(-20).margin(0.5));
  CHECK(report.drift.drift_nm.y == Approx(80).margin(0.5));
  std::unique_ptr<MarkerSet> retired;
  REQUIRE(bench.ports.retired_sets.pop(retired));
  CHECK(retired->estimator.markers()[0].x_px == ScriptedCamera::markers()[0].x_px);
  CHECK_FALSE(bench.ports.retired_sets.pop(retired));
}

TEST_CASE("new markers are gone since themselves, not since those before") {
  Bench bench;
  bench.frames(5);
  bench.frames(10, {.markers_shown = false});
  std::int64_t replaced_ns = 0;
  bench.at_here([&] {
    replaced_ns = scripted_ns;
    bench.send_markers(ScriptedCamera::markers());
  });
  bench.frames(7, {.markers_shown = false});
  const LoopReport report = bench.run();
  CHECK(report.markers_gone_since_ns == replaced_ns + 2'000'000);
}

TEST_CASE("fits start where those before ended, moved with their ROIs") {
  Bench bench;
  MarkersReport before;
  const auto note = [&] {
    bench.ports.markers.refresh();
    before = bench.ports.markers.reading();
  };
  bench.frames(5);
  bench.frames(1, {.drift_nm = {230, -310}});  // the ROIs follow: by 2 and -3 pixels
  bench.at_here(note);
  bench.frames(1, {.drift_nm = {230, -310}});
  bench.run();
  bench.ports.markers.refresh();
  const MarkersReport& after = bench.ports.markers.reading();
  for (std::size_t i = 0; i < 5; ++i) {
    const fitter::Start& start = bench.fitter->starts[i];
    const auto& was = before.entries[i];
    const auto& is = after.entries[i];
    REQUIRE(is.roi.x_px != was.roi.x_px);
    REQUIRE(is.roi.y_px != was.roi.y_px);
    REQUIRE(is.roi.x_px - was.roi.x_px != is.roi.y_px - was.roi.y_px);
    CHECK(start.x_px == Approx(was.observation.x_px - is.roi.x_px).margin(1e-4));
    CHECK(start.y_px == Approx(was.observation.y_px - is.roi.y_px).margin(1e-4));
    CHECK(start.sigma_x_px == Approx(was.observation.sigma_px));
    CHECK(start.sigma_y_px > 0);
  }
}

TEST_CASE("a fit that follows none, new markers or moved ROIs starts from an estimate of its own") {
  using Change = void (*)(Bench&);
  const Change none = [](Bench&) {};
  const Change replace = [](Bench& bench) { bench.send_markers(ScriptedCamera::markers()); };
  const Change move = [](Bench& bench) {
    LoopCommand command{.kind = LoopCommand::Kind::MoveRois};
    command.displacement_px = {0.5, -0.25};
    bench.ports.commands.push(std::move(command));
  };
  struct Case {
    Change change;
    int first_warm;  // of five
  };
  for (const Case& c : {Case{none, 3}, Case{replace, 5}, Case{move, 5}}) {
    Bench bench;
    bench.frames(5);
    bench.frames(5, {.hidden = 3});  // two are seen, and three are needed
    bench.at_here([&] { c.change(bench); });
    bench.frames(1);
    bench.run();
    for (int i = 0; i < 5; ++i)
      CHECK((bench.fitter->starts[static_cast<std::size_t>(i)].sigma_x_px > 0) ==
            (i >= c.first_warm));
  }
}

TEST_CASE("while moved ROIs hold no markers they stay where they were moved to") {
  Bench bench;
  bench.frames(20);
  bench.frames(10, kFar);
  bench.command_here(LoopCommand::Kind::MoveRois, kFarPx);
  bench.frames(5, {.markers_shown = false});
  bench.frames(3, kFar);
  const LoopReport report = bench.run();
  CHECK(report.drift.valid);
  CHECK(report.drift.markers_used == 5);
  CHECK(report.drift.drift_nm.x == Approx(900).margin(0.5));
}

TEST_CASE(
    "a reload gives loop and controller their new settings, and the old ones are given back") {
  Bench bench;
  bench.stage_obeys = false;
  bench.config.control.range_limit_nm = 500;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.at_here([&] {
    bench.config.control.step_limit_nm = 2;
    bench.config.lock.max_frame_age_ms = 20;
    bench.reload();
  });
  bench.frames(10, {.drift_nm = {-40, 30}});
  bench.frames(2, {.late_ns = 25'000'000});
  const LoopReport report = bench.run();
  CHECK(report.stale == 2);
  int in_full_steps = 0;
  for (const auto& c : bench.of("correction")) {
    if (c["frame_id"].get<int>() <= 30) continue;
    CHECK(c["delta_x_nm"].get<double>() == Approx(2));
    CHECK(c["delta_y_nm"].get<double>() == Approx(2));
    ++in_full_steps;
  }
  CHECK(in_full_steps == 10);
  std::unique_ptr<LoopSettings> retired;
  REQUIRE(bench.ports.retired_settings.pop(retired));
}

TEST_CASE("the observer is told of other limits at once") {
  Bench bench;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(200);
  double before_nm = 0, after_nm = 0;
  const auto wished_nm = [&] {
    bench.ports.observer.wish.refresh();
    return bench.ports.observer.wish.reading().change_limit_nm;
  };
  bench.at_here([&] {
    before_nm = wished_nm();
    bench.config.control.step_limit_nm = 2;
    bench.reload();
  });
  bench.frames(5);
  bench.at_here([&] { after_nm = wished_nm(); });
  bench.frames(1);
  bench.run();
  CHECK(before_nm == Approx(5));
  CHECK(after_nm == Approx(2));
}

TEST_CASE("a new lock's travel counts what was sent, not what was computed and withheld") {
  Bench bench;
  bench.config.control.travel_limit_nm = 50;
  bench.config.control.step_limit_nm = 20;
  bench.config.stage.delay_us = bench.config.stage.time_constant_us = 0;
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  for (int i = 1; i <= 300; ++i) bench.frames(1, {.drift_nm = {-0.1 * i, 0}});
  bench.frames(20, {.drift_nm = {-30, 0}});
  bench.at_here([&] { bench.publisher.gate().close(); });
  bench.frames(1, {.drift_nm = {-42, 0}});  // a correction of some 12 nm is withheld
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30, {.drift_nm = {-42, 0}});
  for (int i = 1; i <= 400; ++i) bench.frames(1, {.drift_nm = {-42 - 0.1 * i, 0}});
  bench.run();
  const auto corrections = bench.of("correction");
  CHECK(corrections.back()["lock_id"] == 2);
  CHECK(corrections.back()["limited"][0] == "range");
  // 30 nm were travelled: 20 are left.
  CHECK(corrections.back()["total_x_nm"].get<double>() == Approx(20).margin(0.5));
}
