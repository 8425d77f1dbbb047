// SPDX-License-Identifier: MIT
// The elliptical Cauchy profile against images drawn from its formula in double precision.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fitter/elliptical_cauchy.hpp"
#include "fitter/fitter.hpp"
#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitDetails;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Parameter;

struct Profile {
  double x_px, y_px, sigma_x_px, sigma_y_px, amplitude, background;

  double at(double x, double y) const {
    const double u = (x - x_px) / sigma_x_px, v = (y - y_px) / sigma_y_px;
    return amplitude / (1 + u * u) / (1 + v * v) + background;
  }
};

std::vector<double> image(const Profile& profile, int side) {
  std::vector<double> pixels;
  for (int row = 0; row < side; ++row)
    for (int c = 0; c < side; ++c) pixels.push_back(profile.at(c, row));
  return pixels;
}

FitOptions cauchy(Estimator estimator) {
  FitOptions options;
  options.model = fitter::Model::EllipticalCauchy;
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  return options;
}

Estimator any_estimator() {
  return GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                  Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
}

TEST_CASE("The derivatives are those of the formula") {
  const fitter::EllipticalCauchy::Parameters<float> p = {{3.2f, 4.4f, 1.3f, 0.9f}};
  const auto at = fitter::EllipticalCauchy::shape(p, 9).at(4.0f, 3.0f);
  const auto f = [](double x, double y, double s, double t) {
    return Profile{x, y, s, t, 1, 0}.at(4, 3);
  };
  constexpr double h = 1e-5;
  CHECK(static_cast<double>(at.f) == Approx(f(3.2, 4.4, 1.3, 0.9)).epsilon(1e-5));
  const double d[] = {f(3.2 + h, 4.4, 1.3, 0.9) - f(3.2 - h, 4.4, 1.3, 0.9),
                      f(3.2, 4.4 + h, 1.3, 0.9) - f(3.2, 4.4 - h, 1.3, 0.9),
                      f(3.2, 4.4, 1.3 + h, 0.9) - f(3.2, 4.4, 1.3 - h, 0.9),
                      f(3.2, 4.4, 1.3, 0.9 + h) - f(3.2, 4.4, 1.3, 0.9 - h)};
  for (int j = 0; j < 4; ++j)
    CHECK(static_cast<double>(at.d[j]) == Approx(d[j] / (2 * h)).epsilon(1e-4));
}

TEST_CASE("A Cauchy profile is found as it is, cold, and is a spot") {
  const Estimator estimator = any_estimator();
  const int side = GENERATE(9, 13, 32, 33, 64);
  const Profile truth = {side / 2.0 - 0.3, side / 2.0 - 0.8, 1.4, 1.0, 900, 20};
  const std::vector<double> expected = image(truth, side);
  const std::vector<float> pixels(expected.begin(), expected.end());
  const std::vector<float> variances(pixels.size(), 3);
  const bool weighted = estimator == Estimator::WeightedLeastSquares;
  std::vector<Localization> fits(1);
  FitDetails details;
  fitter::fit_batch_cpu({.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = side,
                         .count = 1,
                         .variances = weighted ? variances.data() : nullptr,
                         .details = &details},
                        cauchy(estimator), fits);
  const Localization& l = fits[0];
  CAPTURE(static_cast<int>(estimator), side);
  CHECK(converged(l.status));
  CHECK(l.x_px == Approx(truth.x_px).margin(1e-4));
  CHECK(l.y_px == Approx(truth.y_px).margin(1e-4));
  CHECK(l.sigma_x_px == Approx(truth.sigma_x_px).epsilon(1e-4));
  CHECK(l.sigma_y_px == Approx(truth.sigma_y_px).epsilon(1e-4));
  CHECK(l.amplitude_adu == Approx(truth.amplitude).epsilon(2e-4));
  CHECK(l.background_adu == Approx(truth.background).epsilon(2e-3));
  CHECK(details.angle_rad == 0);
  CHECK(std::sqrt(details.covariance[0][0]) == Approx(l.x_sd_px).epsilon(1e-4));
}

TEST_CASE("Errors of Cauchy profiles are as large as told") {
  const Estimator estimator = any_estimator();
  constexpr int kSide = 13, kCount = 2000;
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> off(-0.5, 0.5);
  std::vector<float> pixels, variances;
  std::vector<Profile> truths;
  for (int i = 0; i < kCount; ++i) {
    truths.push_back({6 + off(random), 6 + off(random), 1.3, 1.1, 600, 10});
    for (const double mean : image(truths.back(), kSide)) {
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(random)));
      variances.push_back(static_cast<float>(mean));
    }
  }
  const bool weighted = estimator == Estimator::WeightedLeastSquares;
  std::vector<Localization> fits(kCount);
  fitter::fit_batch_cpu({.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = kSide,
                         .count = kCount,
                         .variances = weighted ? variances.data() : nullptr},
                        cauchy(estimator), fits, 0);
  double x = 0, sigma = 0, amplitude = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    REQUIRE(converged(fits[i].status));
    const auto squared = [](float found, double truth, float sd) {
      const double z = (static_cast<double>(found) - truth) / static_cast<double>(sd);
      return z * z / kCount;
    };
    x += squared(fits[i].x_px, truths[i].x_px, fits[i].x_sd_px);
    sigma += squared(fits[i].sigma_x_px, truths[i].sigma_x_px, fits[i].sigma_x_sd_px);
    amplitude += squared(fits[i].amplitude_adu, truths[i].amplitude, fits[i].amplitude_sd_adu);
  }
  CAPTURE(static_cast<int>(estimator));
  // The sampling error of a mean square of 2,000 is 3 %.
  for (const double mean_square : {x, sigma, amplitude})
    CHECK(mean_square == Approx(1).margin(0.12));
}

TEST_CASE("What is fixed or bounded of a Cauchy profile is so") {
  const Profile truth = {4.2, 3.9, 1.4, 1.0, 900, 20};
  const std::vector<double> expected = image(truth, 9);
  const std::vector<float> pixels(expected.begin(), expected.end());
  const fitter::Start start = {4, 4, 1.2f, 1.1f};
  FitOptions options = cauchy(Estimator::LeastSquares);
  options.spots_only = false;
  options.fixed = bit(Parameter::SigmaY);
  options.bounds.upper[0] = 4.1f;
  std::vector<Localization> fits(1);
  fitter::fit_batch_cpu({.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = 9,
                         .count = 1,
                         .starts = &start},
                        options, fits);
  CHECK(fits[0].sigma_y_px == 1.1f);
  CHECK(fits[0].sigma_y_sd_px == 0);
  CHECK(fits[0].x_px == 4.1f);
}

TEST_CASE("Live fits know no Cauchy profile") {
  CHECK_THROWS_AS(fitter::make_cpu_live_fitter(9, 1, cauchy(Estimator::LeastSquares)),
                  fitter::FitterError);
}

}  // namespace
}  // namespace driftd
