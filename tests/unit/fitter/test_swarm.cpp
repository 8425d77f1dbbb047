// SPDX-License-Identifier: MIT
// The particle swarm: that it contracts on the minimum, that it needs no start, and that nothing
// but seed and ROI number decides what it does.
#include "fitter/swarm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fitter/elliptical_gaussian.hpp"
#include "fitter/options.hpp"
#include "fitter/swarm_search.hpp"
#include "support/catch.hpp"
#include "support/hard_spots.hpp"
#include "unit/fitter/explicit_sums.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::SwarmOptions;
using fitter::SwarmReport;
using Fits = std::vector<fitter::Localization>;
using Reports = std::vector<SwarmReport>;

constexpr std::size_t kImages = 300;

fitter::FitOptions elliptical() {
  fitter::FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  return options;
}

struct Found {
  Fits fits;
  Reports reports;
};

Found search(const fitter::Batch& batch, const SwarmOptions& swarm, int threads = 1,
             const fitter::FitOptions& options = elliptical()) {
  Found found = {Fits(batch.count), Reports(batch.count)};
  fitter::fit_swarm_cpu(batch, options, swarm, found.fits, found.reports, threads);
  return found;
}

TEST_CASE("The swarm contracts on the minimum, and the fit agrees with one from the peak") {
  const auto sample = test::draw_hard(test::Hard::Ordinary, kImages, 1);
  Fits from_peak(kImages);
  fitter::fit_batch_cpu(sample.batch(), elliptical(), from_peak);
  double distance_before = std::numeric_limits<double>::infinity();
  for (const int iterations : {5, 15, 30, 60}) {
    SwarmOptions swarm;
    swarm.iterations = iterations;
    const Found found = search(sample.batch(), swarm);
    double distance = 0;
    for (std::size_t i = 0; i < kImages; ++i) {
      REQUIRE(converged(found.fits[i].status));
      CHECK(found.fits[i].x_px == Approx(from_peak[i].x_px).margin(2e-3));
      CHECK(found.reports[i].chi_square >= from_peak[i].chi_square * (1 - 1e-4));
      distance += std::hypot(found.reports[i].best.x_px - from_peak[i].x_px,
                             found.reports[i].best.y_px - from_peak[i].y_px) /
                  kImages;
    }
    CHECK(distance < 0.6 * distance_before);
    distance_before = distance;
  }
  CHECK(distance_before < 1e-3);
}

TEST_CASE("The spread shrinks with the search and is of the order of the distance left") {
  const auto sample = test::draw_hard(test::Hard::Ordinary, kImages, 2);
  double spread_before = std::numeric_limits<double>::infinity();
  for (const int iterations : {10, 30, 60}) {
    SwarmOptions swarm;
    swarm.iterations = iterations;
    double spread = 0, distance = 0;
    const Found found = search(sample.batch(), swarm);
    for (std::size_t i = 0; i < kImages; ++i) {
      spread += found.reports[i].spread.x_px / kImages;
      distance += std::fabs(found.reports[i].best.x_px - found.fits[i].x_px) / kImages;
    }
    CHECK(spread < spread_before);
    CHECK(spread > 0.5 * distance);
    CHECK(spread < 50 * distance);
    spread_before = spread;
  }
}

TEST_CASE("A spot at the border is found without a start value") {
  const auto sample = test::draw_hard(test::Hard::AtBorder, kImages, 3);
  fitter::FitOptions options = elliptical();
  options.spots_only = false;
  CHECK(test::share_found(sample, search(sample.batch(), {}, 1, options).fits) > 0.99);
}

TEST_CASE("Bounds are the swarm's domain") {
  const auto sample = test::draw_hard(test::Hard::Ordinary, 20, 4);
  fitter::FitOptions options = elliptical();
  options.estimator = fitter::Estimator::LeastSquares;
  options.spots_only = false;
  options.bounds.lower[0] = 7;
  options.bounds.upper[2] = 0.9f;
  for (const SwarmReport& r : search(sample.batch(), {}, 1, options).reports) {
    CHECK(r.best.x_px >= 7);
    CHECK(r.best.sigma_x_px <= 0.9f);
  }
  std::vector<fitter::Bounds> single(20);
  for (std::size_t i = 0; i < 20; ++i) single[i].upper[1] = 1 + 0.1f * static_cast<float>(i);
  fitter::Batch bounded = sample.batch();
  bounded.bounds = single.data();
  const Reports of_each = search(bounded, {}, 3, options).reports;
  for (std::size_t i = 0; i < 20; ++i) CHECK(of_each[i].best.y_px <= single[i].upper[1]);
  options.bounds.lower[1] = options.bounds.upper[1] = 50;  // outside: nothing to search
  const Found found = search(sample.batch(), {}, 1, options);
  CHECK(std::isnan(found.reports[0].chi_square));
  CHECK(found.fits[0].status == fitter::FitStatus::BadInput);
}

TEST_CASE("The same bits on repeats, for any number of threads, and other ones for another seed") {
  const auto sample = test::draw_hard(test::Hard::TwoSpots, 50, 5);
  SwarmOptions swarm;
  swarm.iterations = 5;
  const Found once = search(sample.batch(), swarm);
  const Found threads = search(sample.batch(), swarm, 3);
  swarm.seed = 99;
  const Found other = search(sample.batch(), swarm);
  int differ = 0;
  for (std::size_t i = 0; i < once.reports.size(); ++i) {
    CHECK(once.reports[i].best.x_px == threads.reports[i].best.x_px);
    CHECK(once.fits[i].x_px == threads.fits[i].x_px);
    differ += once.reports[i].best.x_px != other.reports[i].best.x_px ? 1 : 0;
  }
  CHECK(differ > 45);
}

TEST_CASE("Blocks that count on give the bits of one batch") {
  const auto sample = test::draw_hard(test::Hard::TwoSpots, 50, 6);
  constexpr std::size_t kFirst = 17;
  SwarmOptions swarm;
  swarm.iterations = 5;
  const Found whole = search(sample.batch(), swarm);
  fitter::Batch rest = sample.batch();
  const auto side = static_cast<std::size_t>(rest.roi_px);
  rest.pixels = static_cast<const unsigned char*>(rest.pixels) +
                kFirst * side * side * fitter::bytes_per_pixel(rest.type);
  rest.count -= kFirst;
  swarm.first_roi = kFirst;
  const Found block = search(rest, swarm, 2);
  swarm.first_roi = 0;
  CHECK(search(rest, swarm).reports[0].best.x_px != block.reports[0].best.x_px);
  swarm.first_roi = (std::uint64_t{1} << 32) + kFirst;
  CHECK(search(rest, swarm).reports[0].best.x_px != block.reports[0].best.x_px);
  for (std::size_t i = 0; i < rest.count; ++i) {
    CHECK(block.reports[i].best.x_px == whole.reports[kFirst + i].best.x_px);
    CHECK(block.reports[i].spread.x_px == whole.reports[kFirst + i].spread.x_px);
    CHECK(block.fits[i].x_px == whole.fits[kFirst + i].x_px);
  }
}

/// Sum of squared residuals of a shape with its best levels.
double chi_square_of(const std::vector<double>& shape, const test::Image& g, int side) {
  const test::Image f = test::gaussian(shape, side);
  const double n = side * side, mean = test::sum(g) / n, mean_f = test::sum(f) / n;
  const double fg = test::sum(f, g) - n * mean_f * mean;
  const double ff = test::sum(f, f) - n * mean_f * mean_f;
  const double gg = test::sum(g, g) - n * mean * mean;
  return fg > 0 ? gg - fg * fg / ff : gg;
}

TEST_CASE("The steps of a swarm are those of its random numbers, particle by particle") {
  const auto sample = test::draw_hard(test::Hard::TwoSpots, 20, 4);
  constexpr int kSide = test::HardSample::kSidePx;
  constexpr std::size_t kPixels = kSide * kSide;
  constexpr int kParticles = 48, kSteps = 6;
  SwarmOptions o;
  o.particles = kParticles;
  o.iterations = kSteps;
  o.seed = 0x123456789abcdef0u;
  o.first_roi = 0x1234567800000001u;
  const Reports reports = search(sample.batch(), o).reports;

  const auto d = fitter::swarm_domain<fitter::EllipticalGaussian>(kSide, {}, nullptr);
  struct Particle {
    std::vector<double> at, velocity, best;
    double best_value;
  };
  for (std::size_t roi = 0; roi < reports.size(); ++roi) {
    const test::Image g(&sample.pixels[roi * kPixels], &sample.pixels[roi * kPixels] + kPixels);
    std::vector<Particle> swarm;
    for (std::uint32_t i = 0; i < kParticles; ++i) {
      const auto random = fitter::swarm_numbers(o.seed, o.first_roi + roi, i, 0);
      Particle p;
      for (std::size_t j = 0; j < 4; ++j)
        p.at.push_back(d.lowest[j] +
                       fitter::uniform_pair(random.v[j]).of_low * (d.highest[j] - d.lowest[j]));
      p.velocity.assign(4, 0);
      p.best = p.at;
      p.best_value = chi_square_of(p.at, g, kSide);
      swarm.push_back(p);
    }
    const auto best_of = [&] {
      return *std::min_element(swarm.begin(), swarm.end(), [](const auto& a, const auto& b) {
        return a.best_value < b.best_value;
      });
    };
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      const Particle best = best_of();
      for (std::uint32_t i = 0; i < kParticles; ++i) {
        Particle& p = swarm[i];
        const auto random = fitter::swarm_numbers(o.seed, o.first_roi + roi, i, step);
        for (std::size_t j = 0; j < 4; ++j) {
          const auto [own, of_swarm] = fitter::uniform_pair(random.v[j]);
          const double fastest = o.max_velocity * (d.highest[j] - d.lowest[j]);
          p.velocity[j] =
              std::clamp(o.inertia * p.velocity[j] + o.own_pull * own * (p.best[j] - p.at[j]) +
                             o.swarm_pull * of_swarm * (best.best[j] - p.at[j]),
                         -fastest, fastest);
          p.at[j] = std::clamp<double>(p.at[j] + p.velocity[j], d.lowest[j], d.highest[j]);
        }
        const double value = chi_square_of(p.at, g, kSide);
        if (value < p.best_value) {
          p.best = p.at;
          p.best_value = value;
        }
      }
    }
    const Particle best = best_of();
    CHECK(reports[roi].best.x_px == Approx(best.best[0]).margin(1e-4));
    CHECK(reports[roi].best.y_px == Approx(best.best[1]).margin(1e-4));
    CHECK(reports[roi].best.sigma_x_px == Approx(best.best[2]).margin(1e-4));
    CHECK(reports[roi].best.sigma_y_px == Approx(best.best[3]).margin(1e-4));
    CHECK(reports[roi].chi_square == Approx(best.best_value).epsilon(1e-4));
  }
}

TEST_CASE("All ROI sides and both models search") {
  const int side = GENERATE(4, 9, 17, 33, 64);
  const auto model = GENERATE(fitter::Model::CircularGaussian, fitter::Model::EllipticalGaussian);
  const double sigma = side / 8.0 + 0.5;
  const test::Spot spot = {side * 0.45, side * 0.55, sigma, 800, 50};
  const auto pixels = test::clean_image(spot, side);
  fitter::FitOptions options;
  options.model = model;
  const fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, side, 1};
  const Found found = search(batch, {}, 1, options);
  CHECK(converged(found.fits[0].status));
  CHECK(found.fits[0].x_px == Approx(spot.x_px).margin(1e-3 * side));
  CHECK(found.reports[0].best.x_px == Approx(spot.x_px).margin(0.05 * side));
}

TEST_CASE("Unusable pixels and senseless settings are said") {
  std::vector<float> pixels(81, 5.0f);
  const fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, 9, 1};
  const Found found = search(batch, {});
  CHECK(found.fits[0].status == fitter::FitStatus::BadInput);
  CHECK(std::isnan(found.reports[0].chi_square));
  SwarmOptions swarm;
  swarm.particles = 100;
  CHECK_THROWS_WITH(search(batch, swarm), contains("whole multiples of 16"));
  swarm.particles = 256;
  swarm.iterations = 0;
  CHECK_THROWS_WITH(search(batch, swarm), contains("swarm.iterations is 0"));
  const fitter::Start start = {4, 4, 1, 1};
  fitter::Batch started = batch;
  started.starts = &start;
  CHECK_THROWS_WITH(search(started, {}), contains("takes no start values"));
}

}  // namespace
}  // namespace driftd
