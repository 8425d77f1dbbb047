// SPDX-License-Identifier: MIT
// The sweep of z, frame by frame: it goes to each place, measures there once the stage has settled,
// and takes the stage back to its start, whatever ends it.
#include "daemon/loop/sweep_run.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "control/axial/calibration/sweep_course.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockEvent;

namespace {

constexpr std::int64_t kPeriodNs = 10'000'000;

class Bench {
 public:
  explicit Bench(double gain = 1, double step_limit_nm = 20)
      : run(control::SweepPlan({.range_nm = 60,
                                .step_nm = 20,
                                .check_nm = 50,
                                .frames_per_place = 2,
                                .settle_s = 0.05}),
            2, {.stage_gain = gain, .by_spot = false, .bad_frames_to_end = 5}),
        limit_nm_(step_limit_nm) {
    for (auto& marker : markers) {
      marker.fitted = true;
      marker.sigma_x_px = marker.sigma_y_px = 1.3F;
      marker.sigma_x_sd_px = marker.sigma_y_sd_px = 0.01F;
      marker.amplitude_adu = 100;
    }
  }

  struct Frame {
    LockEvent verdict = LockEvent::FewMarkers;  // z itself is not measured
    bool stale = false;
    control::StageSays stage = control::StageSays::Nothing;
  };
  /// A frame taken when the last one was decided upon.
  void frame(const Frame& f) {
    FrameSight sight;
    sight.taken_ns = now_ns;
    sight.markers = markers;
    sight.marker_set = marker_set;
    now_ns += kPeriodNs;
    const double wanted_nm = run.wanted_nm(now_ns).x;
    if (!f.stale) run.look(sight);
    control::FrameFacts facts;
    facts.now_ns = now_ns;
    facts.stale = f.stale;
    facts.stage = f.stage;
    control::Decision decision;
    decision.verdict = f.verdict;
    decision.has_correction = !f.stale;
    total_nm += std::clamp(wanted_nm - total_nm, -limit_nm_, limit_nm_);
    decision.correction.total_nm = {total_nm, 0};
    run.saw(facts, decision);
    reached_nm.push_back(total_nm);
  }
  void frame() { frame({}); }
  void frames(int count) {
    for (int i = 0; i < count; ++i) frame();
  }
  /// Until it is over. @returns frames
  int play() {
    int count = 0;
    for (; !run.over() && count < 10'000; ++count) frame();
    return count;
  }

  std::vector<control::MarkerObservation> markers{2};
  std::uint64_t marker_set = 1;
  std::int64_t now_ns = 1'000'000'000;
  double total_nm = 0;
  std::vector<double> reached_nm;
  SweepRun run;

 private:
  double limit_nm_;
};

}  // namespace

TEST_CASE("a sweep measures each of its places, and ends where it began") {
  const double gain = GENERATE(1.0, -0.5);
  Bench bench(gain);
  bench.play();
  CHECK(bench.run.end() == CalibrationEnd::Complete);
  CHECK(bench.total_nm == 0);
  CHECK(bench.run.progress() == 1);
  const auto& plan = bench.run.record().plan();
  for (std::size_t p = 0; p < plan.places().size(); ++p)
    CHECK(bench.run.record().visit(p).frames == plan.places()[p].frames);
  const auto [low, high] = std::minmax_element(bench.reached_nm.begin(), bench.reached_nm.end());
  CHECK(*high == Approx(std::abs(gain) * plan.farthest_nm()));
  CHECK(*low == Approx(-std::abs(gain) * plan.farthest_nm()));
}

TEST_CASE("frames count from when the stage has settled after its last move") {
  Bench bench(1, 5);  // the way takes several frames
  bench.play();
  // 0.05 s after the last of them, and a frame is taken when the one before was decided upon.
  const auto& record = bench.run.record();
  double before_s = 0;
  for (std::size_t p = 0; p < record.plan().places().size(); ++p) {
    const auto& place = record.plan().places()[p];
    if (!place.is_measured()) continue;
    const double here_s = record.visit(p).seconds / record.visit(p).frames;
    CHECK(here_s - before_s >= 0.05);
    before_s = here_s;
  }
}

TEST_CASE("what never left is told again, and the place is measured after that") {
  Bench bench;
  bench.frames(12);
  const std::size_t at = bench.run.places_done();
  bench.run.take_back({0, 0}, bench.now_ns - 5 * kPeriodNs);
  bench.total_nm = 0;
  bench.frames(3);
  CHECK(bench.run.places_done() == at);
  bench.play();
  CHECK(bench.run.end() == CalibrationEnd::Complete);
}

TEST_CASE("what is seen at the start again is compared with what was seen there at first") {
  Bench bench;
  const bool is_back = GENERATE(true, false);
  bench.frames(60);
  bench.run.stop(CalibrationEnd::Stopped);
  if (!is_back)
    for (auto& marker : bench.markers) marker.sigma_x_px = 1.4F;
  bench.play();
  const auto seen = control::start_again(bench.run.record());
  REQUIRE(seen);
  CHECK(seen->looks_the_same() == is_back);
  if (!is_back) CHECK(seen->off_px == Approx(0.1).margin(1e-3));
}

TEST_CASE("where nothing is seen at the start again, nothing is known of it") {
  Bench bench;
  bench.frames(60);
  for (auto& marker : bench.markers) marker.fitted = false;
  bench.play();
  CHECK_FALSE(control::start_again(bench.run.record()));
}

TEST_CASE("whatever ends a sweep, its stage goes back to its start") {
  Bench bench;
  bench.frames(60);
  REQUIRE(std::abs(bench.total_nm) > 0);
  SECTION("a command") {
    bench.run.stop(CalibrationEnd::Stopped);
    CHECK(bench.run.phase() == CalibrationPhase::Returning);
  }
  SECTION("no light") {
    for (auto& marker : bench.markers) marker.fitted = false;
    bench.frames(4);
    CHECK(bench.run.phase() == CalibrationPhase::Moving);
    bench.frame();
    CHECK(bench.run.end() == CalibrationEnd::MarkersLost);
  }
  SECTION("frames that come too old") {
    for (int i = 0; i < 5; ++i) bench.frame({.verdict = LockEvent::StaleFrame, .stale = true});
    CHECK(bench.run.end() == CalibrationEnd::TooOld);
  }
  SECTION("the driver") {
    bench.frame({.stage = control::StageSays::Silent});
    CHECK(bench.run.end() == CalibrationEnd::StageReports);
  }
  SECTION("other markers") {
    bench.marker_set = 2;
    bench.frame();
    CHECK(bench.run.end() == CalibrationEnd::MarkersChanged);
  }
  bench.play();
  CHECK(bench.run.over());
  CHECK(bench.total_nm == 0);
}

TEST_CASE("single bad frames do not end a sweep") {
  Bench bench;
  for (int i = 0; i < 40; ++i) {
    bench.frame({.verdict = LockEvent::StaleFrame, .stale = true});
    bench.frame();
  }
  CHECK(bench.run.phase() == CalibrationPhase::Moving);
}
