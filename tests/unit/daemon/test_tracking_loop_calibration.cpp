// SPDX-License-Identifier: MIT
// Calibrating in the tracking loop: the stage is moved as the excitation asks, within the limits,
// what is recorded is what left and what was seen, and whatever ends it, the stage goes back to its
// start. And what the stage's driver says, as the loop takes it.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/loop/calibration_run.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockReason;
using control::LockState;
using control::StageSays;
using control::Vec2;
using driftd::daemon::test::Bench;
using Kind = LoopCommand::Kind;

namespace {

constexpr double kExcursionNm = 30;
constexpr int kFramesOfRun = 2500;  // 5 s
constexpr int kFramesAfterwards = 170;

/// Its stage has a delay, axes of its own, and obeys what really left.
struct CalibrationBench : Bench {
  CalibrationBench() {
    config.stage.image_to_stage = {{{0, -1.25}, {0.8, 0}}};
    config.stage.delay_us = 3000;
    config.stage.time_constant_us = 1000;
    config.control.range_limit_nm = 400;
    config.control.rate_limit_nm_per_s = 2000;
    config.control.step_limit_nm = 20;
    config.lock.max_frame_age_ms = 50;
    frames(20);
  }
  void calibrate_here(double most_moved = 6) {
    at_here([this, most_moved] {
      const control::StageExcitation excitation(
          {.excursion_nm = kExcursionNm, .seconds = 5, .frame_period_ns = camera.period_ns});
      LoopCommand command{.kind = Kind::Calibrate};
      command.calibration = std::make_unique<CalibrationRun>(
          excitation, CalibrationSettings{.excursion_nm = kExcursionNm,
                                          .most_moved = most_moved,
                                          .most_drift_nm_per_s = 10,
                                          .bad_frames_to_end = 10,
                                          .exposure_ns = 1'000'000,
                                          .frame_period_ns = camera.period_ns});
      command.lock_id = ++lock_id;
      publisher.gate().open(lock_id);
      ports.commands.push(std::move(command));
    });
  }
  std::unique_ptr<CalibrationRun> given_back() {
    std::unique_ptr<StageRun> run;
    ports.retired_calibrations.pop(run);
    return std::unique_ptr<CalibrationRun>(static_cast<CalibrationRun*>(run.release()));
  }
  std::vector<Vec2> totals() const {
    std::vector<Vec2> totals;
    for (const auto& c : of("correction"))
      totals.push_back({c["total_x_nm"].get<double>(), c["total_y_nm"].get<double>()});
    return totals;
  }
};

double largest(const std::vector<Vec2>& places) {
  double most = 0;
  for (const Vec2 p : places) most = std::max({most, std::abs(p.x), std::abs(p.y)});
  return most;
}

}  // namespace

TEST_CASE("a calibration moves the stage as it may, records what left, and goes back") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(kFramesOfRun + kFramesAfterwards);
  bench.camera.watch_after = 40;
  const std::uint64_t allocated = driftd::test::watched_allocations();
  const LoopReport report = bench.run();
  CHECK(driftd::test::watched_allocations() == allocated);
  CHECK(report.lock.state == LockState::Idle);
  CHECK(report.lock.reason == LockReason::CalibrationOver);
  CHECK(report.calibration == CalibrationPhase::Over);
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::Complete);
  CHECK(run->left_at_nm().x == 0);
  CHECK(run->left_at_nm().y == 0);

  const auto corrections = bench.of("correction");
  const auto totals = bench.totals();
  const auto& record = run->record();
  REQUIRE(corrections.size() == record.moves.size());
  Vec2 before;
  for (std::size_t i = 0; i < corrections.size(); ++i) {
    const Vec2 total = totals[i];
    CHECK(corrections[i]["probe"] == true);
    CHECK(corrections[i]["lock_id"] == 1);
    REQUIRE(std::abs(total.x - record.moves[i].total_nm.x) < 1e-3);
    REQUIRE(std::abs(total.y - record.moves[i].total_nm.y) < 1e-3);
    // 2000 nm/s, a frame each 2 ms.
    REQUIRE(std::max(std::abs(total.x - before.x), std::abs(total.y - before.y)) < 4.001);
    before = total;
  }
  CHECK(largest(totals) <= kExcursionNm + 1e-3);
  CHECK(largest(totals) > 0.9 * kExcursionNm);
  CHECK(record.samples.size() >= kFramesOfRun);
  CHECK(record.exposure_ns == 1'000'000);
  // The image moves by M^-1 of what the stage does: x by y / 0.8, y by -x / 1.25.
  Vec2 most;
  for (const auto& s : record.samples)
    most = {std::max(most.x, std::abs(s.moved_nm.x)), std::max(most.y, std::abs(s.moved_nm.y))};
  CHECK(most.x > 0.8 * kExcursionNm / 0.8);
  CHECK(most.x < 1.05 * kExcursionNm / 0.8);
  CHECK(most.y < 1.05 * kExcursionNm / 1.25);
  const Vec2 last = record.samples.back().moved_nm;
  CHECK(std::hypot(last.x, last.y) < 0.5);
  CHECK(run->marker_noise_nm(0) < 1);
  CHECK(std::isnan(run->marker_noise_nm(5)));
}

TEST_CASE("whatever ends a calibration, the stage goes back to its start") {
  struct Case {
    const char* name;
    std::function<void(CalibrationBench&)> happens;
    CalibrationEnd end;
  };
  const std::vector<Case> cases = {
      {"stopped", [](CalibrationBench& b) { b.command_here(Kind::StopCalibration); },
       CalibrationEnd::Stopped},
      {"markers lost", [](CalibrationBench& b) { b.frames(10, {.markers_shown = false}); },
       CalibrationEnd::MarkersLost},
      {"markers lost for good",
       [](CalibrationBench& b) { b.frames(2000, {.markers_shown = false}); },
       CalibrationEnd::MarkersLost},
      {"the sample pushed away",
       [](CalibrationBench& b) {
         b.frames(400, {.drift_nm = {320, 0}});
       },
       CalibrationEnd::MovedTooFar},
      {"the frames come too old",
       [](CalibrationBench& b) { b.frames(10, {.late_ns = 60'000'000}); }, CalibrationEnd::TooOld},
      {"the driver reports an error",
       [](CalibrationBench& b) { b.at_here([&b] { b.ports.stage_says = StageSays::Error; }); },
       CalibrationEnd::StageReports},
      {"no room",
       [](CalibrationBench& b) {
         b.at_here([&b] {
           b.config.control.range_limit_nm = 5;
           b.reload();
         });
       },
       CalibrationEnd::NoRoom}};
  for (const Case& c : cases) {
    CalibrationBench bench;
    bench.calibrate_here();
    bench.frames(1700);  // in the midst of the largest strokes
    c.happens(bench);
    bench.frames(400);
    const LoopReport report = bench.run();
    INFO(c.name);
    const auto run = bench.given_back();
    REQUIRE(run);
    CHECK(run->end() == c.end);
    CHECK(report.lock.state == LockState::Idle);
    CHECK(report.lock.reason == LockReason::CalibrationOver);
    const auto totals = bench.totals();
    REQUIRE_FALSE(totals.empty());
    CHECK(largest(totals) > 10);
    CHECK(totals.back().x == 0);
    CHECK(totals.back().y == 0);
  }
}

TEST_CASE("unlock ends a calibration at once, where the stage is") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(1700);
  bench.command_here(Kind::Unlock);
  bench.frames(300);
  const LoopReport report = bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::Unlocked);
  CHECK(report.lock.reason == LockReason::UnlockCommanded);
  CHECK(bench.totals().size() == 1700);
  CHECK(bench.totals().back().x == Approx(run->left_at_nm().x).margin(1e-3));
}

TEST_CASE(
    "without frames a calibration is given up after two seconds, and says where the stage is") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(1700);
  bench.frames(600, {.status = camera::PopStatus::Timeout});
  bench.frames(20);
  const LoopReport report = bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::NoFrames);
  CHECK(report.lock.state == LockState::Idle);
  CHECK(bench.totals().back().x == Approx(run->left_at_nm().x).margin(1e-3));
}

TEST_CASE("a correction that did not leave is not in the record of a calibration") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(1500);
  bench.frames(1, {.fit_ns = 60'000'000});  // too late to leave
  bench.frames(kFramesOfRun - 1500 + kFramesAfterwards);
  bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::Complete);
  CHECK(bench.publisher.expired() > 0);
  const auto totals = bench.totals();
  REQUIRE(totals.size() == run->record().moves.size());
  for (std::size_t i = 0; i < totals.size(); ++i)
    REQUIRE(std::abs(totals[i].x - run->record().moves[i].total_nm.x) < 1e-3);
}

TEST_CASE("a lock is not calibrated, and its run comes back") {
  CalibrationBench bench;
  bench.command_here(Kind::Lock);
  bench.frames(30);
  bench.calibrate_here();
  bench.frames(50);
  bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->record().moves.empty());
}

TEST_CASE("after a calibration a lock holds as ever, and its travel counts from the same place") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(kFramesOfRun + kFramesAfterwards);
  bench.command_here(Kind::Lock);
  bench.frames(20);
  bench.frames(400, {.drift_nm = {8, -4}});
  const LoopReport report = bench.run();
  CHECK(report.lock.state == LockState::Locked);
  CHECK(std::abs(report.drift.drift_nm.x) < 0.2);
  CHECK(std::abs(report.drift.drift_nm.y) < 0.2);
}

TEST_CASE("a lock is held for what the stage's driver says, and goes on when it is ready again") {
  const std::pair<StageSays, LockReason> reasons[] = {{StageSays::Error, LockReason::StageError},
                                                      {StageSays::Limit, LockReason::StageLimit},
                                                      {StageSays::Silent, LockReason::StageSilent}};
  for (const auto& [says, reason] : reasons) {
    CalibrationBench bench;
    bench.command_here(Kind::Lock);
    bench.frames(40);
    bench.at_here([&bench, says = says] { bench.ports.stage_says = says; });
    bench.frames(100, {.drift_nm = {3, 0}});
    bench.at_here([&bench] { bench.ports.stage_says = StageSays::Ready; });
    bench.frames(200, {.drift_nm = {3, 0}});
    const LoopReport report = bench.run();
    const auto changes = bench.changes();
    REQUIRE(changes.size() == 4);
    CHECK(changes[2].state == LockState::Holding);
    CHECK(changes[2].reason == reason);
    CHECK(changes[3].reason == LockReason::Recovered);
    CHECK(report.lock.state == LockState::Locked);
    CHECK(std::abs(report.drift.drift_nm.x) < 0.2);
    // None left from the frame on that found it out until the lock went on.
    std::uint64_t during = 0;
    for (const auto& c : bench.of("correction")) {
      const auto frame = c["frame_id"].get<std::uint64_t>();
      during += frame >= changes[2].frame_id && frame < changes[3].frame_id ? 1U : 0U;
    }
    CHECK(during == 0);
    CHECK(changes[3].frame_id - changes[2].frame_id ==
          100 + static_cast<std::uint64_t>(control::LockSettings{}.good_frames_to_resume) - 1);
  }
}

TEST_CASE("no lock is held for a stage of which nothing is said, or while it is only referencing") {
  for (const StageSays says : {StageSays::Nothing, StageSays::Ready}) {
    CalibrationBench bench;
    bench.ports.stage_says = says;
    bench.command_here(Kind::Lock);
    bench.frames(100);
    CHECK(bench.run().lock.state == LockState::Locked);
  }
  CalibrationBench bench;
  bench.ports.stage_says = StageSays::Error;
  bench.command_here(Kind::Lock);
  bench.frames(100);
  bench.run();
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 3);
  CHECK(changes[1].state == LockState::Locked);
  CHECK(changes[2].reason == LockReason::StageError);
  CHECK(changes[2].frame_id == changes[1].frame_id + 1);
}

TEST_CASE("the place that the stage reports is compared with the stage model's of that time") {
  CalibrationBench bench;
  bench.command_here(Kind::Lock);
  bench.frames(30);
  for (int i = 0; i < 300; ++i) {
    bench.frames(1, {.drift_nm = {0.01 * i, 0}});
    bench.at_here([&bench] {
      StageReadback& place = bench.ports.stage_place.writing();
      // Where it was told to be long enough ago for the model to be there, and 4 nm beside it in y.
      const Publisher::Sent sent = bench.publisher.last_sent(1);
      place = {driftd::daemon::test::scripted_time(), 1, {sent.total_nm.x, sent.total_nm.y + 4}};
      bench.ports.stage_place.publish();
    });
  }
  const LoopReport report = bench.run();
  CHECK(report.stage_off_nm == Approx(4).margin(0.2));
}

TEST_CASE("one wrong place is gone with the reports of a second") {
  StageOffset error;
  CHECK(std::isnan(error.rms_nm()));
  error.add({3, 4});
  CHECK(error.rms_nm() == Approx(5));
  error.add({0, 1e9});
  for (std::size_t i = 1; i < StageOffset::kReports; ++i) error.add({2, 0});
  CHECK(error.rms_nm() == Approx(1e9 / std::sqrt(20.0)));
  error.add({2, 0});
  CHECK(error.rms_nm() == Approx(2));
  error.forget();
  CHECK(std::isnan(error.rms_nm()));
  error.add({0, 7});
  CHECK(error.rms_nm() == Approx(7));
}

TEST_CASE("a place of another lock is not compared") {
  CalibrationBench bench;
  bench.command_here(Kind::Lock);
  bench.frames(30);
  bench.at_here([&bench] {
    bench.ports.stage_place.writing() = {driftd::daemon::test::scripted_time(), 1, {50, 0}};
    bench.ports.stage_place.publish();
  });
  bench.frames(30);
  bench.at_here([&bench] {
    bench.ports.stage_place.writing() = {driftd::daemon::test::scripted_time(), 9, {500, 0}};
    bench.ports.stage_place.publish();
  });
  bench.frames(30);
  CHECK(std::isnan(bench.run().stage_off_nm));
}

TEST_CASE("the way back takes the time that the limits make it take") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(1700);
  bench.at_here([&bench] {
    bench.config.control.rate_limit_nm_per_s = 2;
    bench.reload();
  });
  bench.command_here(Kind::StopCalibration);
  bench.frames(9000);  // 18 s
  const LoopReport report = bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::Stopped);
  CHECK(run->left_at_nm().x == 0);
  CHECK(run->left_at_nm().y == 0);
  CHECK(report.lock.state == LockState::Idle);
}

TEST_CASE("a sample that goes away while the stage rests was not moved by it") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(100);
  bench.frames(2, {.drift_nm = {90, 0}});  // a mistaken marker
  bench.frames(100);
  bench.frames(300, {.drift_nm = {90, 0}});
  bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::SampleMoved);
  CHECK(run->farthest_nm() == Approx(90).margin(2));
}

TEST_CASE("a camera that becomes faster ends a calibration before its record is cut") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(500);
  bench.at_here([&bench] { bench.camera.period_ns = 1'000'000; });
  bench.frames(4500);
  bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::TooManyFrames);
  CHECK(run->left_at_nm().x == 0);
}

TEST_CASE("a second calibration gives the first one back") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(100);
  bench.command_here(Kind::Unlock);
  bench.calibrate_here();
  bench.frames(100);
  bench.run();
  REQUIRE(bench.given_back());
}

TEST_CASE("a way back on which nothing leaves in time is given up, and told as it is") {
  CalibrationBench bench;
  bench.calibrate_here();
  bench.frames(1700);
  bench.command_here(Kind::StopCalibration);
  bench.frames(1, {.fit_ns = 1'000'000});
  // Every correction from here on is computed, and too old to leave when it could.
  bench.frames(400, {.fit_ns = 60'000'000});
  bench.frames(400);
  const LoopReport report = bench.run();
  const auto run = bench.given_back();
  REQUIRE(run);
  CHECK(run->end() == CalibrationEnd::NotBack);
  CHECK(std::hypot(run->left_at_nm().x, run->left_at_nm().y) > 1);
  CHECK(run->left_at_nm().x == Approx(bench.totals().back().x).margin(1e-3));
  CHECK(report.lock.state == LockState::Idle);
}
