// SPDX-License-Identifier: MIT
// The drift, its covariance and the witnesses over the frames of an average.
#include <algorithm>
#include <cmath>

#include "unit/control/marker_field.hpp"

namespace driftd::control {
namespace {

using test::Field;
using test::locked;
using test::rules;
using test::update;

TEST_CASE("the covariance is that of the fits and the references, each axis its own") {
  constexpr int kMarkers = 5, kFrames = 9, kReference = 25;
  const Vec2 sd_nm{1, 3};
  const Field field(kMarkers, 0, sd_nm);
  DriftEstimator estimator(rules(3, kFrames));
  estimator.set_markers(field.markers);
  // A provisional reference is one frame: the mean of both axes stands for its uncertainty.
  const double provisional_nm2 = 2 * 2;
  const Covariance2 before = update(estimator, field).covariance_nm2;
  CHECK(before.xx == Approx((1 + provisional_nm2) / kMarkers).epsilon(1e-5));
  CHECK(before.yy == Approx((9 + provisional_nm2) / kMarkers).epsilon(1e-5));
  estimator.begin_reference(kReference);
  const double reference_nm2 = provisional_nm2 / kReference;
  const Covariance2 after = update(estimator, field, kReference).covariance_nm2;
  CHECK(after.xx == Approx((1 + reference_nm2) / kMarkers).epsilon(1e-5));
  CHECK(after.yy == Approx((9 + reference_nm2) / kMarkers).epsilon(1e-5));
  // A mean over frames lessens the fits' errors, not the references': they are the same in each.
  const Covariance2 mean = update(estimator, field, kFrames - 1).covariance_nm2;
  CHECK(mean.xx == Approx((1.0 / kFrames + reference_nm2) / kMarkers).epsilon(1e-5));
  CHECK(mean.yy == Approx((9.0 / kFrames + reference_nm2) / kMarkers).epsilon(1e-5));
}

TEST_CASE("the drift is the mean of the newest frames, the ring's end included") {
  Field field(4, 2, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(3, 3), 30);
  estimator.restart_average();
  double x_nm = 0;
  for (int i = 1; i <= 8; ++i) {
    field.move_all({2.0 * i, -3.0 * i});
    x_nm += 2.0 * i;
    const DriftEstimate& e = update(estimator, field);
    REQUIRE(e.frames_averaged == std::min(i, 3));
    // Mean of the last three totals: x, x - 2 i, x - 2 i - 2 (i - 1).
    const double mean_nm = i == 1   ? x_nm
                           : i == 2 ? x_nm - i
                                    : x_nm - (2.0 * i + 2.0 * i + 2.0 * (i - 1)) / 3;
    CHECK(e.drift_nm.x == Approx(mean_nm).margin(1e-6));
    CHECK(e.drift_nm.y == Approx(-1.5 * mean_nm).margin(1e-6));
    CHECK(e.frame_drift_nm.x == Approx(x_nm).margin(1e-6));
    CHECK(e.frame_drift_nm.y == Approx(-1.5 * x_nm).margin(1e-6));
    CHECK(e.witness_nm.x == Approx(mean_nm).margin(1e-6));
    CHECK(e.witness_nm.y == Approx(-1.5 * mean_nm).margin(1e-6));
  }
}

TEST_CASE("the covariance of an average keeps its cross term") {
  Field field(4, 0, {0.1, 0.15});
  DriftEstimator estimator = locked(field, rules(3, 4), 100);
  field.move(0, {1.0, 0.5});
  field.move(1, {-1.0, -0.5});
  field.move(2, {0.5, 1.0});
  field.move(3, {-0.5, -1.0});
  estimator.restart_average();
  const Covariance2 one = update(estimator, field).covariance_nm2;
  CHECK(one.xy > 0.5 * std::sqrt(one.xx * one.yy));
  const DriftEstimate& e = update(estimator, field, 3);
  REQUIRE(e.frames_averaged == 4);
  CHECK(e.covariance_nm2.xx == Approx(one.xx / 4).epsilon(0.02));
  CHECK(e.covariance_nm2.xy == Approx(one.xy / 4).epsilon(0.02));
  CHECK(e.covariance_nm2.yy == Approx(one.yy / 4).epsilon(0.02));
}

TEST_CASE("an average of witnesses counts the frames that have any") {
  Field field(4, 2, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(3, 4), 30);
  estimator.restart_average();
  for (const std::size_t i : {4U, 5U}) field.move(i, {12, -20});
  Field blind = field;
  blind.seen[4].fitted = blind.seen[5].fitted = false;
  update(estimator, field);
  const DriftEstimate& e = update(estimator, blind, 2);
  CHECK(e.frames_averaged == 3);
  CHECK(e.witnesses_used == 0);
  REQUIRE(e.witness_valid);
  CHECK(e.witness_nm.x == Approx(12).margin(1e-6));
  CHECK(e.witness_nm.y == Approx(-20).margin(1e-6));
  CHECK_FALSE(update(estimator, blind, 2).witness_valid);  // the last frame with any has left
}

TEST_CASE("an invalid frame says so in all its numbers") {
  const Field field(3, 2, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(3, 4), 30);
  REQUIRE(update(estimator, field, 4).witness_valid);
  Field few = field;
  few.seen[1].fitted = false;
  const DriftEstimate& e = update(estimator, few);
  CHECK_FALSE(e.valid);
  CHECK(e.markers_used == 2);
  CHECK(e.frames_averaged == 0);
  CHECK_FALSE(e.witness_valid);
  CHECK(update(estimator, field).frames_averaged == 1);
}

}  // namespace
}  // namespace driftd::control
