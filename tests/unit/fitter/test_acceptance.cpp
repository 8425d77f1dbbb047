// SPDX-License-Identifier: MIT
// Nasty inputs: never a wrong answer passed as right.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::FitStatus;

constexpr int kSide = 13;
constexpr test::Spot kSpot = {6.2, 5.9, 1.4, 800, 100};

std::size_t accepted(const std::vector<fitter::Localization>& fits) {
  return static_cast<std::size_t>(
      std::count_if(fits.begin(), fits.end(), [](const auto& l) { return converged(l.status); }));
}

std::vector<float> with_noise(std::vector<float> pixels, float sd, std::mt19937_64& generator) {
  std::normal_distribution<float> noise(0, sd);
  for (float& p : pixels) p += noise(generator);
  return pixels;
}

void check_all_nan(const fitter::Localization& l) {
  for (const float v : {l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px, l.amplitude_adu,
                        l.background_adu, l.chi_square, l.x_sd_px, l.y_sd_px, l.sigma_x_sd_px,
                        l.sigma_y_sd_px, l.amplitude_sd_adu, l.background_sd_adu})
    CHECK(std::isnan(v));
}

TEST_CASE("One pixel that is not finite makes bad input, wherever it is") {
  const float bad =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
               -std::numeric_limits<float>::infinity(), 3e38f);
  const int side = GENERATE(4, 7, 9, 13, 16, 17, 33, 64);
  const auto clean = test::clean_image({side / 2.0, side / 2.0, 1.2, 800, 100}, side);
  for (std::size_t i = 0; i < clean.size(); ++i) {
    auto pixels = clean;
    pixels[i] = bad;
    const auto fit = test::fit_one(pixels, side);
    if (fit.status != FitStatus::BadInput) FAIL("side " << side << " pixel " << i);
    if (i == 0) check_all_nan(fit);
  }
}

TEST_CASE("All-equal pixels are bad input") {
  for (const int side : {4, 9, 64}) {
    const auto count = static_cast<std::size_t>(side * side);
    CHECK(test::fit_one(std::vector<std::uint16_t>(count, 0), side).status == FitStatus::BadInput);
    CHECK(test::fit_one(std::vector<std::uint8_t>(count, 255), side).status == FitStatus::BadInput);
    CHECK(test::fit_one(std::vector<float>(count, -1.5f), side).status == FitStatus::BadInput);
  }
}

TEST_CASE("One saturated pixel makes bad input, one below saturation does not") {
  std::vector<std::uint16_t> pixels;
  for (const float p : test::clean_image(kSpot, kSide))
    pixels.push_back(static_cast<std::uint16_t>(std::lround(p)));
  fitter::FitOptions options;
  options.saturation_adu = *std::max_element(pixels.begin(), pixels.end());
  CHECK(test::fit_one(pixels, kSide, options).status == FitStatus::BadInput);
  ++options.saturation_adu;
  CHECK(converged(test::fit_one(pixels, kSide, options).status));
}

TEST_CASE("Bad input leaves the neighbours of a batch alone") {
  auto pixels = test::clean_image(kSpot, kSide);
  const auto alone = test::fit_one(pixels, kSide);
  std::vector<float> batch;
  for (int i = 0; i < 9; ++i) {
    batch.insert(batch.end(), pixels.begin(), pixels.end());
    if (i % 3 == 1) batch[batch.size() - 5] = NAN;
  }
  const auto fits = test::fit_all(batch, kSide);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (i % 3 == 1) {
      CHECK(fits[i].status == FitStatus::BadInput);
    } else {
      CHECK(fits[i].x_px == alone.x_px);
    }
  }
}

TEST_CASE("Noise without a spot is refused") {
  const int side = GENERATE(4, 5, 7, 9, 13, 16, 24, 64);
  const std::size_t count = side < 20 ? 20000 : 2000;
  std::mt19937_64 generator(5);
  const auto pixels = with_noise(
      std::vector<float>(count * static_cast<std::size_t>(side * side), 100), 10, generator);
  INFO("side " << side);
  CHECK(accepted(test::fit_all(pixels, side)) <= count / 5000);  // stated: 0.2 to 1 in 10,000
}

TEST_CASE("A gradient without a spot is refused") {
  const int side = GENERATE(5, 7, 9, 13, 16, 24);
  constexpr std::size_t kCount = 20000;
  std::mt19937_64 generator(6);
  std::normal_distribution<double> slope(0, 40.0 / side);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double by_x = slope(generator), by_y = slope(generator);
    for (int row = 0; row < side; ++row)
      for (int column = 0; column < side; ++column)
        pixels.push_back(static_cast<float>(500 + by_x * column + by_y * row));
  }
  INFO("side " << side);
  const auto fits = test::fit_all(with_noise(pixels, 10, generator), side);
  CHECK(accepted(fits) <= kCount * 2 / 1000);  // stated: 2 in 1,000
}

TEST_CASE("A pure gradient, an edge, a hole and a hot pixel are refused") {
  std::vector<float> ramp, edge;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      ramp.push_back(static_cast<float>(3 * row + 5 * column));
      edge.push_back(column < 5 ? 10.0f : 200.0f);
    }
  }
  CHECK_FALSE(converged(test::fit_one(ramp, kSide).status));
  CHECK_FALSE(converged(test::fit_one(edge, kSide).status));
  test::Spot hole = kSpot;
  hole.amplitude_adu = -80;
  CHECK_FALSE(converged(test::fit_one(test::clean_image(hole, kSide), kSide).status));
  std::mt19937_64 generator(8);
  auto hot = with_noise(std::vector<float>(kSide * kSide, 100), 3, generator);
  hot[70] = 4000;
  CHECK_FALSE(converged(test::fit_one(hot, kSide).status));
}

TEST_CASE("A spot whose centre lies outside the ROI is refused") {
  std::mt19937_64 generator(9);
  for (const double x : {-4.0, -2.0, -1.0, 13.2, 14.5}) {
    test::Spot spot = kSpot;
    spot.x_px = x;
    const auto fit = test::fit_one(with_noise(test::clean_image(spot, kSide), 3, generator), kSide);
    INFO("x " << x << " fitted " << fit.x_px << " " << name_of(fit.status));
    CHECK_FALSE(converged(fit.status));
  }
}

TEST_CASE("A spot at the edge is right within its own uncertainty, or refused") {
  std::mt19937_64 generator(10);
  for (double x = -0.4; x < 2; x += 0.05) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      test::Spot spot = kSpot;
      spot.x_px = x;
      const auto fit =
          test::fit_one(with_noise(test::clean_image(spot, kSide), 3, generator), kSide);
      if (!converged(fit.status)) continue;
      INFO("x " << x << " fitted " << fit.x_px << " +- " << fit.x_sd_px);
      CHECK(std::fabs(fit.x_px - x) < 5 * fit.x_sd_px);  // 940 fits: none beyond 5 sd
    }
  }
}

TEST_CASE("Two spots: the answer is the brighter one, or refused, or tells by its width") {
  std::mt19937_64 generator(11);
  constexpr double kSigma = 1.3;
  for (const double ratio : {0.5, 0.7, 1.0}) {
    for (double distance = 1; distance <= 7; distance += 0.5) {
      const test::Spot first = {4, 6, kSigma, 2000, 0};
      const test::Spot second = {4 + distance, 6, kSigma, 2000 * ratio, 0};
      auto pixels = test::clean_image(first, kSide);
      const auto other = test::clean_image(second, kSide);
      for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] += 100 + other[i];
      const auto fit = test::fit_one(with_noise(pixels, 12, generator), kSide);
      const double error = std::hypot(fit.x_px - 4, fit.y_px - 6);
      const double merged = std::hypot(fit.x_px - 4 - distance * ratio / (1 + ratio), fit.y_px - 6);
      INFO("ratio " << ratio << " distance " << distance << " x " << fit.x_px << " sigma "
                    << fit.sigma_x_px << " " << name_of(fit.status));
      if (!converged(fit.status)) continue;
      if (distance >= 4.5) {
        CHECK(error < 0.15);
      } else {
        CHECK((error < 0.15 || merged < 0.25 * distance));
        CHECK((distance < 2 || fit.sigma_x_px > 1.05 * kSigma));
      }
    }
  }
}

TEST_CASE("A wide, dim spot passes where the gain is known") {
  struct Case {
    int side;
    double sigma, photons, background;
  };
  const Case c = GENERATE(Case{64, 8, 3000, 1}, Case{32, 3.5, 100, 0}, Case{32, 3.5, 300, 0});
  const auto model = GENERATE(fitter::Model::CircularGaussian, fitter::Model::RotatedGaussian);
  const auto estimator =
      GENERATE(fitter::Estimator::ImplicitLeastSquares, fitter::Estimator::PoissonLikelihood);
  constexpr int kCount = 100;
  std::mt19937_64 generator(12);
  std::uniform_real_distribution<double> off(-1, 1);
  std::vector<std::uint16_t> pixels;
  const double middle = (c.side - 1) / 2.0, peak = c.photons / (2 * M_PI * c.sigma * c.sigma);
  for (int i = 0; i < kCount; ++i)
    for (const float mean : test::clean_image(
             {middle + off(generator), middle + off(generator), c.sigma, peak, c.background},
             c.side))
      pixels.push_back(static_cast<std::uint16_t>(
          std::poisson_distribution<int>(static_cast<double>(mean))(generator)));
  fitter::FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise.gain_e_per_adu = 1;
  CAPTURE(c.side, c.photons, static_cast<int>(model), static_cast<int>(estimator));
  CHECK(accepted(test::fit_all(pixels, c.side, options)) >= kCount - 1);
}

TEST_CASE("A known gain lets no second spot and no ring pass as one spot") {
  // From 100 electrons at the peak on light is no reason for structure.
  constexpr int kCount = 100;
  const double peak = GENERATE(100.0, 1000.0);
  const bool ring = GENERATE(false, true);
  std::mt19937_64 generator(13);
  std::vector<std::uint16_t> pixels;
  for (int i = 0; i < kCount; ++i)
    for (int row = 0; row < kSide; ++row)
      for (int column = 0; column < kSide; ++column) {
        const double x = column - 3.0, y = row - 6.0, r = std::hypot(column - 6.0, y);
        const double one =
            ring ? std::exp(-(r - 4) * (r - 4) / 2) : std::exp(-(x * x + y * y) / (2 * 1.3 * 1.3));
        const double other =
            std::exp(-(ring ? r * r : (x - 6) * (x - 6) + y * y) / (2 * 1.3 * 1.3));
        pixels.push_back(static_cast<std::uint16_t>(
            std::poisson_distribution<int>(peak * (one + other) + 2)(generator)));
      }
  fitter::FitOptions options;
  options.noise.gain_e_per_adu = 1;
  CAPTURE(peak, ring);
  CHECK(accepted(test::fit_all(pixels, kSide, options)) == accepted(test::fit_all(pixels, kSide)));
  CHECK(accepted(test::fit_all(pixels, kSide, options)) == 0);
}

}  // namespace
}  // namespace driftd
