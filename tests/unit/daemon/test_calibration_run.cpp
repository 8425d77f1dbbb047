// SPDX-License-Identifier: MIT
// What a calibration records, when it ends and how it comes back, frame by frame without a loop.
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "daemon/loop/calibration_run.hpp"
#include "support/catch.hpp"

namespace driftd::daemon {
namespace {

using control::LockEvent;

constexpr std::int64_t kPeriod_ns = 2'000'000;

/// Normal deviates, the same for a seed.
class Normal {
 public:
  explicit Normal(unsigned seed) : engine_(seed) {}
  double operator()() { return distribution_(engine_); }

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> distribution_;
};

struct Frame {
  LockEvent verdict = LockEvent::GoodFrame;
  double total_nm = 0;  ///< that the stage is told
  double moved_nm = 0;  ///< by the sample
  bool valid = true, stale = false;
  control::StageSays stage = control::StageSays::Nothing;
  std::uint8_t limited = control::kLimitNone;
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
    decision.correction.limited = frame.limited;
    control::FrameFacts facts;
    facts.now_ns = facts.taken_ns = now_ns;
    facts.stale = frame.stale;
    facts.drift = &drift;
    facts.stage = frame.stage;
    run.saw(facts, decision);
  }
  void frames(int count, const Frame& like) {
    for (int i = 0; i < count; ++i) frame(like);
  }
  bool is_under_way() const {
    return run.phase() == CalibrationPhase::Quiet || run.phase() == CalibrationPhase::Moving;
  }

  static control::Decision moves() {
    control::Decision decision;
    decision.verdict = LockEvent::GoodFrame;
    decision.has_correction = true;
    return decision;
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

TEST_CASE("a calibration ends for what its stage and its time say") {
  Bench bench;
  bench.frames(10, {.stage = control::StageSays::Ready});
  CHECK(bench.is_under_way());
  SECTION("its driver reports trouble") {
    const auto says =
        GENERATE(control::StageSays::Error, control::StageSays::Limit, control::StageSays::Silent);
    bench.frame({.stage = says});
    CHECK(bench.run.end() == CalibrationEnd::StageReports);
    CHECK(bench.run.stage_says() == says);
  }
  SECTION("the range's end, not a step's") {
    bench.frame({.limited = control::kLimitStep});
    CHECK(bench.is_under_way());
    bench.frame({.limited = control::kLimitRange});
    CHECK(bench.run.end() == CalibrationEnd::NoRoom);
  }
  SECTION("more frames than the camera promised") {
    const std::size_t room = bench.run.record().moves.capacity();
    for (std::size_t i = 10; i < room; ++i) bench.run.saw({.now_ns = bench.now_ns}, Bench::moves());
    CHECK(bench.is_under_way());
    bench.run.saw({.now_ns = bench.now_ns}, Bench::moves());
    CHECK(bench.run.end() == CalibrationEnd::TooManyFrames);
    CHECK(bench.run.record().moves.size() == room);
  }
  SECTION("its time is over") {
    bench.now_ns += control::StageExcitation{}.duration_ns() - 12 * kPeriod_ns;
    bench.frame({});
    CHECK(bench.is_under_way());
    bench.frames(2, {});
    CHECK(bench.run.end() == CalibrationEnd::Complete);
  }
  CHECK(bench.run.phase() == CalibrationPhase::Returning);
  const control::Vec2 wanted_nm = bench.run.wanted_nm(bench.now_ns);
  CHECK(wanted_nm.x == 0);
  CHECK(wanted_nm.y == 0);
}

TEST_CASE("a calibration that is abandoned is over at once, for its first reason") {
  Bench bench;
  bench.frames(10, {});
  const bool stopped = GENERATE(false, true);
  if (stopped) bench.run.stop(CalibrationEnd::Stopped);
  bench.run.abandon(CalibrationEnd::Unlocked);
  CHECK(bench.run.over());
  bench.run.abandon(CalibrationEnd::Fault);
  CHECK(bench.run.end() == (stopped ? CalibrationEnd::Stopped : CalibrationEnd::Unlocked));
}

TEST_CASE("moves that never left are no part of a calibration's record") {
  Bench bench;
  bench.frames(5, {.total_nm = 1});
  const std::int64_t left_ns = bench.now_ns;
  bench.frames(3, {.total_nm = 2});
  bench.run.take_back({0, 1}, left_ns);
  REQUIRE(bench.run.record().moves.size() == 5);
  CHECK(bench.run.record().moves.back().sent_ns == left_ns);
}

TEST_CASE("moves that left late or never, and frames that are missing, are counted") {
  Bench bench;
  CHECK(bench.run.strain().late_share == 0);
  CHECK(bench.run.strain().lost_share == 0);
  for (int i = 0; i < 20; ++i) bench.frame({.total_nm = 1.0 * i});
  CHECK(bench.run.strain().late_share == 0);
  CHECK(bench.run.strain().lost_share < 1e-9);
  bench.run.left_at(bench.now_ns);  // in time
  CHECK(bench.run.strain().late_share == 0);
  bench.run.left_at(bench.now_ns + 1'700'000);
  CHECK(bench.run.record().moves.back().sent_ns == bench.now_ns + 1'700'000);
  bench.frame({.total_nm = 7});
  bench.run.take_back({6, 0}, bench.now_ns - 1);  // the second of them never left
  CHECK(bench.run.strain().late_share == Approx(2.0 / 20));
  CHECK(bench.run.strain().longest_s == Approx(0.0017));
  bench.now_ns += 9 * kPeriod_ns;  // frames that did not come
  bench.frame({.stale = true});
  CHECK(bench.run.strain().lost_share == Approx(10.0 / 31));
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
    bench.run.saw_markers({&result, 1}, {});
  };
  see(control::MarkerHealth::Good, 0);
  see(control::MarkerHealth::FitFailed, 500);
  see(control::MarkerHealth::Good, 100);
  CHECK(std::isnan(bench.run.marker_noise_nm(0)));
  see(control::MarkerHealth::Good, 102);
  CHECK(bench.run.marker_noise_nm(0) == Approx(1.0));  // a difference of 2 in one of two axes
}

TEST_CASE(
    "how far markers differ in what they show of a motion tells how far their mean may be wrong") {
  // Ten markers on pixels of their own, whose gains turn and stretch what each shows; a drift, and
  // noise of 1 nm, which alone would look like 0.0005 each.
  constexpr int kMarkers = 10, kFrames = 4000;
  constexpr double kElementSd = 0.004;
  Normal normal(GENERATE(1U, 2U, 3U));
  double mean_square = 0;
  constexpr int kRuns = 20;
  for (int n = 0; n < kRuns; ++n) {
    Bench bench;
    std::vector<std::array<double, 4>> gains(kMarkers);
    for (auto& gain : gains)
      for (double& element : gain) element = kElementSd * normal();
    std::vector<control::MarkerResult> results(kMarkers);
    for (int frame = 0; frame < kFrames; ++frame) {
      const double x_nm = 60 * std::sin(0.011 * frame) + 0.01 * frame;
      const double y_nm = 80 * std::cos(0.017 * frame) - 0.02 * frame;
      control::Vec2 mean_nm;
      std::vector<control::Vec2> shown;
      for (const auto& g : gains) {
        shown.push_back({x_nm + g[0] * x_nm + g[1] * y_nm + normal(),
                         y_nm + g[2] * x_nm + g[3] * y_nm + normal()});
        mean_nm = {mean_nm.x + shown.back().x / kMarkers, mean_nm.y + shown.back().y / kMarkers};
      }
      for (int i = 0; i < kMarkers; ++i)
        results[static_cast<std::size_t>(i)] = {
            .health = control::MarkerHealth::Good,
            .displacement_nm = shown[static_cast<std::size_t>(i)],
            .residual_nm = {shown[static_cast<std::size_t>(i)].x - mean_nm.x,
                            shown[static_cast<std::size_t>(i)].y - mean_nm.y}};
      control::DriftEstimate drift;
      drift.valid = true;
      drift.frame_drift_nm = mean_nm;
      drift.markers_used = kMarkers;
      bench.run.saw_markers(results, drift);
    }
    mean_square += std::pow(bench.run.image_gain_sd(), 2) / kRuns;
  }
  CHECK(std::sqrt(mean_square) == Approx(kElementSd / std::sqrt(kMarkers)).epsilon(0.1));
}

TEST_CASE("noise alone is no difference between markers, and two of them tell none") {
  Normal normal(5);
  for (const int count : {2, 12}) {
    Bench bench;
    std::vector<control::MarkerResult> results(static_cast<std::size_t>(count));
    control::DriftEstimate drift;
    drift.valid = true;
    drift.markers_used = count;
    for (int frame = 0; frame < 4000; ++frame) {
      drift.frame_drift_nm = {60 * std::sin(0.011 * frame), 80 * std::cos(0.017 * frame)};
      for (auto& result : results)
        result = {
            .health = control::MarkerHealth::Good,
            .displacement_nm = {},
            .residual_nm = {normal() + (count == 2 ? 0.01 * drift.frame_drift_nm.x : 0), normal()}};
      bench.run.saw_markers(results, drift);
    }
    INFO(count);
    CHECK(bench.run.image_gain_sd() < (count == 2 ? 1e-12 : 5e-5));
  }
}

}  // namespace driftd::daemon
