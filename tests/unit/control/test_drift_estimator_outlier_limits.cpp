// SPDX-License-Identifier: MIT
// The limits beyond which a marker is an outlier, and how it loses its weight and gets it back.
#include <cmath>
#include <vector>

#include "unit/control/marker_field.hpp"

namespace driftd::control {
namespace {

using test::Field;
using test::health;
using test::kDirections;
using test::kFloorNm2;
using test::locked;
using test::pull_nm;
using test::rules;
using test::times;
using test::update;

TEST_CASE("in one frame the limit counts the others' uncertainty, and the scatter of all") {
  const Vec2 sd_nm{4, 6};
  const double vote_nm = std::sqrt(0.5 * (16 + 36) + kFloorNm2);
  for (const Vec2 d : kDirections) {
    const Field field(4, 0, sd_nm);
    DriftEstimator estimator = locked(field, rules(), 255);
    Field moved = field;
    moved.move(1, times(4 * 1.07 * vote_nm, d));  // the limit is at 4 * sqrt(1 + 1 / 3)
    update(estimator, moved);
    CHECK(health(estimator, 1) == MarkerHealth::Good);
    moved.move(1, times(4 * 0.15 * vote_nm, d));
    update(estimator, moved);
    CHECK(health(estimator, 1) == MarkerHealth::Outlier);

    const Field many(9, 0, sd_nm);
    DriftEstimator shaken = locked(many, rules(), 255);
    Field scattered = many;
    for (std::size_t i = 0; i < 8; ++i)  // three deviations each: 2.5 times what they promise
      scattered.move(i, times(i % 2 == 0 ? 3 * vote_nm : -3 * vote_nm,
                              i < 4 ? Vec2{0.6, 0.8} : Vec2{0.8, -0.6}));
    scattered.move(8, times(7 * vote_nm, d));
    update(shaken, scattered);
    CHECK(health(shaken, 8) == MarkerHealth::Good);
  }
}

TEST_CASE("a small offset that stays makes an outlier along every direction, noise averaged out") {
  for (const Vec2 d : kDirections) {
    INFO(d.x << ' ' << d.y);
    Field field(5, 0, {4, 6});
    DriftEstimator estimator = locked(field, rules(), 255);
    field.move(2, times(10, d));  // a single frame's limit is above 20 nm
    update(estimator, field);
    CHECK(health(estimator, 2) == MarkerHealth::Good);
    update(estimator, field, 63);
    CHECK(health(estimator, 2) == MarkerHealth::Outlier);
  }
}

TEST_CASE("a marker that was far away for a moment is good again at once") {
  for (const Vec2 d : kDirections) {
    const Field field(4, 0, {0.5, 0.9});
    DriftEstimator estimator = locked(field, rules());
    Field away = field;
    away.move(3, times(5000, d));
    update(estimator, away, 3);
    CHECK(health(estimator, 3) == MarkerHealth::Outlier);
    update(estimator, field);
    CHECK(health(estimator, 3) == MarkerHealth::Good);
  }
}

TEST_CASE("between the limit and half of it an outlier stays out, and a good marker in") {
  for (const Vec2 d : kDirections) {
    Field field(4, 0, {0.5, 0.9});
    DriftEstimator estimator = locked(field, rules());
    Field away = field;
    away.move(0, times(40, d));
    update(estimator, away, 200);
    REQUIRE(health(estimator, 0) == MarkerHealth::Outlier);
    field.move(0, times(2.4, d));  // of a limit of 3 nm
    CHECK(update(estimator, field, 600).markers_used == 3);
    CHECK(health(estimator, 0) == MarkerHealth::Outlier);
  }
}

TEST_CASE("an outlier that came back gets its weight back little by little") {
  for (const Vec2 d : kDirections) {
    const Field field(4, 0, {0.5, 0.9});
    DriftEstimator estimator = locked(field, rules());
    const double full_nm = pull_nm(estimator, field, d, 1)[0];
    Field away = field;
    away.move(0, times(-40, d));
    update(estimator, away, 200);
    int frames = 0;
    while (frames < 1000 && health(estimator, 0) != MarkerHealth::Good) {
      update(estimator, field);
      ++frames;
    }
    CHECK(frames > 10);
    CHECK(frames < 300);
    const std::vector<double> pull = pull_nm(estimator, field, d, 16);
    CHECK(pull[0] < 0.15 * full_nm);
    CHECK(pull[15] > 0.15 * full_nm);
    CHECK(pull[15] < 0.5 * full_nm);
  }
}

TEST_CASE("a marker that wanders slowly loses its weight before it is an outlier") {
  for (const Vec2 d : kDirections) {
    const Field field(4, 0, {0.5, 0.9});
    DriftEstimator estimator = locked(field, rules());
    const std::vector<double> pull = pull_nm(estimator, field, d, 300);
    CHECK(health(estimator, 0) == MarkerHealth::Good);
    CHECK(pull.back() < 0.5 * pull.front());
  }
}

TEST_CASE("markers that leave one after another do not outvote those that stay") {
  Field field(7, 0, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules());
  for (std::size_t i = 0; i < 4; ++i) {
    field.move(i, {24, -32});
    update(estimator, field, 100);
    REQUIRE(health(estimator, i) == MarkerHealth::Outlier);
  }
  const DriftEstimate& e = update(estimator, field);
  CHECK(e.valid);
  CHECK(e.markers_used == 3);
  CHECK(e.drift_nm.x == Approx(0).margin(1e-6));
  CHECK(e.drift_nm.y == Approx(0).margin(1e-6));
}

TEST_CASE("markers that all move against one another are not called outliers") {
  // The sample swells by 8 nm at each marker: the limit for one alone is 3 nm.
  const Field field(6, 0, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules());
  for (int i = 0; i < 800; ++i) {
    Field swollen = field;
    for (std::size_t m = 0; m < 6; ++m) {
      const double angle = 0.3 + static_cast<double>(m) * std::acos(-1.0) / 3;
      swollen.move(m, times(0.01 * i, {std::cos(angle), std::sin(angle)}));
    }
    REQUIRE(update(estimator, swollen).markers_used == 6);
  }
  for (std::size_t m = 0; m < 6; ++m) CHECK(health(estimator, m) == MarkerHealth::Good);
}

}  // namespace
}  // namespace driftd::control
