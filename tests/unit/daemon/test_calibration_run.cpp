// SPDX-License-Identifier: MIT
// What a calibration records, when it ends and how it comes back, frame by frame without a loop.
#include <cmath>
#include <vector>

#include "daemon/calibration_run.hpp"
#include "support/catch.hpp"

namespace driftd::daemon {
namespace {

using control::LockEvent;

constexpr std::int64_t kPeriod_ns = 2'000'000;

struct Frame {
  LockEvent verdict = LockEvent::GoodFrame;
  double total_nm = 0;  ///< that the stage is told
  double moved_nm = 0;  ///< by the sample
  bool valid = true, stale = false;
};

struct Bench {
  void frame(const Frame& frame) {
    now_ns += kPeriod_ns;
    run.wanted_nm(now_ns);
    control::DriftEstimate drift;
    drift.valid = frame.valid;
    drift.frame_drift_nm = {frame.moved_nm, 0};
    control::Decision decision;
    decision.verdict = frame.verdict;
    decision.has_correction = frame.verdict == LockEvent::GoodFrame;
    decision.correction.total_nm = {0, frame.total_nm};
    run.saw({.now_ns = now_ns, .taken_ns = now_ns, .stale = frame.stale, .drift = &drift},
            decision);
  }
  void frames(int count, const Frame& like) {
    for (int i = 0; i < count; ++i) frame(like);
  }
  bool is_under_way() const {
    return run.phase() == CalibrationPhase::Quiet || run.phase() == CalibrationPhase::Moving;
  }

  std::int64_t now_ns = 1'000'000'000;
  CalibrationRun run{control::StageExcitation{},
                     {.excursion_nm = 100,
                      .most_moved = 6,
                      .most_drift_nm_per_s = 10,
                      .bad_frames_to_end = 3,
                      .exposure_ns = 1'000'000,
                      .frame_period_ns = kPeriod_ns}};
};

}  // namespace

TEST_CASE("a calibration records what was measured, and nothing else") {
  Bench bench;
  bench.frame({.moved_nm = 1});
  bench.frame({.moved_nm = 2, .valid = false});
  bench.frame({.moved_nm = 3, .stale = true});
  bench.frame({.moved_nm = NAN});
  bench.frame({.moved_nm = 5});
  const auto& samples = bench.run.record().samples;
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].moved_nm.x == 1);
  CHECK(samples[1].moved_nm.x == 5);
}

TEST_CASE("bad frames end a calibration when they come in a row") {
  Bench bench;
  for (int i = 0; i < 4; ++i) {
    bench.frames(2, {.verdict = LockEvent::FewMarkers, .valid = false});
    bench.frame({});
  }
  CHECK(bench.is_under_way());
  bench.frames(3, {.verdict = LockEvent::FewMarkers, .valid = false});
  CHECK(bench.run.phase() == CalibrationPhase::Returning);
  CHECK(bench.run.end() == CalibrationEnd::MarkersLost);
}

TEST_CASE("five frames with the sample far away end a calibration, not one that is mistaken") {
  Bench bench;
  bench.frames(10, {});
  for (int i = 0; i < 3; ++i) {
    bench.frames(4, {.moved_nm = 5000});
    bench.frame({});
  }
  CHECK(bench.is_under_way());
  bench.frames(5, {.moved_nm = 400});
  CHECK_FALSE(bench.is_under_way());
  CHECK(bench.run.end() == CalibrationEnd::SampleMoved);  // the stage still rested
  CHECK(bench.run.farthest_nm() == Approx(5000));
}

TEST_CASE(
    "the way back of a calibration may take its time while the stage is told to come nearer") {
  Bench bench;
  bench.frames(10, {.total_nm = 40});
  bench.run.stop(CalibrationEnd::Stopped);
  SECTION("nearer by and by") {
    for (double total_nm = 40; total_nm > 0; total_nm -= 1)
      bench.frames(500, {.total_nm = total_nm});  // a second each
    CHECK_FALSE(bench.run.over());
    bench.frames(140, {});
    CHECK_FALSE(bench.run.over());  // it is watched for 0.3 s
    bench.frames(20, {});
    CHECK(bench.run.over());
    CHECK(bench.run.end() == CalibrationEnd::Stopped);
  }
  SECTION("no nearer for five seconds") {
    bench.frames(2400, {.total_nm = 40});
    CHECK_FALSE(bench.run.over());
    bench.frames(200, {.total_nm = 40});
    CHECK(bench.run.over());
    CHECK(bench.run.end() == CalibrationEnd::NotBack);
  }
  SECTION("at the start, and then not, as its last move did not leave") {
    bench.frames(100, {});
    bench.run.take_back({0, 40}, bench.now_ns - 1);
    bench.frames(100, {.verdict = LockEvent::NotSent});
    CHECK_FALSE(bench.run.over());
  }
}

TEST_CASE("a marker's noise in a calibration is of frames in a row that show it") {
  Bench bench;
  control::MarkerResult result;
  const auto see = [&](control::MarkerHealth health, double x_nm) {
    result.health = health;
    result.residual_nm = {x_nm, 0};
    bench.run.saw_markers({&result, 1});
  };
  see(control::MarkerHealth::Good, 0);
  see(control::MarkerHealth::FitFailed, 500);
  see(control::MarkerHealth::Good, 100);
  CHECK(std::isnan(bench.run.marker_noise_nm(0)));
  see(control::MarkerHealth::Good, 102);
  CHECK(bench.run.marker_noise_nm(0) == Approx(1.0));  // a difference of 2 in one of two axes
}

}  // namespace driftd::daemon
