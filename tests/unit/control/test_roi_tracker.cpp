// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "control/drift/roi_tracker.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Markers that the tests move; references are where they began.
struct Field {
  std::vector<Marker> markers;
  std::vector<Vec2> reference_px;
  std::vector<MarkerObservation> observations;
  std::vector<MarkerResult> results;

  explicit Field(std::vector<Vec2> places) : reference_px(std::move(places)) {
    for (const Vec2& p : reference_px) {
      markers.push_back({.id = static_cast<unsigned>(markers.size() + 1),
                         .role = MarkerRole::Tracking,
                         .x_px = p.x,
                         .y_px = p.y});
      observations.push_back({.fitted = true, .inside_frame = true, .x_px = p.x, .y_px = p.y});
      results.push_back({.health = MarkerHealth::Good, .displacement_nm = {}, .residual_nm = {}});
    }
  }
  void displace(Vec2 d) {
    for (std::size_t i = 0; i < reference_px.size(); ++i) {
      observations[i].x_px = reference_px[i].x + d.x;
      observations[i].y_px = reference_px[i].y + d.y;
    }
  }
  void follow(RoiTracker& tracker, Vec2 d) {
    tracker.follow(observations, results, reference_px, d);
  }
};

TEST_CASE("a ROI is centred on its marker to half a pixel, odd and even sides") {
  for (const int roi_px : {9, 12, 13}) {
    Field field({{50.0, 60.49}, {50.51, 0.2}, {3.2, 200.9}});
    RoiTracker tracker(roi_px, 1);
    tracker.set_markers(field.markers);
    for (std::size_t i = 0; i < 3; ++i) {
      const double half = 0.5 * (roi_px - 1);
      CHECK(std::abs(tracker.origin(i).x_px + half - field.reference_px[i].x) <= 0.5);
      CHECK(std::abs(tracker.origin(i).y_px + half - field.reference_px[i].y) <= 0.5);
    }
  }
}

TEST_CASE("a marker that trembles within the hysteresis leaves its ROI where it is") {
  std::mt19937 random(1);
  Field field({{50.5, 60.5}});  // the worst place: between two centres
  // Between going over and coming back lies twice the hysteresis less one pixel. One too small to
  // make sense counts as 0.75 px, or the ROI would flip at every step.
  struct Case {
    double hysteresis_px, tremble_px;
  };
  for (const auto& [hysteresis_px, tremble_px] : {Case{1.0, 0.45}, Case{0.0, 0.2}}) {
    std::uniform_real_distribution<double> tremble(-tremble_px, tremble_px);
    RoiTracker tracker(13, hysteresis_px);
    tracker.set_markers(field.markers);
    int moves = 0;
    RoiOrigin before = tracker.origin(0);
    for (int i = 0; i < 1000; ++i) {
      const Vec2 d{tremble(random), tremble(random)};
      field.displace(d);
      field.follow(tracker, d);
      const RoiOrigin now = tracker.origin(0);
      if (now.x_px != before.x_px || now.y_px != before.y_px) ++moves;
      before = now;
    }
    CHECK(moves <= 2);  // once per axis at most, to the better centre
  }
}

TEST_CASE("a marker that drifts away is followed, never further off than the hysteresis") {
  Field field({{50, 60}, {120, 130}});
  RoiTracker tracker(13, 1);
  tracker.set_markers(field.markers);
  for (int i = 0; i < 3000; ++i) {
    const Vec2 d{0.01 * i, -0.013 * i};
    field.displace(d);
    field.follow(tracker, d);
    for (std::size_t m = 0; m < 2; ++m) {
      REQUIRE(std::abs(tracker.origin(m).x_px + 6 - field.observations[m].x_px) <= 1);
      REQUIRE(std::abs(tracker.origin(m).y_px + 6 - field.observations[m].y_px) <= 1);
    }
  }
}

TEST_CASE("a hidden marker's ROI goes along with the others and finds it again") {
  for (const MarkerHealth hidden :
       {MarkerHealth::FitFailed, MarkerHealth::Implausible, MarkerHealth::Outlier,
        MarkerHealth::OutsideFrame, MarkerHealth::Unreferenced}) {
    Field field({{50, 60}, {120, 130}});
    RoiTracker tracker(13, 1);
    tracker.set_markers(field.markers);
    field.results[0].health = hidden;
    Vec2 d;
    for (int i = 0; i < 1500; ++i) {
      d = {0.01 * i, 0.02 * i};
      field.displace(d);
      field.observations[0].x_px = 120;  // what was fitted in its ROI was something else
      field.observations[0].y_px = kNan;
      field.follow(tracker, d);
    }
    CHECK(std::abs(tracker.origin(0).x_px + 6 - (50 + d.x)) <= 1);
    CHECK(std::abs(tracker.origin(0).y_px + 6 - (60 + d.y)) <= 1);
  }
}

TEST_CASE("two markers side by side are never swapped, whatever is fitted while the field jumps") {
  // 14 px apart, the field jumps by exactly that: each ROI then shows the other's marker. The
  // estimator calls such fits outliers, and the ROIs stay with the common displacement.
  Field field({{50, 60}, {64, 60}, {150, 150}, {20, 180}});
  RoiTracker tracker(13, 1);
  tracker.set_markers(field.markers);
  for (int i = 0; i < 200; ++i) {
    const bool jumped = i % 7 == 3;
    field.displace({0, 0});
    if (jumped) {
      field.observations[0].x_px = 64;
      field.observations[1].x_px = 50;
    }
    for (std::size_t m = 0; m < 2; ++m)
      field.results[m].health = jumped ? MarkerHealth::Outlier : MarkerHealth::Good;
    field.follow(tracker, {0, 0});
    REQUIRE(tracker.origin(0).x_px == 44);
    REQUIRE(tracker.origin(1).x_px == 58);
  }
}

TEST_CASE("places that are no places leave the ROI alone") {
  Field field({{50, 60}});
  RoiTracker tracker(13, 1);
  tracker.set_markers(field.markers);
  const RoiOrigin before = tracker.origin(0);
  field.observations[0].x_px = kNan;
  field.observations[0].y_px = 75;
  field.follow(tracker, {0, 0});
  CHECK(tracker.origin(0).y_px == before.y_px);
  field.observations[0].x_px = 65;
  field.observations[0].y_px = kNan;
  field.follow(tracker, {0, 0});
  CHECK(tracker.origin(0).x_px == before.x_px);
  field.results[0].health = MarkerHealth::FitFailed;
  field.follow(tracker, {kNan, std::numeric_limits<double>::infinity()});
  CHECK(tracker.origin(0).x_px == before.x_px);
  CHECK(tracker.origin(0).y_px == before.y_px);
  field.follow(tracker, {1e300, 0});
  CHECK(tracker.origin(0).x_px > 0);  // far away, but a number
}

TEST_CASE(
    "moved all together, each ROI is centred on its marker's reference and the displacement") {
  Field field({{50.2, 60.9}, {150.7, 20.1}});
  RoiTracker tracker(13, 1);
  tracker.set_markers(field.markers);
  tracker.move_all(field.reference_px, {31.4, -17.8});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::abs(tracker.origin(i).x_px + 6 - (field.reference_px[i].x + 31.4)) <= 0.5);
    CHECK(std::abs(tracker.origin(i).y_px + 6 - (field.reference_px[i].y - 17.8)) <= 0.5);
  }
  const RoiOrigin before = tracker.origin(0);
  tracker.move_all(field.reference_px, {kNan, 0});
  CHECK(tracker.origin(0).x_px == before.x_px);
}

}  // namespace
}  // namespace driftd::control
