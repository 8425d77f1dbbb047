// SPDX-License-Identifier: MIT
// The elliptical Gaussian in any direction: found as it is, fixed, bounded, and round.
#include <cmath>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/rotated_gaussian.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/fitter/ellipses.hpp"

namespace driftd {
namespace {

using namespace test;

TEST_CASE("An ellipse in any direction is found as it is") {
  const bool integrated = GENERATE(false, true);
  const int side = GENERATE(9, 13, 32, 33, 64);
  for (const double angle : {-0.75, -0.4, 0.0, 0.1, 0.7}) {
    if (test::kInstrumented && angle < 0.7) continue;  // which takes some ten times as long
    for (const double ratio : {0.7, 1.25, 1.6}) {
      const Ellipse truth = {side / 2.0 - 0.3, side / 2.0 - 0.8, 1.1 * ratio, 1.1, angle, 900, 20};
      const std::vector<double> expected = image(truth, side, integrated);
      const std::vector<float> pixels(expected.begin(), expected.end());
      const std::vector<float> variances(pixels.size(), 3);
      for (const Estimator estimator : kEstimators) {
        FitOptions options = rotated(estimator);
        options.integrated = integrated;
        Batch batch = {
            .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = side, .count = 1};
        if (estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
        const Fit found = fit(batch, options).front();
        CAPTURE(side, angle, ratio, integrated, static_cast<int>(estimator));
        REQUIRE(converged(found.l.status));
        const double error = integrated ? 1e-3 : 1e-4;  // of the drawing
        is(found.l.x_px, truth.x_px, error);
        is(found.l.y_px, truth.y_px, error);
        is(found.l.sigma_x_px, truth.sigma_x_px, error);
        is(found.l.sigma_y_px, truth.sigma_y_px, error);
        is(found.d.angle_rad, angle, 3 * error);
        is(found.l.amplitude_adu, 900, 900 * error);
        is(found.l.background_adu, 20, 0.02);
      }
    }
  }
}

TEST_CASE("Of an ellipse, too, no likelihoods tell their order") {
  using Search = fitter::PixelwiseSearch<fitter::RotatedGaussian>;
  Search::Domain domain = {};
  domain.noise.estimator = Estimator::PoissonLikelihood;
  CHECK(Search::least_told(domain, {}, {}) == INFINITY);
  domain.noise.estimator = Estimator::LeastSquares;
  CHECK(Search::least_told(domain, {}, {}) == 0);
}

TEST_CASE("What a fit of an ellipse minimizes is told") {
  FitOptions options = rotated(any_estimator());
  options.noise = {0.5f, 0, 10};
  const Ellipse truth = {6.2, 5.7, 1.7, 1.2, 0.4, 900, 40};
  std::mt19937_64 random(5);
  std::vector<float> pixels;
  for (const double m : image(truth, 13))
    pixels.push_back(
        10 + 2 * static_cast<float>(std::poisson_distribution<int>(0.5 * (m - 10))(random)));
  const std::vector<float> variances(pixels.size(), 3);
  Batch batch = {.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 13, .count = 1};
  if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
  const Fit found = fit(batch, options).front();
  REQUIRE(converged(found.l.status));
  const std::vector<double> model =
      image({found.l.x_px, found.l.y_px, found.l.sigma_x_px, found.l.sigma_y_px, found.d.angle_rad,
             found.l.amplitude_adu, found.l.background_adu},
            13);
  double expected = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double r = pixels[i] - model[i];
    const double q = 0.5 * (pixels[i] - 10), m = 0.5 * (model[i] - 10);  // electrons
    if (options.estimator == Estimator::PoissonLikelihood)
      expected += 2 * (m - q - (q > 0 ? q * std::log(m / q) : 0));
    else
      expected += options.estimator == Estimator::WeightedLeastSquares ? r * r / 3 : r * r;
  }
  CHECK(found.l.chi_square == Approx(expected).epsilon(1e-4));
}

TEST_CASE("Of the angles that make the same ellipse the one nearest to the start is told") {
  const Ellipse truth = {5.8, 6.3, 1.7, 1.1, 0.4, 900, 20};
  const std::vector<double> expected = image(truth, 13);
  const std::vector<float> pixels(expected.begin(), expected.end());
  const int quarters = GENERATE(-3, -2, -1, 0, 1, 2, 3);
  const bool by_axes = GENERATE(false, true);
  const bool change = quarters % 2 != 0;
  const double near = truth.angle_rad + quarters * kPi / 2 + 0.3;
  const fitter::Start start = {6, 6, change ? 1.0f : 1.5f, change ? 1.5f : 1.0f};
  const float angle = static_cast<float>(near);
  const fitter::Bounds wide;
  const Fit found = fit({.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = 13,
                         .count = 1,
                         .starts = &start,
                         .bounds = by_axes ? &wide : nullptr,
                         .angles_rad = &angle},
                        rotated(Estimator::LeastSquares))
                        .front();
  CAPTURE(quarters, by_axes);
  REQUIRE(converged(found.l.status));
  is(found.d.angle_rad, near - 0.3, 1e-3);
  is(found.l.sigma_x_px, change ? 1.1 : 1.7, 1e-3);
  is(found.l.sigma_y_px, change ? 1.7 : 1.1, 1e-3);
}

TEST_CASE("What is fixed of an ellipse stays, and the rest is fitted around it") {
  const Ellipse truth = {5.8, 6.3, 1.7, 1.1, 0.4, 900, 20};
  const std::vector<double> expected = image(truth, 13);
  const std::vector<float> pixels(expected.begin(), expected.end());
  const fitter::Start start = {6, 6, 1.5f, 1.2f};
  const float angle = 0.2f;
  const Batch batch = {.pixels = pixels.data(),
                       .type = fitter::PixelType::F32,
                       .roi_px = 13,
                       .count = 1,
                       .starts = &start,
                       .angles_rad = &angle};
  FitOptions options = rotated(GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood));
  options.spots_only = false;
  SECTION("the angle") {
    options.fixed = fitter::kAngleBit;
    const Fit found = fit(batch, options).front();
    CHECK(found.d.angle_rad == 0.2f);
    CHECK(found.d.angle_sd_rad == 0);
    is(found.l.x_px, 5.8, 1e-3);
    // The widths that lie nearest, as a search over a grid has them.
    double best = 1e30, best_x = 0;
    for (double sx = 1.5; sx < 1.8; sx += 0.002) {
      for (double sy = 1.0; sy < 1.3; sy += 0.01) {
        // Amplitude and background by linear least squares.
        const std::vector<double> f = image({5.8, 6.3, sx, sy, 0.2, 1, 0}, 13);
        double n = 0, s = 0, ss = 0, g = 0, sg = 0, gg = 0;
        for (std::size_t i = 0; i < f.size(); ++i) {
          n += 1, s += f[i], ss += f[i] * f[i], g += expected[i], sg += f[i] * expected[i];
          gg += expected[i] * expected[i];
        }
        const double a = (sg - s * g / n) / (ss - s * s / n), b = (g - a * s) / n;
        const double squares = gg - a * sg - b * g;
        if (squares < best) best = squares, best_x = sx;
      }
    }
    if (options.estimator == Estimator::LeastSquares) is(found.l.sigma_x_px, best_x, 0.004);
  }
  SECTION("a width") {
    options.fixed = bit(fitter::Parameter::SigmaX);
    const Fit found = fit(batch, options).front();
    CHECK(found.l.sigma_x_px == 1.5f);
    CHECK(found.l.sigma_x_sd_px == 0);
    is(found.d.angle_rad, 0.4, 0.05);
    CHECK(found.d.angle_sd_rad > 0);
  }
  SECTION("all of the shape") {
    options.fixed = fitter::kAngleBit | bit(fitter::Parameter::X) | bit(fitter::Parameter::Y) |
                    bit(fitter::Parameter::SigmaX) | bit(fitter::Parameter::SigmaY);
    const Fit found = fit(batch, options).front();
    CHECK(found.l.x_px == 6);
    CHECK(found.l.sigma_y_px == 1.2f);
    CHECK(found.d.angle_rad == 0.2f);
    CHECK(found.l.amplitude_adu > 600);
  }
}

TEST_CASE("Widths and angle of an ellipse keep within bounds") {
  const Ellipse truth = {5.8, 6.3, 1.7, 1.1, 0.4, 900, 20};
  const std::vector<double> expected = image(truth, 13);
  const std::vector<float> pixels(expected.begin(), expected.end());
  Batch batch = {.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 13, .count = 1};
  FitOptions options = rotated(Estimator::LeastSquares);
  SECTION("bounds of all") {
    options.bounds.upper[2] = 1.6f;
    CHECK(fit(batch, options).front().l.sigma_x_px == 1.6f);
  }
  SECTION("of one") {
    fitter::Bounds bounds;
    bounds.lower[3] = 1.2f;
    batch.bounds = &bounds;
    CHECK(fit(batch, options).front().l.sigma_y_px == 1.2f);
  }
  SECTION("of its angle") {
    const fitter::AngleBounds bounds = {-0.3f, 0.3f};
    batch.angle_bounds = &bounds;
    CHECK(fit(batch, options).front().d.angle_rad == 0.3f);
  }
  SECTION("none that matters") {
    const fitter::AngleBounds bounds = {-0.5f, 0.5f};
    batch.angle_bounds = &bounds;
    const Fit found = fit(batch, options).front();
    is(found.d.angle_rad, 0.4, 1e-3);
    is(found.l.sigma_x_px, 1.7, 1e-3);
  }
}

TEST_CASE("A round spot has no angle, and is found all the same") {
  const Ellipse truth = {5.8, 6.3, 1.3, 1.3, 0, 900, 20};
  std::mt19937_64 generator(4);
  constexpr std::size_t kCount = 200;
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i)
    for (const double v : image(truth, 13))
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(v)(generator)));
  const bool by_axes = GENERATE(false, true);
  FitOptions options = rotated(any_estimator());
  if (options.estimator == Estimator::WeightedLeastSquares) return;
  if (by_axes && options.estimator == Estimator::ImplicitLeastSquares) return;
  if (by_axes) options.bounds.upper[2] = 6;
  int good = 0, turned = 0;
  double squares = 0;
  for (const Fit& f :
       fit({.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 13, .count = kCount},
           options)) {
    if (converged(f.l.status)) ++good;
    const double x = (static_cast<double>(f.l.x_px) - 5.8) / static_cast<double>(f.l.x_sd_px);
    squares += x * x;
    if (std::abs(static_cast<double>(f.d.angle_rad)) > 0.5) ++turned;
  }
  CAPTURE(by_axes, static_cast<int>(options.estimator));
  CHECK(good == kCount);
  CHECK(squares / kCount == Approx(1).margin(0.35));
  CHECK(turned > 20);
}

}  // namespace
}  // namespace driftd
