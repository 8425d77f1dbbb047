// SPDX-License-Identifier: MIT
// z of bright and dim markers of one sample, from images behind a pupil by the fits of a lock.
#include <cmath>
#include <vector>

#include "bench/axial/readings.hpp"
#include "control/axial/axial_estimator.hpp"
#include "support/catch.hpp"
#include "unit/control/marker_scene.hpp"

namespace driftd::control {
namespace {

constexpr double kGain = 0.5, kOffsetAdu = 100, kBackgroundE = 20, kReadE = 3;
constexpr int kSide = 13, kFrames = 80;
constexpr double kMoveNm = 150;

driftd::test::AxialScene astigmatic_scene() {
  simulator::OpticsModel optics;
  optics.shape = simulator::SpotShape::Pupil;
  optics.pupil.astigmatism_waves = 0.075;
  return {optics, kBackgroundE, kReadE};
}

BrightnessCurves calibrated() {
  bench::AxialSetup setup;
  setup.covariance = false;
  return bench::calibrated(
      setup, astigmatic_scene(),
      {.lowest_nm = -500, .highest_nm = 500, .dimness = {1e-3, 3e-3, 1e-2, 3e-2}, .markers = 30});
}

/// A sample whose markers differ in light; the last one may have a neighbour.
struct Sample {
  explicit Sample(std::vector<double> photons_of) : photons(std::move(photons_of)) {}

  std::vector<MarkerObservation> observe(double z_nm, double neighbour_share) {
    std::vector<MarkerObservation> all;
    for (std::size_t i = 0; i < photons.size(); ++i) {
      std::vector<simulator::Spot> spots(1);
      const double middle_px = (kSide - 1) / 2.0;
      spots[0].x_px = middle_px + 0.1 * static_cast<double>(i) - 0.2;
      spots[0].y_px = middle_px - 0.1 * static_cast<double>(i) + 0.3;
      spots[0].electrons = photons[i];
      spots[0].z_nm = z_nm;
      if (neighbour_share > 0 && i + 1 == photons.size()) {
        spots.push_back(spots[0]);
        spots[1].x_px += 4;
        spots[1].electrons *= neighbour_share;
      }
      all.push_back(fitted(spots, 30 * (static_cast<double>(i) + 1)));
    }
    return all;
  }

  /// As the tracking loop does.
  MarkerObservation fitted(std::span<const simulator::Spot> spots, double x_px) {
    std::vector<float> pixels(kSide * kSide);
    scene.draw(scene.expected(spots, kSide), random, pixels.data());
    for (float& p : pixels) p = static_cast<float>(kOffsetAdu + static_cast<double>(p) / kGain);
    fitter::FitOptions options;
    options.model = fitter::Model::EllipticalGaussian;
    options.estimator = fitter::Estimator::PoissonLikelihood;
    options.noise = {static_cast<float>(kGain), static_cast<float>(kReadE),
                     static_cast<float>(kOffsetAdu)};
    fitter::Localization fit{};
    fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, kSide, 1};
    fitter::fit_batch_cpu(batch, options, std::span(&fit, 1), 1);
    MarkerObservation o;
    o.fitted = fitter::converged(fit.status);
    o.x_px = x_px + static_cast<double>(fit.x_px);
    o.y_px = 50 + static_cast<double>(fit.y_px);
    o.x_sd_px = fit.x_sd_px, o.y_sd_px = fit.y_sd_px;
    o.sigma_px = mean_width(fit.sigma_x_px, fit.sigma_y_px);
    o.amplitude_adu = fit.amplitude_adu, o.background_adu = fit.background_adu;
    o.sigma_x_px = fit.sigma_x_px, o.sigma_y_px = fit.sigma_y_px;
    o.sigma_x_sd_px = fit.sigma_x_sd_px, o.sigma_y_sd_px = fit.sigma_y_sd_px;
    o.chi_square = fit.chi_square;
    return o;
  }

  std::vector<double> photons;
  driftd::test::AxialScene scene = astigmatic_scene();
  simulator::Random random{3, 1};
};

/// Of x, y and of z, which take a reference of kFrames.
struct Estimators {
  explicit Estimators(std::size_t markers) : axial(settings(), markers) {
    std::vector<Marker> set(markers);
    for (std::size_t i = 0; i < markers; ++i)
      set[i] = {.id = static_cast<unsigned>(i + 1),
                .role = MarkerRole::Tracking,
                .x_px = 30 * (static_cast<double>(i) + 1) + 6,
                .y_px = 56};
    lateral.set_markers(set);
    lateral.begin_reference(kFrames);
  }
  static EstimatorSettings settings() {
    EstimatorSettings settings = test::scene_settings();
    settings.average_frames = 1, settings.min_markers = 3;
    return settings;
  }
  const AxialEstimate& update(const BrightnessCurves& curves,
                              const std::vector<MarkerObservation>& seen) {
    lateral.update(seen);
    return axial.update(curves, {kGain, kOffsetAdu, kReadE, kSide * kSide}, seen, lateral);
  }

  DriftEstimator lateral{settings()};
  AxialEstimator axial;
};

/// What the last marker says of a move of kMoveNm, once its reference was taken.
struct LastMarker {
  int read = 0, unclear = 0;
  int wrong = 0;  ///< of those read: by more than five standard deviations
  double mean_nm = 0, sd_of_mean_nm = 0;
};

LastMarker move(const BrightnessCurves& curves, std::vector<double> photons,
                double neighbour_share = 0) {
  Sample sample(std::move(photons));
  Estimators both(sample.photons.size());
  LastMarker last;
  double told_nm2 = 0;
  for (int frame = 0; frame < 2 * kFrames; ++frame) {
    const bool moved = frame >= kFrames;
    const auto seen = sample.observe(moved ? kMoveNm : 0, moved ? neighbour_share : 0);
    both.update(curves, seen);
    const AxialResult& result = both.axial.results().back();
    if (!moved) continue;
    last.unclear += result.reason == AxialReason::Unclear ? 1 : 0;
    if (!result.referenced || result.reason == AxialReason::Implausible) continue;
    ++last.read;
    last.mean_nm += result.displacement_nm;
    told_nm2 += result.sd_nm * result.sd_nm;
    last.wrong += std::abs(result.displacement_nm - kMoveNm) > 5 * result.sd_nm ? 1 : 0;
  }
  last.mean_nm /= last.read;
  // Twice: the reference has as many frames.
  last.sd_of_mean_nm = std::sqrt(2 * told_nm2 / last.read / last.read);
  return last;
}

TEST_CASE("a dim marker's z is that of the bright ones beside it") {
  const BrightnessCurves curves = calibrated();
  const std::vector<double> photons = {3e4, 3e4, 3e4, 3e3};
  const LastMarker dim = move(curves, photons);
  CHECK(dim.read == kFrames);
  CHECK(dim.mean_nm == Approx(kMoveNm).margin(4 * dim.sd_of_mean_nm));
  // By the curve of bright markers alone it goes 109 nm (docs/measured/benchmarks.md).
  const LastMarker by_one = move(BrightnessCurves({curves.curves().front()}), photons);
  CHECK(by_one.mean_nm < kMoveNm - 6 * by_one.sd_of_mean_nm);
}

TEST_CASE("a neighbour that arrives is no z, or none that is wrong") {
  const BrightnessCurves curves = calibrated();
  const std::vector<double> photons = {3e4, 3e4, 3e4, 2e4};
  const LastMarker alone = move(curves, photons);
  CHECK(alone.unclear <= kFrames / 20);
  CHECK(alone.wrong == 0);
  for (const double share : {0.1, 0.3}) {
    const LastMarker joined = move(curves, photons, share);
    INFO(share);
    CHECK(joined.unclear > kFrames * 9 / 10);
    CHECK(joined.wrong == 0);
  }
}

/// What a lamp does to z that stays where it is: the mean over its last frames.
struct Lamp {
  double z_nm = 0, random_sd_nm = 0, sd_nm = 0, dimmed_nm = 0;
};

Lamp turn_lamp(const BrightnessCurves& curves, double z_nm, double share) {
  Sample sample({3e4, 2.5e4, 2e4, 3e4, 2.5e4});
  Estimators both(sample.photons.size());
  Lamp lamp;
  for (int frame = 0; frame < 3 * kFrames; ++frame) {
    if (frame == kFrames)
      for (double& photons : sample.photons) photons *= share;
    const auto seen = sample.observe(z_nm, 0);
    const AxialEstimate& z = both.update(curves, seen);
    if (frame < 2 * kFrames) continue;
    REQUIRE(z.valid);
    lamp.z_nm += z.z_nm / kFrames;
    lamp.random_sd_nm += std::sqrt(z.variance_nm2) / kFrames;
    lamp.sd_nm += z.sd_nm() / kFrames;
    lamp.dimmed_nm += z.dimmed_nm / kFrames;
  }
  return lamp;
}

TEST_CASE("what a lamp does to z by a curve without dimmer markers is in its standard deviation") {
  const BrightnessCurves all = calibrated();
  const BrightnessCurves one({all.curves().front()});
  for (const double z_nm : {0.0, 130.0}) {
    INFO(z_nm << " nm from the crossing");
    const Lamp steady = turn_lamp(one, z_nm, 1);
    CHECK(steady.dimmed_nm < 0.3);
    CHECK(steady.sd_nm < 1.05 * steady.random_sd_nm);
    for (const double share : {0.5, 0.25, 2.0}) {
      const Lamp turned = turn_lamp(one, z_nm, share);
      INFO(share << " of the light: " << turned.z_nm << " nm told with " << turned.sd_nm);
      CHECK(std::abs(turned.z_nm) < 2 * turned.sd_nm);
      CHECK(turned.dimmed_nm > 1);
      if (share != 0.25) continue;
      const Lamp by_all = turn_lamp(all, z_nm, share);
      CHECK(by_all.dimmed_nm == 0);
      CHECK(std::abs(by_all.z_nm) < std::abs(turned.z_nm) / 2 + by_all.random_sd_nm);
    }
  }
  // Where it is needed: without, this would be four standard deviations.
  const Lamp quarter = turn_lamp(one, 130, 0.25);
  CHECK(std::abs(quarter.z_nm) > 4 * quarter.random_sd_nm);
}

}  // namespace
}  // namespace driftd::control
