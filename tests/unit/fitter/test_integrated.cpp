// SPDX-License-Identifier: MIT
// Spots as a camera without gaps sees them, the Gaussian's mean over each pixel: every model,
// estimator and path of the CPU finds them again, and tells how well.
#include <cmath>
#include <random>

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/fit_spot.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Model;

FitOptions options_of(Model model, Estimator estimator) {
  FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.integrated = true;
  options.noise = {1, 0, 0};
  return options;
}

Estimator any_estimator() {
  return GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                  Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
}

test::Image expected_pixels(const test::Spot& s, int side) {
  const double across = s.sigma_y_px > 0 ? s.sigma_y_px : s.sigma_px;
  return test::scaled(test::gaussian({s.x_px, s.y_px, s.sigma_px, across}, side, true),
                      s.amplitude_adu, s.background_adu);
}

TEST_CASE("A spot that is the mean over its pixels is found as it is") {
  const Model model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  const FitOptions options = options_of(model, any_estimator());
  // One to a lane, and across lanes of one, two and any number of vectors.
  const int side = GENERATE(5, 9, 16, 31, 33, 64);
  for (const double sigma : {0.5, 0.7, 1.1}) {
    test::Spot spot = {side / 2.0 - 0.3, side / 2.0 - 0.8, sigma, 900, 20};
    if (model == Model::EllipticalGaussian) spot.sigma_y_px = 1.2 * sigma;
    const test::Image expected = expected_pixels(spot, side);
    const std::vector<float> pixels(expected.begin(), expected.end());
    const std::vector<float> variances(pixels.size(), 3);
    Localization l;
    fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, side, 1};
    if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
    fitter::fit_batch_cpu(batch, options, {&l, 1});
    CAPTURE(side, sigma, static_cast<int>(options.estimator), static_cast<int>(model));
    REQUIRE(converged(l.status));
    const auto is = [](float found, double truth, double error) {
      CHECK(static_cast<double>(found) == Approx(truth).epsilon(0).margin(error));
    };
    is(l.x_px, spot.x_px, 1e-4);
    is(l.y_px, spot.y_px, 1e-4);
    is(l.sigma_x_px, sigma, 1e-4);
    is(l.sigma_y_px, spot.sigma_y_px > 0 ? spot.sigma_y_px : sigma, 1e-4);
    is(l.amplitude_adu, 900, 0.3);
    is(l.background_adu, 20, 0.02);
  }
}

/// The whole fit by loops over the pixels, with the integrals in closed form.
template <class Model>
fitter::LocalizationOf<float> by_loops(const test::Image& image, int side,
                                       const FitOptions& options,
                                       const std::vector<float>& variances) {
  test::ScalarRoi roi(image, side, 40, {variances.begin(), variances.end()}, true);
  fitter::FitInput input;
  if (options.estimator == Estimator::WeightedLeastSquares) input.variances = variances.data();
  const auto own = [](bool mask) { return mask; };
  return options.estimator == Estimator::ImplicitLeastSquares
             ? fitter::fit_spot<fitter::ImplicitLeastSquares<Model>>(roi, input, options, own)
             : fitter::fit_spot<fitter::FullSearch<Model>>(roi, input, options, own);
}

TEST_CASE("Results and uncertainties are those of loops over pixels that are integrated") {
  const Model model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  FitOptions options = options_of(model, any_estimator());
  const bool gain_known = GENERATE(true, false);
  if (!gain_known) options.noise.gain_e_per_adu = 0;
  options.min_decrease = 0;  // both at the minimum, not somewhere near it
  options.min_step = 1e-5f;
  std::mt19937_64 generator(33);
  for (const int side : {9, 24, 33, 40}) {
    const test::Spot spot = {side / 2.0 - 0.3, side / 2.0 - 0.8, 0.8, 900, 20, 1.1};
    test::Image image = expected_pixels(spot, side);
    for (double& v : image) v = std::poisson_distribution<int>(v)(generator);
    const std::vector<float> pixels(image.begin(), image.end());
    std::vector<float> variances;
    for (const double v : expected_pixels(spot, side)) variances.push_back(test::f32(v));
    Localization l;
    fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, side, 1};
    if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
    fitter::fit_batch_cpu(batch, options, {&l, 1});
    const auto expected =
        model == Model::CircularGaussian
            ? by_loops<fitter::CircularGaussian>(image, side, options, variances)
            : by_loops<fitter::EllipticalGaussian>(image, side, options, variances);
    CAPTURE(side, static_cast<int>(options.estimator), static_cast<int>(model), gain_known);
    REQUIRE(converged(l.status));
    REQUIRE(expected.converged());
    const auto is = [](float found, float truth, float error) {
      CHECK(found == Approx(truth).epsilon(0).margin(static_cast<double>(error)));
    };
    is(l.x_px, expected.x_px, 0.03f * expected.x_sd_px);
    is(l.y_px, expected.y_px, 0.03f * expected.y_sd_px);
    is(l.sigma_x_px, expected.sigma_x_px, 0.03f * expected.sigma_x_sd_px);
    is(l.sigma_y_px, expected.sigma_y_px, 0.03f * expected.sigma_y_sd_px);
    is(l.chi_square, expected.chi_square, 1e-4f * expected.chi_square);
    is(l.x_sd_px, expected.x_sd_px, 2e-3f * expected.x_sd_px);
    is(l.y_sd_px, expected.y_sd_px, 2e-3f * expected.y_sd_px);
    is(l.sigma_x_sd_px, expected.sigma_x_sd_px, 2e-3f * expected.sigma_x_sd_px);
    is(l.sigma_y_sd_px, expected.sigma_y_sd_px, 2e-3f * expected.sigma_y_sd_px);
    is(l.amplitude_sd_adu, expected.amplitude_sd_adu, 2e-3f * expected.amplitude_sd_adu);
    is(l.background_sd_adu, expected.background_sd_adu, 2e-3f * expected.background_sd_adu);
  }
}

constexpr int kSide = 9;
constexpr double kSigma = 0.9;

struct NoisySpots {
  std::vector<test::Spot> truth;
  std::vector<std::uint16_t> pixels;
};

NoisySpots noisy_spots(std::size_t count, double sigma_px = kSigma) {
  std::mt19937_64 generator(31);
  std::uniform_real_distribution<double> offset(-0.5, 0.5);
  NoisySpots spots;
  for (std::size_t i = 0; i < count; ++i) {
    spots.truth.push_back({4 + offset(generator), 4 + offset(generator), sigma_px, 1000, 5});
    for (const double mean : expected_pixels(spots.truth.back(), kSide))
      spots.pixels.push_back(
          static_cast<std::uint16_t>(std::poisson_distribution<int>(mean)(generator)));
  }
  return spots;
}

TEST_CASE("Live fits are those of a batch where pixels are integrated") {
  const NoisySpots spots = noisy_spots(21);
  for (const Estimator estimator :
       {Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood}) {
    const FitOptions options = options_of(Model::CircularGaussian, estimator);
    const auto batch = test::fit_all(spots.pixels, kSide, options);
    const auto live = fitter::make_cpu_live_fitter(kSide, 21, options);
    for (std::size_t i = 0; i < 21; ++i)
      std::copy_n(spots.pixels.data() + i * kSide * kSide, kSide * kSide, live->staging(i));
    const std::vector<fitter::Start> cold(21);
    const auto found = live->fit(cold);
    REQUIRE(found.size() == 21);
    for (std::size_t i = 0; i < 21; ++i) {
      CAPTURE(i);
      CHECK(converged(found[i].status));
      CHECK(found[i].sigma_x_px == Approx(batch[i].sigma_x_px).margin(1e-4));
      CHECK(found[i].x_px == Approx(batch[i].x_px).margin(1e-4));
    }
  }
}

/// Errors over those told.
struct Pulls {
  double sum = 0, squares = 0, count = 0;
  void add(float found, double truth, float sd) {
    const double pull = (static_cast<double>(found) - truth) / static_cast<double>(sd);
    sum += pull;
    squares += pull * pull;
    ++count;
  }
  double rms() const { return std::sqrt(squares / count); }
};

TEST_CASE("Errors are as told, and sigma is the spot's own, where pixels are integrated") {
  const NoisySpots spots = noisy_spots(4000);
  const bool integrated = GENERATE(true, false);
  FitOptions options = options_of(Model::CircularGaussian, GENERATE(Estimator::ImplicitLeastSquares,
                                                                    Estimator::PoissonLikelihood));
  if (GENERATE(true, false)) options.noise.gain_e_per_adu = 0;  // uncertainties by residuals
  options.integrated = integrated;
  CAPTURE(static_cast<int>(options.estimator), options.noise.gain_e_per_adu, integrated);
  const auto fits = test::fit_all(spots.pixels, kSide, options);
  Pulls x, sigma, amplitude;
  double widths = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const Localization& l = fits[i];
    REQUIRE(converged(l.status));
    x.add(l.x_px, spots.truth[i].x_px, l.x_sd_px);
    sigma.add(l.sigma_x_px, kSigma, l.sigma_x_sd_px);
    amplitude.add(l.amplitude_adu, 1000, l.amplitude_sd_adu);
    widths += static_cast<double>(l.sigma_x_px) - kSigma;
  }
  const double count = static_cast<double>(fits.size());
  if (!integrated) {
    CHECK(widths / count > 0.04);
    return;
  }
  CHECK(std::fabs(widths / count) < 1e-3);
  CHECK(std::fabs(x.sum / count) < 0.05);
  // The gain is not known: a spot of few bright pixels tells its own noise to some 10 %.
  const double margin = options.noise.gain_e_per_adu > 0 ? 0.04 : 0.12;
  CHECK(x.rms() == Approx(1).margin(margin));
  CHECK(sigma.rms() == Approx(1).margin(margin));
  CHECK(amplitude.rms() == Approx(1).margin(margin));
}

TEST_CASE(
    "A narrow spot's errors are as told with a gain; without, by as much larger as documented") {
  const NoisySpots spots = noisy_spots(2000, 0.6);
  FitOptions options = options_of(Model::CircularGaussian, Estimator::ImplicitLeastSquares);
  const bool gain_known = GENERATE(true, false);
  if (!gain_known) options.noise.gain_e_per_adu = 0;
  const auto fits = test::fit_all(spots.pixels, kSide, options);
  Pulls x;
  for (std::size_t i = 0; i < fits.size(); ++i)
    if (converged(fits[i].status)) x.add(fits[i].x_px, spots.truth[i].x_px, fits[i].x_sd_px);
  CHECK(x.count > 1980);
  CHECK(x.rms() == Approx(gain_known ? 1 : 1.5).margin(0.1));
}

}  // namespace
}  // namespace driftd
