// SPDX-License-Identifier: MIT
// A reflected spot by its place, and what is not that spot.
#include <cmath>

#include "control/axial/reflection_estimator.hpp"
#include "support/catch.hpp"

using namespace driftd::control;

namespace {

constexpr ReflectionSettings kSettings = {
    .nm_per_px = 40, .angle_rad = 0, .max_width_change = 0.5, .average_frames = 1};
constexpr ReflectedSpot kSpot = {.reason = AxialReason::Measured,
                                 .x_px = 100,
                                 .y_px = 50,
                                 .x_sd_px = 0.01,
                                 .y_sd_px = 0.01,
                                 .sigma_px = 2,
                                 .light = 1e5};

ReflectionEstimator referenced() {
  ReflectionEstimator z;
  for (int i = 0; i < ReflectionEstimator::kFirstReferenceFrames; ++i)
    z.update(kSettings, kSpot, nullptr);
  return z;
}

AxialReason reason_of(ReflectedSpot spot) {
  ReflectionEstimator z = referenced();
  const AxialEstimate& estimate = z.update(kSettings, spot, nullptr);
  CHECK(estimate.valid == (estimate.reason == AxialReason::Measured));
  return estimate.reason;
}

}  // namespace

TEST_CASE("the reflected spot is z by its place along its line") {
  ReflectionEstimator z = referenced();
  ReflectedSpot spot = kSpot;
  spot.x_px += 20, spot.y_px += 2;  // the angle is not quite right
  const AxialEstimate& estimate = z.update(kSettings, spot, nullptr);
  CHECK(estimate.valid);
  CHECK(estimate.frame_z_nm == Approx(800));
}

TEST_CASE("each zero of the reflected spot is counted, and nothing else") {
  ReflectionEstimator z = referenced();
  const std::uint32_t zeros = z.zeros();
  CHECK(zeros > 0);
  for (int i = 0; i < 5; ++i) z.update(kSettings, kSpot, nullptr);
  CHECK(z.zeros() == zeros);
  z.begin_reference(3);
  z.update(kSettings, kSpot, nullptr);  // a provisional one
  CHECK(z.zeros() == zeros + 1);
  for (int i = 0; i < 2; ++i) z.update(kSettings, kSpot, nullptr);
  CHECK(z.zeros() == zeros + 2);
  for (int i = 0; i < 5; ++i) z.update(kSettings, kSpot, nullptr);
  CHECK(z.zeros() == zeros + 2);
}

TEST_CASE("a bead in the region of the reflection is no z") {
  ReflectedSpot bead = kSpot;
  bead.light = 0.4 * kSpot.light;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  bead.light = 2.5 * kSpot.light;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  bead = kSpot;
  bead.sigma_px = 0.9;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  bead = kSpot;
  bead.y_px += 4;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  bead.y_px -= 8;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  bead = kSpot;
  bead.light = NAN;
  CHECK(reason_of(bead) == AxialReason::Implausible);
  CHECK(reason_of(kSpot) == AxialReason::Measured);
}

TEST_CASE("a laser that ages slowly leaves z where it is") {
  ReflectionEstimator z = referenced();
  ReflectedSpot spot = kSpot;
  for (int i = 0; i < 40000; ++i) {
    spot.light *= 0.9999;  // to 2 %
    REQUIRE(z.update(kSettings, spot, nullptr).valid);
  }
}

TEST_CASE("company of the reflected spot is told") {
  ReflectionEstimator z = referenced();
  ReflectedSpot spot = kSpot;
  spot.has_company = true;
  spot.company_px = {110, 40};
  const AxialEstimate& estimate = z.update(kSettings, spot, nullptr);
  CHECK(estimate.has_company);
  CHECK(estimate.company_px.x == 110);
}
