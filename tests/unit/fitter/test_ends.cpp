// SPDX-License-Identifier: MIT
// How near to the minimum a search ends, beside one from there that goes on as far as rounding lets
// it.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/spots.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::Localization;
using fitter::Model;

constexpr int kFits = 400;

/// Counts of photons, of spots of one kind.
struct Kind {
  const char* name;
  double amplitude, background, narrowest_px, widest_px;
  int side;
};

std::vector<float> draw(const Kind& kind, Model model) {
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> offset(-0.5, 0.5);
  std::uniform_real_distribution<double> width(kind.narrowest_px, kind.widest_px);
  std::vector<float> pixels;
  for (int i = 0; i < kFits; ++i) {
    const double centre = (kind.side - 1) / 2.0;
    test::Spot spot = {centre + offset(generator), centre + offset(generator), width(generator),
                       kind.amplitude, kind.background};
    if (model == Model::EllipticalGaussian) spot.sigma_y_px = width(generator);
    for (int row = 0; row < kind.side; ++row)
      for (int column = 0; column < kind.side; ++column) {
        std::poisson_distribution<int> counts(test::intensity(spot, column, row));
        pixels.push_back(static_cast<float>(counts(generator)));
      }
  }
  return pixels;
}

/// Beside their standard deviations: x, sigma x, amplitude, background.
std::array<double, 4> apart(const Localization& a, const Localization& b) {
  return {std::abs(double{a.x_px} - b.x_px) / a.x_sd_px,
          std::abs(double{a.sigma_x_px} - b.sigma_x_px) / a.sigma_x_sd_px,
          std::abs(double{a.amplitude_adu} - b.amplitude_adu) / a.amplitude_sd_adu,
          std::abs(double{a.background_adu} - b.background_adu) / a.background_sd_adu};
}

/// From where these ended, as far as rounding lets a search go.
std::vector<Localization> searched_on(const std::vector<float>& pixels, int side,
                                      fitter::FitOptions options,
                                      const std::vector<Localization>& fits) {
  options.spots_only = false;
  options.min_decrease = 0;
  options.min_step = 1e-7f;
  options.max_iterations = 100;
  options.lambda_max = 1e6f;
  std::vector<fitter::StartLevels> levels;
  for (const Localization& l : fits) levels.push_back({l.amplitude_adu, l.background_adu});
  const auto starts = test::starts_from(fits);
  fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, side, fits.size()};
  batch.starts = starts.data();
  if (options.estimator != Estimator::ImplicitLeastSquares) batch.levels = levels.data();
  std::vector<Localization> further(fits.size());
  fitter::fit_batch_cpu(batch, options, further);
  return further;
}

TEST_CASE("Fits end within a small part of a standard deviation of the minimum") {
  const auto model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  const auto estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                  Estimator::PoissonLikelihood);
  const auto kind = GENERATE(Kind{"plain", 400, 40, 1, 1.6, 9}, Kind{"dim", 20, 1, 1, 1.6, 9},
                             Kind{"bright", 3e4, 100, 1, 2, 13}, Kind{"wide", 400, 40, 2.5, 3.2, 9},
                             Kind{"large", 100, 50, 1.3, 2.5, 24},
                             Kind{"bright and narrow in the dark", 1e5, 0, 0.7, 0.9, 7});
  CAPTURE(static_cast<int>(model), static_cast<int>(estimator), kind.name);
  // A dark background is at its limit, or creeps.
  const bool in_the_dark = kind.background == 0 && estimator == Estimator::PoissonLikelihood;
  const auto pixels = draw(kind, model);
  fitter::FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  const auto fits = test::fit_all(pixels, kind.side, options);
  const auto further = searched_on(pixels, kind.side, options, fits);

  int count = 0;
  std::array<double, 4> squares = {}, most = {};
  double least_gain = INFINITY, most_gain = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (!converged(fits[i].status)) continue;
    ++count;
    const auto d = apart(fits[i], further[i]);
    for (std::size_t k = 0; k < d.size(); ++k) {
      squares[k] += d[k] * d[k];
      most[k] = std::max(most[k], d[k]);
    }
    const double gain = double{fits[i].chi_square} - further[i].chi_square;
    least_gain = std::min(least_gain, gain / further[i].chi_square);
    most_gain = std::max(most_gain, gain / further[i].chi_square);
  }
  CHECK(count > 0.95 * kFits);
  for (std::size_t k = 0; k < most.size(); ++k) {
    CAPTURE(k, most[k], std::sqrt(squares[k] / count));
    const bool creeps = in_the_dark && k == 3;
    CHECK(std::sqrt(squares[k] / count) < (creeps ? 0.1 : 2.5e-3));
    CHECK(most[k] < (creeps ? 1.0 : 0.025));
  }
  CAPTURE(least_gain, most_gain);
  CHECK(least_gain > -2e-4);
  CHECK(most_gain < (in_the_dark ? 1e-2 : 2e-4));
}

TEST_CASE("Spots that the model does not fit end near their minimum, too") {
  const auto estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares);
  const auto pixels = draw({"bright", 3e4, 100, 1, 2, 13}, Model::EllipticalGaussian);
  fitter::FitOptions options;  // of a round one
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  const auto fits = test::fit_all(pixels, 13, options);
  const auto further = searched_on(pixels, 13, options, fits);
  int count = 0;
  double squares = 0, most = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (!converged(fits[i].status)) continue;
    ++count;
    const double x = apart(fits[i], further[i])[0];
    squares += x * x;
    most = std::max(most, x);
  }
  CAPTURE(static_cast<int>(estimator), most, std::sqrt(squares / count));
  CHECK(count > kFits / 2);
  CHECK(std::sqrt(squares / count) < 0.015);
  CHECK(most < 0.1);
}

TEST_CASE("Of pixels with next to no noise uncertainties and chi-square are those of the end") {
  const auto estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares);
  constexpr int kSide = 9;
  std::mt19937 generator(11);
  std::normal_distribution<float> noise(0, 0.01f);
  const test::Spot spot = {4.2, 3.9, 1.3, 1000, 100};
  std::vector<float> pixels;
  std::vector<fitter::Start> starts;
  for (int i = 0; i < kFits; ++i) {
    for (const float pixel : test::clean_image(spot, kSide))
      pixels.push_back(pixel + noise(generator));
    starts.push_back({4.2f + 1e-4f * static_cast<float>(i % 100), 3.9f, 1.3f, 1.3f});
  }
  fitter::FitOptions options;
  options.estimator = estimator;
  const auto fits = test::fit_all(pixels, kSide, options, starts);
  const auto further = searched_on(pixels, kSide, options, fits);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    CAPTURE(i, static_cast<int>(estimator));
    REQUIRE(converged(fits[i].status));
    CHECK(fits[i].x_sd_px == Approx(further[i].x_sd_px).epsilon(0.1));
    CHECK(fits[i].chi_square == Approx(further[i].chi_square).epsilon(0.02));
  }
}

TEST_CASE("A background leaves its limit in a last step, too") {
  const auto pixels = draw({"on nothing", 1e5, 0, 4, 4, 32}, Model::CircularGaussian);
  fitter::FitOptions options;
  options.min_background_adu = 0;
  const auto fits = test::fit_all(pixels, 32, options);
  const auto further = searched_on(pixels, 32, options, fits);
  int at_limit = 0, left_it = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    CAPTURE(i);
    REQUIRE(converged(fits[i].status));
    CHECK((fits[i].background_adu == 0) == (further[i].background_adu == 0));
    ++(fits[i].background_adu == 0 ? at_limit : left_it);
  }
  CHECK(at_limit > kFits / 5);
  CHECK(left_it > kFits / 5);
}

}  // namespace
}  // namespace driftd
