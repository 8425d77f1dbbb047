// SPDX-License-Identifier: MIT
// What each marker is measured from: listed places, references, and references that come late.
#include <cmath>
#include <vector>

#include "unit/control/marker_field.hpp"

namespace driftd::control {
namespace {

using test::Field;
using test::health;
using test::kAmplitudeAdu;
using test::kFieldPixelNm;
using test::kSigmaPx;
using test::locked;
using test::pull_nm;
using test::rules;
using test::update;

TEST_CASE("the first frame corrects how each marker was listed, but for what all have in common") {
  Field field(5, 0, {0.5, 0.9});
  const Vec2 listing_nm[] = {{0, 0}, {9, -4}, {-7, 0}, {0, 6}, {3, 5}};
  const Vec2 common_nm{40, -25};
  field.move_all(common_nm);
  for (std::size_t i = 0; i < 5; ++i) field.move(i, listing_nm[i]);
  DriftEstimator estimator(rules());
  estimator.set_markers(field.markers);

  // Too few at first: that is tried again, and those that are seen are good.
  Field few = field;
  few.seen[2].fitted = few.seen[3].fitted = few.seen[4].inside_frame = false;
  const DriftEstimate& none = update(estimator, few);
  CHECK_FALSE(none.valid);
  CHECK(health(estimator, 0) == MarkerHealth::Good);
  CHECK(health(estimator, 4) == MarkerHealth::OutsideFrame);

  const DriftEstimate& e = update(estimator, field);
  REQUIRE(e.valid);
  REQUIRE(e.markers_used == 5);
  const Vec2 drift = e.drift_nm;
  CHECK(std::hypot(drift.x - common_nm.x, drift.y - common_nm.y) < 6);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(health(estimator, i) == MarkerHealth::Good);
    CHECK(estimator.results()[i].residual_nm.x == Approx(0).margin(1e-6));
    CHECK(estimator.results()[i].residual_nm.y == Approx(0).margin(1e-6));
    CHECK(estimator.reference_px()[i].x ==
          Approx(field.seen[i].x_px - drift.x / kFieldPixelNm).margin(1e-9));
    CHECK(estimator.reference_px()[i].y ==
          Approx(field.seen[i].y_px - drift.y / kFieldPixelNm).margin(1e-9));
  }
  field.move_all({-13, 8});
  const DriftEstimate& after = update(estimator, field);
  CHECK(after.drift_nm.x - drift.x == Approx(-13).margin(1e-6));
  CHECK(after.drift_nm.y - drift.y == Approx(8).margin(1e-6));
}

TEST_CASE("other markers begin anew, whatever those before them left behind") {
  Field field(4, 1, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(3, 4), 40);
  field.move_all({15, -30});
  field.move(0, {300, 0});
  update(estimator, field, 20);
  CHECK(health(estimator, 0) == MarkerHealth::Outlier);
  estimator.begin_reference(50);
  update(estimator, field, 10);
  REQUIRE(estimator.referencing());

  Field other(5, 2, {0.4, 0.7});
  for (std::size_t i = 0; i < other.seen.size(); ++i) {
    other.seen[i].amplitude_adu = 90;
    other.seen[i].sigma_px = 2.6F;
    other.move(i, {static_cast<double>(i % 3), -2.0 * static_cast<double>(i % 2)});
  }
  estimator.set_markers(other.markers);
  CHECK_FALSE(estimator.referencing());
  CHECK(estimator.update({}).drift_nm.x == 0);  // nothing of theirs is shown
  CHECK(estimator.update({}).drift_nm.y == 0);
  CHECK(estimator.update({}).markers_total == 5);
  Field hidden = other;
  hidden.seen[1].fitted = false;  // gets a reference of its own later
  const DriftEstimate& e = update(estimator, hidden);
  CHECK(e.valid);
  CHECK(e.frames_averaged == 1);
  CHECK(e.markers_used == 4);
  CHECK(std::hypot(e.drift_nm.x, e.drift_nm.y) < 3);
  for (const std::size_t i : {0U, 2U, 3U, 4U}) {
    CHECK(health(estimator, i) == MarkerHealth::Good);
    CHECK(estimator.results()[i].residual_nm.x == Approx(0).margin(1e-6));
  }
  // From as many frames as a marker needs before any reference was asked for.
  int frames = 0;
  while (frames < 100 && health(estimator, 1) != MarkerHealth::Good) {
    update(estimator, other);
    ++frames;
  }
  CHECK(frames == 17);
}

TEST_CASE("set anew without a frame between, markers do not go on with a half-made reference") {
  const Field field(4, 0, {0.5, 0.9});
  DriftEstimator estimator(rules(3, 4));
  estimator.set_markers(field.markers);
  update(estimator, field, 3);
  estimator.set_markers(field.markers);
  CHECK(update(estimator, field).frames_averaged == 1);
}

TEST_CASE("a second reference asks every marker anew, and forgets the first one's sums") {
  Field field(5, 0, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(), 20);
  field.move_all({60, -35});
  field.move(4, {0, 80});
  update(estimator, field, 30);
  REQUIRE(health(estimator, 4) == MarkerHealth::Outlier);
  estimator.begin_reference(20);
  const DriftEstimate during = update(estimator, field);
  CHECK(health(estimator, 4) == MarkerHealth::Good);
  CHECK(during.markers_used == 5);
  CHECK(during.drift_nm.x == Approx(60).margin(1e-6));
  CHECK(during.drift_nm.y == Approx(-35).margin(1e-6));
  const DriftEstimate after = update(estimator, field, 19);
  CHECK_FALSE(estimator.referencing());
  CHECK(after.drift_nm.x == Approx(0).margin(1e-6));
  CHECK(after.drift_nm.y == Approx(0).margin(1e-6));
  // One that is begun in the middle of another starts over.
  estimator.begin_reference(20);
  update(estimator, field, 10);
  field.move_all({-8, 14});
  estimator.begin_reference(20);
  const DriftEstimate last = update(estimator, field, 20);
  CHECK_FALSE(estimator.referencing());
  CHECK(last.drift_nm.x == Approx(0).margin(1e-6));
  CHECK(last.drift_nm.y == Approx(0).margin(1e-6));
}

TEST_CASE("a reference is gathered from frames with enough markers only, just enough included") {
  const Field field(4, 3, {0.5, 0.9});
  DriftEstimator estimator(rules(3));
  estimator.set_markers(field.markers);
  estimator.begin_reference(5);
  update(estimator, field);
  Field few = field;
  few.seen[0].fitted = few.seen[1].fitted = false;
  CHECK_FALSE(update(estimator, few, 20).valid);
  CHECK(estimator.referencing());
  Field enough = field;
  enough.seen[2].fitted = false;
  CHECK(update(estimator, enough, 3).valid);
  CHECK(estimator.referencing());
  update(estimator, enough);
  CHECK_FALSE(estimator.referencing());
}

TEST_CASE("a reference needs half of its frames of a marker, and follows the common drift") {
  Field field(7, 0, {0.5, 0.9});
  DriftEstimator estimator(rules());
  estimator.set_markers(field.markers);
  estimator.begin_reference(20);
  for (int i = 0; i < 20; ++i) {
    Field seen = field;
    seen.seen[0].fitted = i >= 10;  // just half
    seen.seen[1].fitted = i >= 11;
    if (i % 2 == 0) seen.move(2, {0, 40});  // unsteady along y
    estimator.update(seen.seen);
    field.move_all({1, -2});
  }
  REQUIRE_FALSE(estimator.referencing());
  // Over the reference the common drift was 9.5 and -19 nm; one more frame has been moved.
  const DriftEstimate& e = update(estimator, field);
  CHECK(e.drift_nm.x == Approx(20 - 9.5).margin(0.01));
  CHECK(e.drift_nm.y == Approx(-40 + 19).margin(0.01));
  CHECK(health(estimator, 0) == MarkerHealth::Good);
  CHECK(health(estimator, 1) == MarkerHealth::Unreferenced);
  CHECK(health(estimator, 2) == MarkerHealth::Unreferenced);
  CHECK(e.markers_used == 5);
  for (const std::size_t i : {0U, 1U, 3U, 6U}) {  // where each lay at the reference's drift
    INFO("marker " << i);
    CHECK(estimator.reference_px()[i].x ==
          Approx(field.markers[i].x_px + 9.5 / kFieldPixelNm).margin(1e-4));
    CHECK(estimator.reference_px()[i].y ==
          Approx(field.markers[i].y_px - 19 / kFieldPixelNm).margin(1e-4));
  }
  CHECK(estimator.reference(0).sigma_px == Approx(kSigmaPx));
  CHECK(estimator.reference(0).amplitude_adu == Approx(kAmplitudeAdu));
}

TEST_CASE("steady witnesses do not make a reference of unsteady markers") {
  const Field field(3, 4, {0.5, 0.9});
  DriftEstimator estimator(rules());
  estimator.set_markers(field.markers);
  estimator.begin_reference(10);
  for (int i = 0; i < 30; ++i) {
    Field seen = field;
    const float brightness[] = {1, 0.25F, 1.75F};  // each near enough to be this marker
    seen.seen[1].amplitude_adu *= brightness[i % 3];
    estimator.update(seen.seen);
  }
  CHECK(estimator.referencing());
}

TEST_CASE("a late reference takes as many steady frames of the marker's own") {
  const Field field(4, 0, {0.5, 0.9});
  DriftEstimator estimator(rules());
  estimator.set_markers(field.markers);
  estimator.begin_reference(30);
  Field hidden = field;
  hidden.seen[0].fitted = false;
  update(estimator, hidden, 40);
  const auto frames_until_good = [&](auto disturb) {
    Field seen = field;
    int frames = 0;
    while (frames < 200 && health(estimator, 0) != MarkerHealth::Good) {
      seen.seen[0] = field.seen[0];
      disturb(seen, frames++);
      estimator.update(seen.seen);
    }
    return frames;
  };
  DriftEstimator start = estimator;
  CHECK(frames_until_good([](Field&, int) {}) == 31);
  // Unsteady in any of these for the first 30 frames, it takes another 30.
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30) f.move(0, {0, i % 2 == 0 ? 20.0 : -20.0});
        }) == 61);
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30) f.move(0, {i % 2 == 0 ? 20.0 : -20.0, 0});
        }) == 61);
  // 4.5 nm to and fro along one axis are 3.2 nm rms per axis, 3.5 nm are 2.5: the limit is 3.
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30) f.move(0, {0, i % 2 == 0 ? 4.5 : -4.5});
        }) == 61);
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30) f.move(0, {0, i % 2 == 0 ? 3.5 : -3.5});
        }) == 31);
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30 && i % 2 == 0) f.seen[0].sigma_px *= 1.9F;
        }) == 61);
  estimator = start;
  CHECK(frames_until_good([](Field& f, int i) {
          if (i < 30 && i % 2 == 0) f.seen[0].amplitude_adu *= 6;
        }) == 61);
}

TEST_CASE("a marker with a reference of its own comes in little by little, and in the end whole") {
  const Field field(4, 0, {0.5, 0.9});
  const Vec2 d{0.6, -0.8};
  DriftEstimator estimator(rules());
  estimator.set_markers(field.markers);
  estimator.begin_reference(30);
  Field hidden = field;
  hidden.seen[0].fitted = false;
  update(estimator, hidden, 800);
  CHECK(health(estimator, 1) == MarkerHealth::Good);
  update(estimator, field, 30);
  DriftEstimator twin = estimator;
  const std::vector<double> early = pull_nm(twin, field, d, 1);
  update(estimator, field, 100);
  const std::vector<double> late = pull_nm(estimator, field, d, 1);
  CHECK(early[0] < 0.03);
  CHECK(late[0] > 0.1);
  DriftEstimator whole = locked(field, rules(), 30);
  CHECK(late[0] == Approx(pull_nm(whole, field, d, 1)[0]).epsilon(0.05));
}

TEST_CASE("references of before: the drift is how far the sample has moved since") {
  Field field(5, 1, {0.5, 0.9});
  DriftEstimator before = locked(field, rules(), 40);
  std::vector<MarkerReference> references;
  for (std::size_t i = 0; i < 6; ++i) {
    references.push_back(before.reference(i));
    CHECK(references[i].trusted);
    CHECK(references[i].variance_nm2 > 0);
  }
  references[2].trusted = false;
  const Vec2 moved_nm{340, -125};
  field.move_all(moved_nm);
  DriftEstimator after(rules());
  after.set_markers(field.markers);
  after.set_references(references);
  for (int frame = 0; frame < 20; ++frame) {
    const DriftEstimate& e = update(after, field);
    REQUIRE(e.valid);
    CHECK(e.drift_nm.x == Approx(moved_nm.x).margin(1e-6));
    CHECK(e.drift_nm.y == Approx(moved_nm.y).margin(1e-6));
    // One that is not trusted takes its own reference, and then counts gradually.
    CHECK(e.markers_used == (frame < 17 ? 4 : 5));
  }
  CHECK(after.reference(0).place_px.x == references[0].place_px.x);
  CHECK(after.reference(0).sigma_px == references[0].sigma_px);
  CHECK(after.reference(0).variance_nm2 == references[0].variance_nm2);
}

}  // namespace
}  // namespace driftd::control
