// SPDX-License-Identifier: MIT
#include <cmath>
#include <random>
#include <vector>

#include "control/axial/axial_estimator.hpp"
#include "fitter/fitter.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/control/axial_scene.hpp"

namespace driftd::control {
namespace {

using test::AxialPair;
using test::AxialScene;

/// Its fit is that of a marker at this height.
void put_at(MarkerObservation& o, double z_nm) {
  o.sigma_x_px = static_cast<float>(test::width_x_px(z_nm));
  o.sigma_y_px = static_cast<float>(test::width_y_px(z_nm));
}

TEST_CASE("z is read within its standard deviation, whatever the markers' heights") {
  double chi_square = 0, witness_square = 0;
  int frames = 0;
  for (unsigned seed = 1; seed <= 5; ++seed) {
    AxialScene scene({.markers = 13, .witnesses = 3}, seed);
    AxialPair pair(scene);
    pair.take_reference(scene, 100, 30);
    for (int frame = 100; frame < 500; ++frame) {
      const double truth_nm = 30 + 80 * std::sin(0.02 * frame);
      const AxialEstimate& z = pair.update(scene.observe(frame, truth_nm));
      REQUIRE(z.valid);
      REQUIRE(z.markers_used >= 12);
      REQUIRE(z.witness_valid);
      const double error_nm = z.z_nm - (truth_nm - 30);
      chi_square += error_nm * error_nm / z.variance_nm2;
      witness_square += std::pow(z.witness_z_nm - (truth_nm - 30), 2);
      REQUIRE(std::abs(error_nm) < 6 * std::sqrt(z.variance_nm2));
      CHECK(std::sqrt(z.variance_nm2) < 3);
      ++frames;
    }
  }
  CHECK(std::sqrt(chi_square / frames) == Approx(1).margin(0.15));
  CHECK(std::sqrt(witness_square / frames) < 5);
}

TEST_CASE(
    "far from its reference z is told as uncertain as the curve's scale, and weighed as before") {
  AxialScene scene({.markers = 13}, 1);
  AxialPair pair(scene);
  pair.take_reference(scene, 100, 0);
  const double near_nm = pair.update(scene.observe(100, 0)).frame_sd_nm();
  const AxialEstimate& far = pair.update(scene.observe(101, 200));
  REQUIRE(far.valid);
  CHECK(near_nm < 2);
  const double of_scale_nm = AxialEstimator::kScaleShare * 200;
  CHECK(far.frame_sd_nm() > of_scale_nm);
  CHECK(far.frame_sd_nm() < std::hypot(of_scale_nm, 3));
  CHECK(std::sqrt(far.frame_variance_nm2) < 3);
}

TEST_CASE("an average over frames is as uncertain as it says") {
  AxialScene scene({.markers = 13}, 3);
  EstimatorSettings settings = test::scene_settings();
  settings.average_frames = 8;
  AxialPair pair(scene, settings);
  pair.take_reference(scene, 400);
  double chi_square = 0;
  for (int frame = 0; frame < 800; ++frame) {
    const AxialEstimate& z = pair.update(scene.observe(frame, 0));
    if (frame % 8 == 7) chi_square += z.z_nm * z.z_nm / z.variance_nm2;
    if (frame >= 8) REQUIRE(z.variance_nm2 < 0.5 * z.frame_variance_nm2);
  }
  CHECK(std::sqrt(chi_square / 100) == Approx(1).margin(0.3));
}

TEST_CASE("the scatter of one axis is held against that of one axis") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> scratch(101);
  double sum = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Vote> votes(101);
    for (Vote& v : votes) v = {.value_nm = {2 * normal(random), 0}, .variance_nm2 = {1, 1}};
    sum += robust_mean(votes, {}, scratch, kNormalMedian).scale;
  }
  CHECK(sum / 200 == Approx(2).margin(0.05));
}

TEST_CASE("a marker that moves in z against the others is an outlier in z, and in nothing else") {
  AxialScene scene({.markers = 9}, 7);
  AxialPair pair(scene);
  pair.take_reference(scene, 100);
  int good = 0;
  double worst_nm = 0;
  for (int frame = 100; frame < 700; ++frame) {
    auto o = scene.observe(frame, 0);
    put_at(o[0], scene.heights_nm[0] + 0.2 * (frame - 100));  // to 120 nm
    const AxialEstimate& z = pair.update(o);
    REQUIRE(z.valid);
    worst_nm = std::max(worst_nm, std::abs(z.z_nm));
    if (pair.lateral.results()[0].health == MarkerHealth::Good) ++good;
  }
  CHECK(good > 590);  // noise makes it an outlier now and then
  CHECK(pair.axial.results()[0].reason == AxialReason::Apart);
  CHECK(pair.axial.results()[0].residual_nm == Approx(120).margin(8));
  CHECK(worst_nm < 8);  // four standard deviations, and what it did before it was known
}

TEST_CASE("a marker that has jumped in z is apart from its first frame on") {
  AxialScene scene({.markers = 9}, 17);
  AxialPair pair(scene);
  pair.take_reference(scene, 100);
  auto o = scene.observe(100, 0);
  put_at(o[3], scene.heights_nm[3] + 60);
  pair.update(o);
  const auto apart = [&](std::size_t i) {
    return pair.axial.results()[i].reason == AxialReason::Apart;
  };
  for (std::size_t i = 0; i < 9; ++i) CHECK(apart(i) == (i == 3));
  pair.update(scene.observe(101, 0));
  CHECK_FALSE(apart(3));  // nobody remembers one frame
}

/// By 12 nm, which no robust mean leaves out: a marker that has gone sideways is another one.
TEST_CASE("markers away from the others in x, y do not count in z") {
  AxialScene scene({.markers = 9}, 18);
  AxialPair pair(scene);
  pair.take_reference(scene, 100);
  double sum_nm = 0;
  for (int frame = 100; frame < 200; ++frame) {
    auto o = scene.observe(frame, 0);
    for (std::size_t i = 0; i < 4; ++i) {
      o[i].x_px += 3;
      put_at(o[i], scene.heights_nm[i] + 12);
    }
    const AxialEstimate& z = pair.update(o);
    REQUIRE(z.valid);
    REQUIRE(z.markers_used <= 5);
    REQUIRE(z.in_range == 5);
    REQUIRE(pair.axial.results()[0].reason == AxialReason::Implausible);
    sum_nm += z.z_nm;
  }
  CHECK(std::abs(sum_nm / 100) < 1.5);  // the references' errors; 12 * 4 / 9 with all of them
}

TEST_CASE("z needs as many markers within the range as are beyond it, and one more") {
  const auto beyond = [](int count) {  // the others are far within
    AxialScene scene({.markers = 12}, 19);
    for (int i = 0; i < 12; ++i)
      scene.heights_nm[static_cast<std::size_t>(i)] = i < count ? 60 : -200;
    AxialPair pair(scene);
    pair.take_reference(scene, 100);
    const double end_nm = pair.curves.curves().front().upper_nm();
    const AxialEstimate z = pair.update(scene.observe(100, end_nm));
    CHECK(z.in_range == 12 - count);
    CHECK(z.reason == (z.valid ? AxialReason::Measured : AxialReason::OutOfRange));
    return z.valid;
  };
  CHECK(beyond(0));
  CHECK(beyond(5));
  CHECK_FALSE(beyond(6));
  CHECK_FALSE(beyond(7));
}

TEST_CASE("too few markers make no zero of z: it waits for all that can be read") {
  AxialScene scene({.markers = 8}, 20);
  scene.heights_nm[0] = scene.heights_nm[1] = -600;  // within the range while the others are not
  AxialPair pair(scene);
  pair.take_reference(scene, 64, 900);
  CHECK(pair.axial.estimate().in_range == 2);
  CHECK_FALSE(pair.axial.estimate().valid);
  for (int frame = 0; frame < 70; ++frame) pair.update(scene.observe(70 + frame, 150));
  const AxialEstimate& z = pair.axial.estimate();
  REQUIRE(z.valid);
  CHECK(z.markers_used >= 5);  // of six: against these, those two have become wide
  CHECK(z.z_nm == Approx(0).margin(8));
}

TEST_CASE("z has no effect on x and y") {
  AxialScene scene({.markers = 9}, 8);
  AxialPair pair(scene);
  DriftEstimator alone(test::scene_settings());
  alone.set_markers(scene.markers());
  pair.lateral.begin_reference(50);
  alone.begin_reference(50);
  for (int frame = 0; frame < 300; ++frame) {
    auto o = scene.observe(frame, frame > 150 ? 900 : 0);
    pair.update(o);
    const DriftEstimate& drift = alone.update(o);
    REQUIRE(drift.drift_nm.x == pair.drift.drift_nm.x);
    REQUIRE(drift.drift_nm.y == pair.drift.drift_nm.y);
    REQUIRE(drift.covariance_nm2.xx == pair.drift.covariance_nm2.xx);
  }
}

TEST_CASE("without enough markers there is no z, and the reason is told") {
  AxialScene scene({.markers = 6}, 9);
  AxialPair pair(scene);
  pair.take_reference(scene, 50);
  const auto with = [&](auto change) {
    auto o = scene.observe(60, 0);
    for (std::size_t i = 0; i < 4; ++i) change(o[i], i);
    return pair.update(o);
  };
  const AxialEstimate good = with([](auto&, auto) {});
  REQUIRE(good.valid);
  CHECK(good.in_range == 6);

  const AxialEstimate above = pair.update(scene.observe(61, 800));
  CHECK_FALSE(above.valid);
  CHECK(above.reason == AxialReason::OutOfRange);
  CHECK(above.in_range < 3);

  const AxialEstimate dark = with([](auto& o, auto) { o.fitted = false; });
  CHECK_FALSE(dark.valid);
  CHECK(dark.reason == AxialReason::Dark);

  const AxialEstimate bright = with([](auto& o, auto) {
    o.fitted = false;
    o.saturated = true;
  });
  CHECK_FALSE(bright.valid);
  CHECK(bright.reason == AxialReason::Saturated);

  const AxialEstimate dim =
      with([](auto& o, auto) { o.sigma_x_sd_px = o.sigma_y_sd_px = 0.4F; });  // some 180 nm
  CHECK_FALSE(dim.valid);
  CHECK(dim.reason == AxialReason::Dark);

  const AxialEstimate strange = with([](auto& o, auto) { o.sigma_x_px = o.sigma_y_px = 0.9F; });
  CHECK_FALSE(strange.valid);
  CHECK(strange.reason == AxialReason::Unclear);

  const AxialEstimate none = pair.axial.update(pair.curves, pair.units, {}, pair.lateral);
  CHECK_FALSE(none.valid);
  CHECK(with([](auto&, auto) {}).valid);
}

TEST_CASE("where most markers are beyond the range, those that noise brings within are no z") {
  AxialScene scene({.markers = 12}, 10);
  for (double& height_nm : scene.heights_nm) height_nm = 0;
  AxialPair pair(scene);
  pair.take_reference(scene, 50);
  const double end_nm = pair.curves.curves().front().upper_nm();
  for (int frame = 50; frame < 350; ++frame) {
    const double truth_nm = end_nm - 40 + 0.4 * (frame - 50);  // to 80 nm beyond
    const AxialEstimate& z = pair.update(scene.observe(frame, truth_nm));
    if (!z.valid) continue;
    REQUIRE(std::abs(z.z_nm - truth_nm) < 6 * std::sqrt(z.variance_nm2));
  }
  const AxialEstimate& z = pair.update(scene.observe(400, end_nm + 80));
  CHECK_FALSE(z.valid);
  CHECK(z.reason == AxialReason::OutOfRange);
}

TEST_CASE("references out of range: z takes its own once it can be read, and says so") {
  AxialScene scene({.markers = 8}, 11);
  AxialPair pair(scene);
  pair.take_reference(scene, 64, 900);
  CHECK(pair.drift.valid);
  CHECK(pair.update(scene.observe(70, 900)).reason == AxialReason::OutOfRange);
  int waited = 0;
  while (!pair.update(scene.observe(71 + waited, 50)).valid) {
    REQUIRE(waited < 70);
    ++waited;
  }
  CHECK(waited >= 60);  // as many frames as x and y took
  double sum_nm = 0;
  for (int frame = 0; frame < 100; ++frame)
    sum_nm += pair.update(scene.observe(200 + frame, 50)).z_nm;
  CHECK(std::abs(sum_nm / 100) < 1);
}

TEST_CASE("another curve is a new zero of z") {
  AxialScene scene({.markers = 8}, 12);
  AxialPair pair(scene);
  pair.take_reference(scene, 64);
  REQUIRE(pair.update(scene.observe(70, 60)).z_nm == Approx(60).margin(8));
  const std::uint32_t zeros = pair.axial.zeros();
  pair.axial.change_curve();
  CHECK_FALSE(pair.update(scene.observe(71, 60)).valid);
  for (int frame = 0; frame < 64; ++frame) pair.update(scene.observe(72 + frame, 60));
  CHECK(pair.axial.zeros() > zeros);
  CHECK(pair.update(scene.observe(140, 60)).z_nm == Approx(0).margin(8));
}

TEST_CASE("references of before are taken over, with their z or without") {
  AxialScene scene({.markers = 8}, 13);
  AxialPair first(scene);
  first.take_reference(scene, 100);
  std::vector<MarkerReference> references;
  for (std::size_t i = 0; i < 8; ++i) {
    references.push_back(first.lateral.reference(i));
    first.axial.add_reference(i, references.back());
    REQUIRE(std::isfinite(references.back().z_nm));
  }
  AxialPair next(scene);
  next.lateral.set_references(references);
  next.axial.set_references(references, next.lateral);
  const AxialEstimate& z = next.update(scene.observe(200, 70));
  CHECK(z.valid);
  CHECK(z.z_nm == Approx(70).margin(8));

  for (MarkerReference& r : references) r.z_nm = MarkerReference{}.z_nm;
  AxialPair without(scene);
  without.lateral.set_references(references);
  without.axial.set_references(references, without.lateral);
  CHECK(without.update(scene.observe(200, 70)).reason == AxialReason::NoReference);
  for (int frame = 0; frame < 20; ++frame) without.update(scene.observe(201 + frame, 70));
  CHECK(without.update(scene.observe(230, 70)).z_nm == Approx(0).margin(8));
}

TEST_CASE("a marker without a reference gets its own, and z does not jump") {
  AxialScene scene({.markers = 8}, 14);
  AxialPair pair(scene);
  pair.lateral.begin_reference(64);
  const auto hide = [](auto& o) { o.sigma_x_px = o.sigma_y_px = 3; };  // in z alone
  for (int frame = 0; frame < 64; ++frame) {
    auto o = scene.observe(frame, 0);
    hide(o[0]);
    pair.update(o);
  }
  for (int frame = 64; frame < 400; ++frame) {
    const AxialEstimate& z = pair.update(scene.observe(frame, 40));
    REQUIRE(z.valid);
    REQUIRE(z.z_nm == Approx(40).margin(9));
  }
  CHECK(pair.axial.results()[0].reason == AxialReason::Measured);
  CHECK(pair.axial.results()[0].displacement_nm == Approx(40).margin(25));
}

TEST_CASE("z allocates nothing") {
  if (!driftd::test::can_watch()) {
    WARN("SKIPPED: a sanitizer owns the allocator");
    return;
  }
  AxialScene scene({.markers = 200, .witnesses = 56}, 15);
  AxialPair pair(scene);
  for (int frame = 0; frame < 300; ++frame) {
    const auto& o = scene.observe(frame, frame > 200 && frame < 240 ? 900 : 0.2 * frame);
    if (frame == 50) pair.lateral.begin_reference(100);
    driftd::test::watch_this_thread(true);
    if (frame == 260) pair.axial.change_curve();
    pair.update(o);
    driftd::test::watch_this_thread(false);
    REQUIRE(driftd::test::watched_allocations() == 0);
  }
}

/// The live fits tell no covariance of the two widths, and z takes it for none.
TEST_CASE("the two widths of a fit hardly depend on each other") {
  constexpr int kSide = 13;
  std::mt19937 random(16);
  for (const double peak : {100.0, 1000.0, 10'000.0}) {
    for (const double background : {1.0, 20.0, 200.0}) {
      for (const double z_nm : {-300.0, 0.0, 300.0}) {
        const double sx = test::width_x_px(z_nm), sy = test::width_y_px(z_nm);
        std::vector<float> pixels;
        for (int y = 0; y < kSide; ++y) {
          for (int x = 0; x < kSide; ++x) {
            const double u = (x - 6.1) / sx, v = (y - 5.8) / sy;
            std::poisson_distribution<int> light(background +
                                                 peak * std::exp(-0.5 * (u * u + v * v)));
            pixels.push_back(static_cast<float>(light(random)));
          }
        }
        fitter::FitDetails details{};
        fitter::Localization fit{};
        fitter::Batch batch;
        batch.pixels = pixels.data();
        batch.type = fitter::PixelType::F32;
        batch.roi_px = kSide;
        batch.count = 1;
        batch.details = &details;
        fitter::FitOptions options;
        options.model = fitter::Model::EllipticalGaussian;
        options.estimator = fitter::Estimator::PoissonLikelihood;
        options.noise = {.gain_e_per_adu = 1, .read_noise_e = 1, .offset_adu = 0};
        fitter::fit_batch_cpu(batch, options, std::span(&fit, 1));
        if (!fitter::converged(fit.status)) continue;  // the dimmest on the brightest
        const auto x = static_cast<std::size_t>(fitter::Parameter::SigmaX);
        const auto y = static_cast<std::size_t>(fitter::Parameter::SigmaY);
        const float correlation = details.covariance[x][y] /
                                  std::sqrt(details.covariance[x][x] * details.covariance[y][y]);
        CAPTURE(peak, background, z_nm, correlation);
        CHECK(std::abs(correlation) < 0.25F);
      }
    }
  }
}

}  // namespace
}  // namespace driftd::control
