// SPDX-License-Identifier: MIT
// Which fits count as the marker, by their numbers, their width and their brightness.
#include <cmath>
#include <limits>

#include "unit/control/marker_field.hpp"

namespace driftd::control {
namespace {

using test::Field;
using test::health;
using test::kAmplitudeAdu;
using test::kSigmaPx;
using test::locked;
using test::rules;
using test::update;

TEST_CASE("numbers that are no position count as a failed fit, along either axis") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  using Spoil = void (*)(MarkerObservation&, float);
  const Spoil spoils[] = {
      [](MarkerObservation& o, float) { o.x_px = -2e6; },
      [](MarkerObservation& o, float) { o.y_px = -2e6; },
      [](MarkerObservation& o, float) { o.y_px = 2e6; },
      [](MarkerObservation& o, float n) { o.x_px = static_cast<double>(n); },
      [](MarkerObservation& o, float n) { o.y_px = static_cast<double>(n); },
      [](MarkerObservation& o, float) { o.x_sd_px = 1.1F * kSigmaPx; },
      [](MarkerObservation& o, float) { o.y_sd_px = 1.1F * kSigmaPx; },
      [](MarkerObservation& o, float) { o.x_sd_px = -0.01F; },
      [](MarkerObservation& o, float) { o.y_sd_px = -0.01F; },
      [](MarkerObservation& o, float n) { o.y_sd_px = n; },
      [](MarkerObservation& o, float n) { o.sigma_px = n; },
      [](MarkerObservation& o, float) { o.sigma_px = 0; },
      [](MarkerObservation& o, float) { o.amplitude_adu = 0; },
      [](MarkerObservation& o, float) { o.amplitude_adu = -kAmplitudeAdu; },
  };
  const Field field(5, 0, {0.5, 0.9});
  for (std::size_t i = 0; i < std::size(spoils); ++i) {
    INFO("spoil " << i);
    Field bad = field;
    spoils[i](bad.seen[1], nan);
    DriftEstimator fresh(rules());  // no reference of its own that could find it implausible
    fresh.set_markers(field.markers);
    const DriftEstimate& e = update(fresh, bad);
    CHECK(e.valid);
    CHECK(e.markers_used == 4);
    CHECK(health(fresh, 1) == MarkerHealth::FitFailed);
    CHECK(health(fresh, 2) == MarkerHealth::Good);
  }
}

TEST_CASE("witnesses have no say in what the others' light has in common") {
  const Field field(3, 4, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules());
  Field dim = field;
  for (std::size_t i = 3; i < 7; ++i) {
    dim.seen[i].amplitude_adu *= 0.05F;
    dim.seen[i].sigma_px *= 2;
  }
  CHECK(update(estimator, dim).markers_used == 3);
  CHECK(health(estimator, 0) == MarkerHealth::Good);
  CHECK(health(estimator, 3) == MarkerHealth::Implausible);
}

TEST_CASE("two markers cannot tell which of them changed: the reference does") {
  const Field field(2, 0, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules(1));
  Field dim = field;
  dim.seen[0].amplitude_adu *= 0.05F;
  update(estimator, dim);
  CHECK(health(estimator, 0) == MarkerHealth::Implausible);
  CHECK(health(estimator, 1) == MarkerHealth::Good);
}

TEST_CASE("width and brightness have limits of their own, to both sides") {
  const Field field(4, 0, {0.5, 0.9});
  struct Case {
    float width, brightness;
    bool good;
  };
  for (const Case& c :
       {Case{1.45F, 1, true}, Case{0.55F, 1, true}, Case{1.55F, 1, false}, Case{0.45F, 1, false},
        Case{1, 1.75F, true}, Case{1, 0.25F, true}, Case{1, 1.85F, false}, Case{1, 0.15F, false}}) {
    INFO(c.width << " x " << c.brightness);
    DriftEstimator estimator = locked(field, rules());
    Field changed = field;
    changed.seen[2].sigma_px *= c.width;
    changed.seen[2].amplitude_adu *= c.brightness;
    changed.move(2, {1.5, -2});
    const DriftEstimate& e = update(estimator, changed);
    CHECK(health(estimator, 2) == (c.good ? MarkerHealth::Good : MarkerHealth::Implausible));
    CHECK(e.markers_used == (c.good ? 4 : 3));
    if (!c.good) {
      CHECK(e.drift_nm.x == Approx(0).margin(1e-9));  // it has no vote
      CHECK(estimator.results()[2].residual_nm.y == Approx(-2).margin(1e-6));
    }
  }
}

TEST_CASE("a marker's brightness is followed slowly") {
  Field field(4, 0, {0.5, 0.9});
  DriftEstimator estimator = locked(field, rules());
  Field quick = field;
  quick.seen[1].amplitude_adu *= 1.6F;
  update(estimator, quick);
  quick.seen[1].amplitude_adu *= 1.6F;  // 2.56 of what it was for long
  update(estimator, quick);
  CHECK(health(estimator, 1) == MarkerHealth::Implausible);
  for (int i = 0; i < 3000; ++i) {
    field.seen[1].amplitude_adu = kAmplitudeAdu * static_cast<float>(std::exp(-i / 1000.0));
    update(estimator, field);
    REQUIRE(health(estimator, 1) == MarkerHealth::Good);
  }
}

}  // namespace
}  // namespace driftd::control
