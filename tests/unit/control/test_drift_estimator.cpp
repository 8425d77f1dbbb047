// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "unit/control/marker_scene.hpp"

namespace driftd::control {
namespace {

using test::kPixelNm;
using test::MarkerScene;
using test::Scene;

constexpr int kReferenceFrames = 100;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfF = std::numeric_limits<float>::infinity();

TEST_CASE("locked, the drift is the truth less its mean over the reference") {
  MarkerScene scene({.markers = 12, .sd_nm = 0.8, .y_over_x = 2}, 1);
  DriftEstimator estimator(test::scene_settings());
  const Vec2 zero = take_reference(estimator, scene, kReferenceFrames);
  CHECK_FALSE(estimator.referencing());
  Vec2 error2, variance;
  const int frames = 2000;
  for (int i = 0; i < frames; ++i) {
    const DriftEstimate& e = estimator.update(scene.observe(kReferenceFrames + i));
    REQUIRE(e.valid);
    REQUIRE(e.markers_total == 12);
    REQUIRE(e.frames_averaged == 1);
    const Vec2 truth = scene.truth_nm(kReferenceFrames + i);
    error2.x += std::pow(e.drift_nm.x - (truth.x - zero.x), 2) / frames;
    error2.y += std::pow(e.drift_nm.y - (truth.y - zero.y), 2) / frames;
    variance.x += e.covariance_nm2.xx / frames;
    variance.y += e.covariance_nm2.yy / frames;
  }
  // 0.8 nm over sqrt 12 is 0.23, less along x and more along y by a factor of 2 in all; the spread
  // of brightness and the robust weights cost a tenth.
  CHECK(std::sqrt(error2.x) < 0.26 * std::sqrt(2 / 5.0));
  CHECK(std::sqrt(error2.y) < 0.26 * std::sqrt(8 / 5.0));
  // The covariance tells the same error.
  CHECK(std::sqrt(variance.x) == Approx(std::sqrt(error2.x)).epsilon(0.1));
  CHECK(std::sqrt(variance.y) == Approx(std::sqrt(error2.y)).epsilon(0.1));
}

TEST_CASE("errors are as large as the covariance says, of bright markers and of few") {
  struct Case {
    int markers;
    double sd_nm;
  };
  for (const Case& c : {Case{1, 0.2}, Case{4, 0.5}, Case{16, 0.3}, Case{16, 3}}) {
    CAPTURE(c.markers, c.sd_nm);
    EstimatorSettings settings = test::scene_settings();
    settings.min_markers = 1;
    MarkerScene scene({.markers = c.markers, .sd_nm = c.sd_nm}, 7);
    DriftEstimator estimator(settings);
    const Vec2 zero = take_reference(estimator, scene, 400);
    double normalised2 = 0;
    const int frames = 4000;
    for (int i = 0; i < frames; ++i) {
      const DriftEstimate& e = estimator.update(scene.observe(400 + i));
      const Vec2 truth = scene.truth_nm(400 + i);
      const double x = e.drift_nm.x - (truth.x - zero.x), y = e.drift_nm.y - (truth.y - zero.y);
      normalised2 += (x * x / e.covariance_nm2.xx + y * y / e.covariance_nm2.yy) / (2 * frames);
    }
    // 4000 frames of two axes tell it to 2 %; the robust weights cost up to 8 % that no formal
    // variance tells, an observed scatter that is taken where it is larger gains as much with few.
    CHECK(normalised2 == Approx(1).epsilon(0.12));
  }
}

TEST_CASE("averaging over frames lowers the noise and tells so") {
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 9;
  MarkerScene scene({.markers = 6, .sd_nm = 1, .spread = 1, .drift_nm = 0}, 2);
  DriftEstimator estimator(settings);
  take_reference(estimator, scene, 400);
  double error2 = 0, frame_error2 = 0, variance = 0;
  const int frames = 3000;
  for (int i = 0; i < frames; ++i) {
    const DriftEstimate& e = estimator.update(scene.observe(400 + i));
    REQUIRE(e.frames_averaged == std::min(i + 2, 9));  // the reference's last frame counts
    if (i < 9) continue;
    error2 += e.drift_nm.x * e.drift_nm.x / frames;
    frame_error2 += e.frame_drift_nm.x * e.frame_drift_nm.x / frames;
    variance += e.covariance_nm2.xx / frames;
  }
  // The reference's own error (1 / sqrt(6 * 400) nm) is common to both.
  CHECK(std::sqrt(frame_error2 / error2) == Approx(3).epsilon(0.15));
  CHECK(std::sqrt(variance / error2) == Approx(1).epsilon(0.15));

  estimator.restart_average();
  CHECK(estimator.update(scene.observe(4000)).frames_averaged == 1);
}

TEST_CASE("before any reference the drift counts from the places listed, however roughly") {
  MarkerScene scene({.markers = 8, .sd_nm = 0.3, .listing_px = 0.5, .drift_nm = 0}, 3);
  DriftEstimator estimator(test::scene_settings());
  estimator.set_markers(scene.markers());
  for (int i = 0; i < 200; ++i) {
    const DriftEstimate& e = estimator.update(scene.observe(i));
    REQUIRE(e.valid);
    REQUIRE(e.markers_used >= 6);
    // The listing is wrong by up to 50 nm a marker; most of them cannot be wrong the same way.
    REQUIRE(std::hypot(e.drift_nm.x, e.drift_nm.y) < 50);
  }
}

TEST_CASE("a new reference is measured against the old one until it is done, then against itself") {
  MarkerScene scene({.markers = 8, .sd_nm = 0.3, .drift_nm = 40}, 4);
  DriftEstimator estimator(test::scene_settings());
  const Vec2 first = take_reference(estimator, scene, 50);
  int frame = 50;
  for (; frame < 700; ++frame) estimator.update(scene.observe(frame));
  estimator.begin_reference(50);
  Vec2 second;
  for (int i = 0; i < 50; ++i, ++frame) {
    REQUIRE(estimator.referencing());
    const DriftEstimate& e = estimator.update(scene.observe(frame));
    const Vec2 truth = scene.truth_nm(frame);
    second = {second.x + truth.x / 50, second.y + truth.y / 50};
    if (i < 49)
      REQUIRE(e.drift_nm.x == Approx(truth.x - first.x).margin(1));
    else
      REQUIRE(e.drift_nm.x == Approx(truth.x - second.x).margin(1));
  }
  CHECK_FALSE(estimator.referencing());
}

TEST_CASE("markers hidden for parts of the reference get an unbiased one") {
  // While the common drift runs: a mean over its own frames only would be off by nanometres.
  MarkerScene scene({.markers = 8, .sd_nm = 0.3, .drift_nm = 40}, 5);
  DriftEstimator estimator(test::scene_settings());
  estimator.set_markers(scene.markers());
  estimator.begin_reference(kReferenceFrames);
  for (int i = 0; i < kReferenceFrames; ++i) {
    std::vector<MarkerObservation> o = scene.observe(i);
    o[0].fitted = i < 60;
    o[1].fitted = i >= 45;
    estimator.update(o);
  }
  Vec2 residual[2];
  for (int i = 0; i < 400; ++i) {
    estimator.update(scene.observe(kReferenceFrames + i));
    for (std::size_t m = 0; m < 2; ++m) residual[m].x += estimator.results()[m].residual_nm.x / 400;
  }
  CHECK(std::abs(residual[0].x) < 0.3);
  CHECK(std::abs(residual[1].x) < 0.3);
}

TEST_CASE("a marker that was bad during the reference gets one later and rejoins") {
  MarkerScene scene({.markers = 6, .sd_nm = 0.5}, 6);
  DriftEstimator estimator(test::scene_settings());
  estimator.set_markers(scene.markers());
  estimator.begin_reference(kReferenceFrames);
  int frame = 0;
  const auto update = [&](bool hidden, double unsteady_nm) {
    std::vector<MarkerObservation> o = scene.observe(frame);
    o[0].fitted = !hidden;
    o[1].x_px += (frame % 2 == 0 ? 1 : -1) * unsteady_nm / kPixelNm;
    ++frame;
    return estimator.update(o);
  };
  for (int i = 0; i < kReferenceFrames; ++i) update(true, 30);
  REQUIRE_FALSE(estimator.referencing());
  DriftEstimate e = update(false, 0);
  CHECK(estimator.results()[0].health == MarkerHealth::Unreferenced);
  CHECK(estimator.results()[1].health == MarkerHealth::Unreferenced);
  CHECK(e.markers_used == 4);
  for (int i = 0; i < kReferenceFrames + 10; ++i) e = update(false, 0);
  CHECK(estimator.results()[0].health == MarkerHealth::Good);
  CHECK(estimator.results()[1].health == MarkerHealth::Good);
  CHECK(e.markers_used == 6);
}

TEST_CASE("a reference of unsteady markers starts over instead of locking on them") {
  MarkerScene scene({.markers = 4, .sd_nm = 0.5}, 7);
  DriftEstimator estimator(test::scene_settings());
  estimator.set_markers(scene.markers());
  estimator.begin_reference(20);
  int frame = 0;
  for (; frame < 100; ++frame) {
    std::vector<MarkerObservation> o = scene.observe(frame);
    for (std::size_t m = 0; m < 2; ++m) o[m].x_px += (frame % 2 == 0 ? 0.5 : -0.5);
    estimator.update(o);
  }
  CHECK(estimator.referencing());
  for (; frame < 150; ++frame) estimator.update(scene.observe(frame));
  CHECK_FALSE(estimator.referencing());
}

TEST_CASE("too few markers make the estimate invalid, and it comes back") {
  MarkerScene scene({.markers = 4, .sd_nm = 0.5}, 8);
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 5;
  DriftEstimator estimator(settings);
  take_reference(estimator, scene, kReferenceFrames);
  for (int i = 0; i < 10; ++i) estimator.update(scene.observe(kReferenceFrames));
  const Vec2 before = estimator.update(scene.observe(kReferenceFrames)).drift_nm;
  std::vector<MarkerObservation> o = scene.observe(kReferenceFrames);
  o[0].fitted = o[1].fitted = false;
  const DriftEstimate& few = estimator.update(o);
  CHECK_FALSE(few.valid);
  CHECK(few.markers_used == 2);
  CHECK(few.drift_nm.x == before.x);
  CHECK_FALSE(estimator.update({}).valid);
  const DriftEstimate& back = estimator.update(scene.observe(kReferenceFrames));
  CHECK(back.valid);
  CHECK(back.frames_averaged == 1);
}

TEST_CASE("each marker's health says what is wrong with it") {
  MarkerScene scene({.markers = 10, .sd_nm = 0.5}, 9);
  DriftEstimator estimator(test::scene_settings());
  take_reference(estimator, scene, kReferenceFrames);
  std::vector<MarkerObservation> o = scene.observe(kReferenceFrames);
  o[0].inside_frame = false;
  o[1].fitted = false;
  o[2].sigma_px *= 1.6F;
  o[3].amplitude_adu *= 0.1F;
  o[4].amplitude_adu *= 2.0F;
  o[5].x_px += 0.5;
  o[6].x_sd_px = 5;  // as uncertain as the spot is wide: no position
  const DriftEstimate& e = estimator.update(o);
  const auto health = [&](std::size_t m) { return estimator.results()[m].health; };
  CHECK(health(0) == MarkerHealth::OutsideFrame);
  CHECK(health(1) == MarkerHealth::FitFailed);
  CHECK(health(2) == MarkerHealth::Implausible);
  CHECK(health(3) == MarkerHealth::Implausible);
  CHECK(health(4) == MarkerHealth::Implausible);
  CHECK(health(5) == MarkerHealth::Outlier);
  CHECK(health(6) == MarkerHealth::FitFailed);
  CHECK(health(7) == MarkerHealth::Good);
  CHECK(e.markers_used == 3);
  CHECK(estimator.results()[5].residual_nm.x == Approx(50).margin(3));
  CHECK(estimator.results()[1].residual_nm.x == 0);
  for (int h = 0; h <= static_cast<int>(MarkerHealth::Unreferenced); ++h)
    CHECK(std::string(name_of(static_cast<MarkerHealth>(h))) != "unknown");
}

TEST_CASE("a change of lamp or focus that all markers share makes none of them implausible") {
  MarkerScene scene({.markers = 6, .sd_nm = 0.5}, 14);
  DriftEstimator estimator(test::scene_settings());
  take_reference(estimator, scene, kReferenceFrames);
  std::vector<MarkerObservation> o = scene.observe(kReferenceFrames);
  for (MarkerObservation& m : o) {
    m.amplitude_adu *= 3;
    m.sigma_px *= 0.4F;
  }
  o[0].amplitude_adu /= 3;  // all but this one
  o[0].sigma_px /= 0.4F;
  CHECK(estimator.update(o).markers_used == 5);
  CHECK(estimator.results()[0].health == MarkerHealth::Implausible);
}

TEST_CASE("markers that bleach slowly stay good") {
  MarkerScene scene({.markers = 4, .sd_nm = 0.5}, 10);
  DriftEstimator estimator(test::scene_settings());
  take_reference(estimator, scene, kReferenceFrames);
  for (int i = 0; i < 4000; ++i) {
    std::vector<MarkerObservation> o = scene.observe(kReferenceFrames + i);
    for (MarkerObservation& m : o)
      m.amplitude_adu *= static_cast<float>(std::exp(-i / 1000.0));  // to 2 %
    REQUIRE(estimator.update(o).markers_used >= 3);
  }
}

TEST_CASE("witnesses are measured and never used") {
  const Scene with{.markers = 6, .witnesses = 3, .sd_nm = 0.5, .drift_nm = 0};
  MarkerScene one(with, 11), other(with, 11);
  DriftEstimator calm(test::scene_settings()), disturbed(test::scene_settings());
  take_reference(calm, one, kReferenceFrames);
  take_reference(disturbed, other, kReferenceFrames);
  for (int i = 0; i < 200; ++i) {
    const DriftEstimate& a = calm.update(one.observe(kReferenceFrames + i));
    std::vector<MarkerObservation> o = other.observe(kReferenceFrames + i);
    for (std::size_t m = 6; m < 9; ++m) o[m].x_px += 0.2;
    const DriftEstimate& b = disturbed.update(o);
    REQUIRE(a.drift_nm.x == b.drift_nm.x);
    REQUIRE(a.drift_nm.y == b.drift_nm.y);
    REQUIRE(a.markers_used == 6);
    REQUIRE(a.markers_total == 6);
    REQUIRE(a.witness_valid);
    REQUIRE(std::abs(a.witness_nm.x) < 2);
    // The out-of-loop check tells the truth about them even though each is an outlier.
    REQUIRE(b.witness_valid);
    REQUIRE(b.witness_nm.x == Approx(20).margin(2));
  }
  std::vector<MarkerObservation> o = one.observe(400);
  for (std::size_t m = 6; m < 9; ++m) o[m].fitted = false;
  const DriftEstimate& blind = calm.update(o);
  CHECK(blind.valid);
  CHECK_FALSE(blind.witness_valid);
}

TEST_CASE("nothing that is not finite gets in or out") {
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 4;
  MarkerScene scene({.markers = 8, .witnesses = 2, .sd_nm = 0.5}, 12);
  DriftEstimator estimator(settings);
  estimator.set_markers(scene.markers());
  std::mt19937 random(12);
  std::uniform_int_distribution<int> kind(0, 60);
  const float bad[] = {kNanF, kInfF, -kInfF, -1.0F, 3e38F, 0.0F};
  for (int i = 0; i < 3000; ++i) {
    if (i % 500 == 100) estimator.begin_reference(50);
    std::vector<MarkerObservation> o = scene.observe(i);
    for (MarkerObservation& m : o) {
      const float value = bad[kind(random) % 6];
      switch (kind(random)) {
        case 0:
          m.x_px = static_cast<double>(value);
          break;
        case 1:
          m.y_px = kNan;
          break;
        case 2:
          m.x_sd_px = value;
          break;
        case 3:
          m.sigma_px = value;
          break;
        case 4:
          m.amplitude_adu = value;
          break;
        case 5:
          m.y_px = 1e300;
          break;
        default:
          break;
      }
    }
    const DriftEstimate& e = estimator.update(o);
    for (const double v : {e.drift_nm.x, e.drift_nm.y, e.frame_drift_nm.x, e.covariance_nm2.xx,
                           e.covariance_nm2.xy, e.covariance_nm2.yy, e.witness_nm.x})
      REQUIRE(std::isfinite(v));
    for (const MarkerResult& r : estimator.results()) {
      REQUIRE(std::isfinite(r.displacement_nm.x));
      REQUIRE(std::isfinite(r.residual_nm.y));
    }
    for (const Vec2& r : estimator.reference_px()) REQUIRE(std::isfinite(r.x + r.y));
    // Drift of up to 80 nm (the reference may lie anywhere on it) and the noise of few markers.
    if (e.valid) REQUIRE(std::hypot(e.drift_nm.x, e.drift_nm.y) < 130);
  }
}

TEST_CASE("the same observations give the same bits") {
  MarkerScene one({.markers = 16}, 13), two({.markers = 16}, 13);
  DriftEstimator a(test::scene_settings()), b(test::scene_settings());
  take_reference(a, one, 30);
  take_reference(b, two, 30);
  for (int i = 30; i < 200; ++i) {
    const DriftEstimate& x = a.update(one.observe(i));
    const DriftEstimate& y = b.update(two.observe(i));
    REQUIRE(x.drift_nm.x == y.drift_nm.x);
    REQUIRE(x.covariance_nm2.xy == y.covariance_nm2.xy);
  }
}

TEST_CASE("no markers: never valid, nothing to trip over") {
  DriftEstimator estimator(test::scene_settings());
  CHECK_FALSE(estimator.update({}).valid);
  estimator.set_markers({});
  estimator.begin_reference(0);
  CHECK_FALSE(estimator.update({}).valid);
  CHECK(estimator.referencing());
}

}  // namespace
}  // namespace driftd::control
