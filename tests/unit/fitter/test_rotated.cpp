// SPDX-License-Identifier: MIT
// The elliptical Gaussian in any direction, and the covariances of all models, against images drawn
// from their formulas in double precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/frames.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/rotated_gaussian.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/fitter/fits.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Batch;
using fitter::Estimator;
using fitter::FitDetails;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Model;

constexpr double kPi = std::numbers::pi;

struct Ellipse {
  double x_px, y_px, sigma_x_px, sigma_y_px, angle_rad, amplitude, background;
};

/// An ellipse with the sine and the cosine of its angle.
class Shape {
 public:
  explicit Shape(const Ellipse& e) : e_(e), c_(std::cos(e.angle_rad)), s_(std::sin(e.angle_rad)) {}
  double operator()(double x, double y) const {
    const double u = x - e_.x_px, v = y - e_.y_px;
    const double along = (u * c_ + v * s_) / e_.sigma_x_px;
    const double beside = (v * c_ - u * s_) / e_.sigma_y_px;
    return e_.amplitude * std::exp(-0.5 * (along * along + beside * beside)) + e_.background;
  }

 private:
  Ellipse e_;
  double c_, s_;
};

/// @param integrated  over each pixel: by Gauss's three places along each axis, which for widths of
///                    0.7 pixels and more is right to 1e-4
std::vector<double> image(const Ellipse& e, int side, bool integrated = false) {
  const Shape shape(e);
  const double apart = std::sqrt(0.15);
  const std::array<double, 3> place = {-apart, 0, apart}, weight = {5.0 / 18, 8.0 / 18, 5.0 / 18};
  std::vector<double> pixels;
  for (int row = 0; row < side; ++row) {
    for (int c = 0; c < side; ++c) {
      double sum = integrated ? 0 : shape(c, row);
      for (std::size_t i = 0; integrated && i < 9; ++i)
        sum += weight[i % 3] * weight[i / 3] * shape(c + place[i % 3], row + place[i / 3]);
      pixels.push_back(sum);
    }
  }
  return pixels;
}

struct Fit {
  Localization l;
  FitDetails d;
};

std::vector<Fit> fit(Batch batch, const FitOptions& options, int threads = 1) {
  std::vector<Localization> results(batch.count);
  std::vector<FitDetails> details(batch.count);
  batch.details = details.data();
  fitter::fit_batch_cpu(batch, options, results, threads);
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < batch.count; ++i) fits.push_back({results[i], details[i]});
  return fits;
}

FitOptions rotated(Estimator estimator) {
  FitOptions options;
  options.model = Model::RotatedGaussian;
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  return options;
}

constexpr std::array kEstimators = {Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                    Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood};

Estimator any_estimator() {
  return GENERATE(from_range(kEstimators.begin(), kEstimators.end()));
}

void is(float found, double truth, double error) {
  CHECK(static_cast<double>(found) == Approx(truth).epsilon(0).margin(error));
}

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

/// The mean square of errors in units of the covariance, and of each by its own error; and of how
/// many fits the details do not say what the results do.
struct Coverage {
  double all = 0;
  std::array<double, FitDetails::kOrder> of = {};
  int fits = 0, unlike = 0;
};

/// Noisy images of one spot, with their variances.
struct NoisySpots {
  static constexpr std::size_t kCount = test::kInstrumented ? 60 : 4000;
  NoisySpots(const Ellipse& spot, const FitOptions& options, int side_px)
      : truth(spot), side(side_px) {
    std::mt19937_64 generator(5);
    const std::vector<double> expected = image(truth, side, options.integrated);
    const float gain = options.noise.gain_e_per_adu;
    const double electrons = gain > 0 ? static_cast<double>(gain) : 1.0;
    std::vector<std::poisson_distribution<int>> counts;
    for (const double v : expected) counts.emplace_back(v * electrons);
    for (std::size_t i = 0; i < kCount; ++i) {
      for (auto& count : counts) {
        pixels.push_back(static_cast<float>(count(generator) / electrons));
        variances.push_back(static_cast<float>(count.mean() / electrons / electrons));
      }
    }
  }
  Ellipse truth;
  int side;
  std::vector<float> pixels, variances;
};

/// @param order  the parameters that there are
Coverage coverage(const NoisySpots& spots, const FitOptions& options,
                  const std::vector<int>& order) {
  const Ellipse& truth = spots.truth;
  Batch batch = {.pixels = spots.pixels.data(),
                 .type = fitter::PixelType::F32,
                 .roi_px = spots.side,
                 .count = NoisySpots::kCount};
  if (options.estimator == Estimator::WeightedLeastSquares)
    batch.variances = spots.variances.data();
  Coverage result;
  for (const auto& [l, d] : fit(batch, options, 2)) {
    if (!converged(l.status)) continue;
    const double error[] = {l.x_px - truth.x_px,
                            l.y_px - truth.y_px,
                            l.sigma_x_px - truth.sigma_x_px,
                            l.sigma_y_px - truth.sigma_y_px,
                            l.amplitude_adu - truth.amplitude,
                            l.background_adu - truth.background,
                            d.angle_rad - truth.angle_rad};
    const float sd[] = {l.x_sd_px,          l.y_sd_px,           l.sigma_x_sd_px, l.sigma_y_sd_px,
                        l.amplitude_sd_adu, l.background_sd_adu, d.angle_sd_rad};
    const std::size_t n = order.size();
    // Cholesky's factor, and the errors divided by it.
    std::vector<double> factor(n * n), z(n);
    bool alike = true;
    for (std::size_t i = 0; i < n; ++i) {
      const auto a = static_cast<std::size_t>(order[i]);
      const double own = std::sqrt(static_cast<double>(d.covariance[a][a]));
      alike = alike && std::abs(static_cast<double>(sd[a]) - own) <= 3e-3 * own;
      for (std::size_t j = 0; j <= i; ++j) {
        const auto b = static_cast<std::size_t>(order[j]);
        alike = alike && d.covariance[a][b] == d.covariance[b][a];
        double v = static_cast<double>(d.covariance[a][b]);
        for (std::size_t k = 0; k < j; ++k) v -= factor[i * n + k] * factor[j * n + k];
        factor[i * n + j] = i == j ? std::sqrt(v) : v / factor[j * n + j];
      }
      z[i] = error[a];
      for (std::size_t j = 0; j < i; ++j) z[i] -= factor[i * n + j] * z[j];
      z[i] /= factor[i * n + i];
      result.all += z[i] * z[i];
      result.of[a] += error[a] * error[a] / static_cast<double>(sd[a] * sd[a]);
    }
    if (!alike) ++result.unlike;
    ++result.fits;
  }
  result.all /= result.fits;
  for (double& squares : result.of) squares /= result.fits;
  return result;
}

TEST_CASE("Covariances are those of the fits' errors") {
  FitOptions options = rotated(Estimator::LeastSquares);
  options.model =
      GENERATE(Model::CircularGaussian, Model::EllipticalGaussian, Model::RotatedGaussian);
  options.integrated = GENERATE(false, true);
  const bool gain_known = GENERATE(true, false);
  options.noise.gain_e_per_adu = gain_known ? 2.0f : 0.0f;
  Ellipse truth = {6.2, 5.9, 1.5, 1.1, 0.35, 400, 20};
  std::vector<int> order = {0, 1, 2, 3, 4, 5, 6};
  if (options.model != Model::RotatedGaussian) truth.angle_rad = 0, order.pop_back();
  if (options.model == Model::CircularGaussian) {
    truth.sigma_x_px = truth.sigma_y_px;
    order = {0, 1, 2, 4, 5};
  }
  const NoisySpots spots(truth, options, 13);
  for (const Estimator estimator : kEstimators) {
    options.estimator = estimator;
    const Coverage found = coverage(spots, options, order);
    CAPTURE(static_cast<int>(options.model), static_cast<int>(estimator), options.integrated,
            gain_known);
    CHECK(found.unlike == 0);
    if (test::kInstrumented) continue;
    CHECK(found.fits > 3990);
    // 4,000 sums of n squares: 2.2 % for n = 1. What the residuals of one image tell of its noise
    // is too little for the amplitude of narrow spots, which hangs on the few brightest pixels.
    const auto n = static_cast<double>(order.size());
    CHECK(found.all / n == Approx(1).margin(gain_known ? 0.06 : 0.12));
    for (const int parameter : order) {
      CAPTURE(parameter);
      CHECK(found.of[static_cast<std::size_t>(parameter)] ==
            Approx(1).margin(gain_known ? 0.09 : 0.2));
    }
  }
}

TEST_CASE("Details of fits that wait for others, or are tried again, are those of each alone") {
  FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood);
  const int side = GENERATE(9, 33);
  constexpr std::size_t kCount = test::kInstrumented ? 140 : 400;  // from 128 on some are left
  std::mt19937_64 generator(12);
  std::uniform_real_distribution<double> off(-1, 1);
  std::vector<float> pixels;
  std::vector<fitter::Start> starts;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double middle = (side - 1) / 2.0, x = middle + off(generator), y = middle - 0.4;
    const double amplitude = i % 10 == 9 ? 0 : 400;  // blank
    for (const double v : image({x, y, 1.3, 1.2, 0, amplitude, 20}, side))
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(v)(generator)));
    const float from = i % 3 == 0 ? 0.5f : static_cast<float>(middle);  // of a spot that jumped
    starts.push_back({from, from, 1, 1});
  }
  const Batch batch = {.pixels = pixels.data(),
                       .type = fitter::PixelType::F32,
                       .roi_px = side,
                       .count = kCount,
                       .starts = starts.data()};
  const std::vector<Fit> together = fit(batch, options);
  int found = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    CAPTURE(i, side, static_cast<int>(options.model), static_cast<int>(options.estimator));
    const Fit alone = fit(fitter::part_of(batch, i, 1), options).front();
    CHECK(std::memcmp(&alone, &together[i], sizeof alone) == 0);
    if (i % 3 == 0 && converged(alone.l.status)) ++found;
  }
  CHECK(found > 100 * static_cast<int>(kCount) / 400);
}

TEST_CASE("Details of fits of nothing are no numbers, and those of the circular model tell sigma") {
  std::vector<float> pixels(2 * 81, 7);  // the first is constant
  const std::vector<float> spot = test::clean_image({4, 4, 1.1, 500, 20}, 9);
  std::copy(spot.begin(), spot.end(), pixels.begin() + 81);
  FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::RotatedGaussian);
  const std::vector<Fit> fits = fit(
      {.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 9, .count = 2}, options);
  CHECK(fits[0].l.status == fitter::FitStatus::BadInput);
  CHECK(std::isnan(fits[0].l.x_px));
  CHECK(std::isnan(fits[0].d.covariance[0][0]));
  CHECK(std::isnan(fits[0].d.covariance[6][6]));
  CHECK(std::isnan(fits[0].d.angle_rad));
  CHECK(std::isfinite(fits[1].d.covariance[0][0]));
  if (options.model == Model::RotatedGaussian) return;
  for (int k = 0; k < FitDetails::kOrder; ++k)
    CHECK(fits[1].d.covariance[2][k] == fits[1].d.covariance[3][k]);
  CHECK(fits[1].d.covariance[6][6] == 0);
  CHECK(fits[1].d.angle_rad == 0);
}

TEST_CASE("Noise and edges are no ellipses") {
  std::mt19937_64 generator(8);
  constexpr std::size_t kCount = test::kInstrumented ? 200 : 5000;
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i)
    for (int k = 0; k < 11 * 11; ++k)
      pixels.push_back(static_cast<float>(std::normal_distribution<double>(100, 10)(generator)));
  int spots = 0;
  for (const Fit& f :
       fit({.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 11, .count = kCount},
           rotated(GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood))))
    if (converged(f.l.status)) ++spots;
  CHECK(spots <= 5);
}

TEST_CASE("Edges along a diagonal are no ellipses, as those along rows are none") {
  std::mt19937_64 generator(9);
  constexpr int kSide = 13;
  constexpr std::size_t kCount = test::kInstrumented ? 200 : 3000;
  std::uniform_real_distribution<double> from_middle(-0.45 * kSide, 0.45 * kSide);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double edge = from_middle(generator);
    for (int k = 0; k < kSide * kSide; ++k) {
      const double across = (k % kSide + k / kSide - kSide + 1) / std::sqrt(2.0) - edge;
      const double mean = 20 + 15 * (1 + std::tanh(across / 1.2));
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
    }
  }
  int spots = 0;
  for (const Estimator estimator : {Estimator::LeastSquares, Estimator::PoissonLikelihood})
    for (const Fit& f : fit({.pixels = pixels.data(),
                        .type = fitter::PixelType::F32,
                        .roi_px = kSide,
                        .count = kCount},
                            rotated(estimator)))
      if (converged(f.l.status)) ++spots;
  CHECK(spots <= 90);  // some 60; 210 where the widths of sections along x and y are judged
}

TEST_CASE("The widths that are judged are those of the axes, round spots' of any") {
  using fitter::RotatedGaussian;
  for (const auto& [s, t, rho] : {std::array{1.3f, 1.3f, 0.5f}, {1.6f, 1.1f, -0.3f}, {2, 3, 0}}) {
    const fitter::Vec<5> p = {{3, 4, s, t, rho}};
    const auto widths = RotatedGaussian::widths(p);
    CHECK(widths.px[0] == RotatedGaussian::profile(p).sigma_x_px);
    CHECK(widths.px[1] == RotatedGaussian::profile(p).sigma_y_px);
    for (int j = 0; j < 3; ++j) {
      CAPTURE(s, t, rho, j);
      constexpr float kStep = 1e-3f;
      fitter::Vec<5> up = p, down = p;
      up[2 + j] += kStep;
      down[2 + j] -= kStep;
      const auto more = RotatedGaussian::profile(up), less = RotatedGaussian::profile(down);
      CHECK(widths.by[0][j] ==
            Approx((more.sigma_x_px - less.sigma_x_px) / (2 * kStep)).margin(2e-3));
      CHECK(widths.by[1][j] ==
            Approx((more.sigma_y_px - less.sigma_y_px) / (2 * kStep)).margin(2e-3));
    }
  }
  const auto round = RotatedGaussian::widths(fitter::Vec<5>{{3, 4, 1.5f, 1.5f, 0}});
  for (int width = 0; width < 2; ++width)
    for (int j = 0; j < 3; ++j)
      CHECK(round.by[width][j] == Approx(width == j ? 1 : 0).margin(1e-6));
}

TEST_CASE(
    "Ellipses and details of frames are those of ROIs cut by hand, on any number of threads") {
  constexpr int kWidth = 40, kSide = 11;
  std::mt19937_64 generator(6);
  std::vector<float> frame(kWidth * kWidth, 20);
  std::vector<fitter::Place> places;
  for (int k = 0; k < 9; ++k) {
    const Shape shape({7.2 + 13 * (k % 3), 6.7 + 13 * (k / 3), 1.6, 1.1, 0.3 * k, 600, 0});
    for (int i = 0; i < kWidth * kWidth; ++i)
      frame[static_cast<std::size_t>(i)] += static_cast<float>(shape(i % kWidth, i / kWidth));
    places.push_back({7 + 13 * (k % 3), 7 + 13 * (k / 3), 0});
  }
  for (float& v : frame) v = static_cast<float>(std::poisson_distribution<int>(v)(generator));
  std::vector<float> pixels;
  for (const fitter::Place& p : places)
    for (int i = 0; i < kSide * kSide; ++i)
      pixels.push_back(frame[static_cast<std::size_t>((p.y_px - 5 + i / kSide) * kWidth + p.x_px -
                                                      5 + i % kSide)]);
  FitOptions options;
  options.model = GENERATE(Model::EllipticalGaussian, Model::RotatedGaussian);
  const std::vector<Fit> by_hand =
      fit({.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = kSide, .count = 9},
          options, GENERATE(1, 3));
  fitter::FrameFits fits;
  fits.frames = {.pixels = frame.data(),
                 .type = fitter::PixelType::F32,
                 .width_px = kWidth,
                 .height_px = kWidth,
                 .count = 1,
                 .row_bytes = kWidth * sizeof(float),
                 .frame_bytes = sizeof(float) * kWidth * kWidth};
  fits.places = places.data();
  std::vector<FitDetails> details(9);
  fits.rois = {.roi_px = kSide, .count = 9, .details = details.data()};
  std::vector<Localization> results(9);
  fitter::fit_frames_cpu(fits, options, results);
  for (std::size_t i = 0; i < 9; ++i) {
    CHECK(converged(results[i].status));
    is(results[i].x_px, static_cast<double>(by_hand[i].l.x_px) + places[i].x_px - 5, 1e-5);
    CHECK(results[i].sigma_x_px == by_hand[i].l.sigma_x_px);
    CHECK(details[i].angle_rad == by_hand[i].d.angle_rad);
    CHECK(details[i].covariance[0][1] == by_hand[i].d.covariance[0][1]);
    CHECK(details[i].covariance[5][5] > 0);
  }
}

TEST_CASE("Hard images end, and what has converged is a number") {
  FitOptions options = rotated(any_estimator());
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian,
                           Model::RotatedGaussian, Model::EllipticalCauchy);
  options.integrated = GENERATE(false, true);
  for (const int side : {4, 7, 12, 33}) {
    if (test::kInstrumented && side > 7) break;
    const test::HardImages images = test::hard_images(side, 300 + static_cast<unsigned>(side));
    for (const test::HardInput& input : test::hard_inputs(images, options, 9)) {
      const Batch batch = input.batch(images);
      for (const Fit& f : fit(batch, input.options)) {
        if (!converged(f.l.status)) continue;
        INFO("side " << side << " estimator " << static_cast<int>(options.estimator) << " model "
                     << static_cast<int>(options.model));
        REQUIRE(std::isfinite(f.l.x_px + f.l.sigma_x_px + f.l.sigma_y_px + f.l.amplitude_adu));
        REQUIRE(std::isfinite(f.d.angle_rad));
        REQUIRE(f.l.sigma_x_px > 0);
        REQUIRE(f.l.sigma_y_px > 0);
      }
    }
  }
}

TEST_CASE("What only ellipses have is refused to other models") {
  const std::vector<float> pixels(81, 1);
  const float angle = 0;
  const fitter::Start start = {};
  const fitter::AngleBounds bounds;
  Localization l;
  const Batch plain = {.pixels = pixels.data(),
                       .type = fitter::PixelType::F32,
                       .roi_px = 9,
                       .count = 1,
                       .starts = &start};
  Batch batch = plain;
  batch.angles_rad = &angle;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, {}, {&l, 1}), contains("angles are given"));
  batch = plain;
  batch.angle_bounds = &bounds;
  FitOptions least;
  least.estimator = Estimator::LeastSquares;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, least, {&l, 1}), contains("angles are given"));
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, rotated(Estimator::ImplicitLeastSquares), {&l, 1}),
                    contains("takes no bounds"));
  least.fixed = fitter::kAngleBit;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(plain, least, {&l, 1}),
                    contains("allowed are bits 0 to 5"));
  batch = plain;
  batch.angles_rad = &angle;
  batch.starts = nullptr;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, rotated(Estimator::LeastSquares), {&l, 1}),
                    contains("needs the other start values"));
  CHECK_THROWS_WITH(fitter::make_cpu_live_fitter(9, 1, rotated(Estimator::LeastSquares)),
                    contains("in batches only"));
}

}  // namespace
}  // namespace driftd
