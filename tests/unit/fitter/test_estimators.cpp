// SPDX-License-Identifier: MIT
// Every estimator and model beyond the circular Gaussian by implicit least squares: the same
// minimum where it must be the same, the Cramer-Rao bound where it is claimed, parameters fixed and
// bounded.
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "support/catch.hpp"
#include "support/precision.hpp"
#include "unit/fitter/fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::FitStatus;
using fitter::Localization;
using fitter::Model;
using fitter::Parameter;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kSide = 11;

int at(Parameter p) {
  return static_cast<int>(p);
}

FitOptions options_of(Model model, Estimator estimator) {
  FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  return options;
}

std::vector<Localization> fit_batch(const fitter::Batch& batch, const FitOptions& options) {
  std::vector<Localization> fits(batch.count);
  fitter::fit_batch_cpu(batch, options, fits);
  return fits;
}

fitter::Batch batch_of(const test::PrecisionSample& s) {
  return {s.pixels.data(), fitter::PixelType::F32, test::kPrecisionSidePx, s.truth.size()};
}

TEST_CASE("The elliptical Gaussian finds both widths, along the axes that they belong to") {
  const auto estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                  Estimator::PoissonLikelihood);
  const int side = GENERATE(7, 9, 16, 21, 40, 64);
  const double narrow = side / 9.0, wide = side / 6.0;
  for (const bool upright : {false, true}) {
    const double sx = upright ? narrow : wide, sy = upright ? wide : narrow;
    const test::Spot spot = {side * 0.51, side * 0.47, sx, 900, 35, sy};
    const auto fit = test::fit_one(test::clean_image(spot, side), side,
                                   options_of(Model::EllipticalGaussian, estimator));
    INFO("side " << side << " upright " << upright);
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(spot.x_px).margin(2e-4 * side));
    CHECK(fit.y_px == Approx(spot.y_px).margin(2e-4 * side));
    CHECK(fit.sigma_x_px == Approx(sx).epsilon(1e-3));
    CHECK(fit.sigma_y_px == Approx(sy).epsilon(1e-3));
    CHECK(fit.amplitude_adu == Approx(900).epsilon(1e-3));
    CHECK(fit.background_adu == Approx(35).epsilon(5e-3));
  }
}

TEST_CASE("Full least squares ends at the minimum of implicit least squares") {
  const auto model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 4000, 400, 500, 4);
  const auto implicit =
      test::fit_all(images.pixels, kSide, options_of(model, Estimator::ImplicitLeastSquares));
  const auto full = test::fit_all(images.pixels, kSide, options_of(model, Estimator::LeastSquares));
  for (std::size_t i = 0; i < full.size(); ++i) {
    REQUIRE(converged(implicit[i].status));
    REQUIRE(converged(full[i].status));
    // Both stop within 1e-6 of the least chi-square: 1e-3 standard deviations times sqrt(freedom).
    const double width = 2 * std::sqrt(1e-6) * kSide;
    CHECK(std::fabs(full[i].x_px - implicit[i].x_px) < width * implicit[i].x_sd_px);
    CHECK(std::fabs(full[i].sigma_y_px - implicit[i].sigma_y_px) <
          width * implicit[i].sigma_y_sd_px);
    CHECK(std::fabs(full[i].amplitude_adu - implicit[i].amplitude_adu) <
          width * implicit[i].amplitude_sd_adu);
    CHECK(full[i].chi_square == Approx(implicit[i].chi_square).epsilon(1e-5));
    CHECK(full[i].x_sd_px == Approx(implicit[i].x_sd_px).epsilon(0.01));
  }
}

TEST_CASE("Weights that are all alike change nothing, whatever their unit") {
  const test::PrecisionSample s = test::draw_sample({3000, 20, 1.3, 1.3}, 200);
  const std::vector<float> variances(s.pixels.size(), 400.0f);
  fitter::Batch batch = batch_of(s);
  const auto plain = fit_batch(batch, options_of(Model::CircularGaussian, Estimator::LeastSquares));
  batch.variances = variances.data();
  const auto weighted =
      fit_batch(batch, options_of(Model::CircularGaussian, Estimator::WeightedLeastSquares));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(weighted[i].x_px == Approx(plain[i].x_px).margin(1e-5));
    CHECK(weighted[i].chi_square == Approx(plain[i].chi_square / 400).epsilon(1e-4));
  }
}

TEST_CASE("A pixel of infinite variance is not there") {
  const test::PrecisionSample s = test::draw_sample({3000, 20, 1.3, 1.3}, 50);
  std::vector<float> hot = s.pixels, variances(s.pixels.size(), 25.0f);
  constexpr std::size_t kArea = std::size_t{kSide} * kSide;
  for (std::size_t i = 0; i < s.truth.size(); ++i) {
    variances[i * kArea + 17] = kInfinity;
    hot[i * kArea + 17] += 5000;
  }
  fitter::Batch batch = batch_of(s);
  batch.variances = variances.data();
  const FitOptions options =
      options_of(Model::CircularGaussian,
                 GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood));
  const auto without = fit_batch(batch, options);
  batch.pixels = hot.data();
  std::vector<fitter::Start> starts;
  for (const auto& l : without) starts.push_back({l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px});
  batch.starts = starts.data();
  const auto with = fit_batch(batch, options);
  for (std::size_t i = 0; i < with.size(); ++i) {
    CHECK(converged(with[i].status));
    CHECK(with[i].x_px == Approx(without[i].x_px).margin(1e-4));
  }
}

/// 15,000 spots: an rms has a sampling error of 0.6 %. More, and more cells:
/// tests/bench/precision_bench.cpp.
constexpr std::size_t kManySpots = 15'000;

TEST_CASE("The likelihood fit reaches the Cramer-Rao bound from 200 photons on") {
  const auto cell =
      GENERATE(test::PrecisionCell{200, 0, 1, 1}, test::PrecisionCell{200, 1, 1, 1},
               test::PrecisionCell{200, 1, 1.5, 1.5}, test::PrecisionCell{500, 1, 1, 2},
               test::PrecisionCell{1000, 10, 1.3, 1.6}, test::PrecisionCell{10'000, 100, 2, 2},
               test::PrecisionCell{100'000, 10, 1, 1});
  const test::Precision p =
      test::measure_precision(test::draw_sample(cell, kManySpots), Estimator::PoissonLikelihood);
  INFO(cell.photons << " photons on " << cell.background << ", sigma " << cell.sigma_x_px << " "
                    << cell.sigma_y_px);
  CHECK(p.converged > 0.995);
  CHECK(p.over_bound[0] == Approx(1).margin(0.03));
  CHECK(p.over_reported[0] == Approx(1).margin(0.05));
  CHECK(p.over_reported[2] == Approx(1).margin(0.05));
}

TEST_CASE("Weighted by the true variances, least squares reaches it too") {
  const auto cell =
      GENERATE(test::PrecisionCell{1000, 10, 1.3, 1.3}, test::PrecisionCell{10'000, 10, 1, 2});
  const test::Precision p =
      test::measure_precision(test::draw_sample(cell, kManySpots), Estimator::WeightedLeastSquares);
  for (std::size_t k = 0; k < p.over_bound.size(); ++k) {
    INFO("parameter " << k);
    CHECK(p.over_bound[k] == Approx(1).margin(0.05));
    CHECK(p.over_reported[k] == Approx(1).margin(0.05));
  }
}

TEST_CASE("Unweighted least squares reports its own error, which is larger") {
  const test::PrecisionCell cell = {10'000, 1, 1.3, 1.6};
  const test::Precision p =
      test::measure_precision(test::draw_sample(cell, kManySpots), Estimator::ImplicitLeastSquares);
  CHECK(p.over_bound[0] > 1.2);
  for (const double r : p.over_reported) CHECK(r == Approx(1).margin(0.05));
}

/// A spot at (5, 5) of a camera whose read noise differs from pixel to pixel.
struct ScmosSample {
  std::vector<float> pixels, variances;
};

ScmosSample draw_scmos(std::size_t count, double gain, double offset) {
  std::mt19937_64 generator(8);
  std::exponential_distribution<double> read_variance(1.0 / 30);  // e^2
  const test::Spot spot = {5, 5, 1.2, 60, 5};
  ScmosSample s;
  for (std::size_t i = 0; i < count; ++i) {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        const double variance = read_variance(generator);
        std::poisson_distribution<int> photons(test::intensity(spot, column, row));
        std::normal_distribution<double> read(0, std::sqrt(variance));
        s.pixels.push_back(
            static_cast<float>(offset + (photons(generator) + read(generator)) / gain));
        s.variances.push_back(static_cast<float>(variance / (gain * gain)));
      }
    }
  }
  return s;
}

double rms_x(const std::vector<Localization>& fits, double truth, double& normalized) {
  double sum = 0, over_sd = 0, used = 0;
  for (const Localization& l : fits) {
    if (!converged(l.status)) continue;
    const double error = l.x_px - truth;
    sum += error * error;
    over_sd += error * error / (l.x_sd_px * l.x_sd_px);
    used += 1;
  }
  CHECK(used > 0.98 * static_cast<double>(fits.size()));
  normalized = std::sqrt(over_sd / used);
  return std::sqrt(sum / used);
}

TEST_CASE("A map of read noise makes the likelihood fit better, and its uncertainty right") {
  constexpr std::size_t kScmosSpots = 10'000;
  constexpr double kGain = 0.5, kOffset = 100;
  const ScmosSample s = draw_scmos(kScmosSpots, kGain, kOffset);
  FitOptions options = options_of(Model::CircularGaussian, Estimator::PoissonLikelihood);
  options.noise = {kGain, std::sqrt(30.0f), kOffset};
  fitter::Batch batch = {s.pixels.data(), fitter::PixelType::F32, kSide, kScmosSpots};
  double normalized = 0;
  const double even = rms_x(fit_batch(batch, options), 5, normalized);
  CHECK(normalized == Approx(1).margin(0.1));  // its variance is the mean one
  batch.variances = s.variances.data();
  const double mapped = rms_x(fit_batch(batch, options), 5, normalized);
  CHECK(mapped < 0.95 * even);
  CHECK(normalized == Approx(1).margin(0.05));
}

TEST_CASE("Gain, offset and read noise put the likelihood fit's pixels into electrons") {
  const test::PrecisionSample s = test::draw_sample({2000, 5, 1.3, 1.3}, 300);
  std::vector<float> adu;
  for (const float photons : s.pixels) adu.push_back(100 + photons / 0.25f);
  FitOptions options = options_of(Model::CircularGaussian, Estimator::PoissonLikelihood);
  fitter::Batch batch = batch_of(s);
  const auto in_photons = fit_batch(batch, options);
  batch.pixels = adu.data();
  options.noise = {0.25f, 0, 100};
  const auto in_adu = fit_batch(batch, options);
  for (std::size_t i = 0; i < in_adu.size(); ++i) {
    CHECK(in_adu[i].x_px == Approx(in_photons[i].x_px).margin(2e-4));
    CHECK(in_adu[i].x_sd_px == Approx(in_photons[i].x_sd_px).epsilon(1e-3));
    CHECK(in_adu[i].chi_square == Approx(in_photons[i].chi_square).epsilon(1e-4));
    CHECK(in_adu[i].amplitude_adu == Approx(4 * in_photons[i].amplitude_adu).epsilon(1e-3));
  }
}

TEST_CASE("The deviance is that of Gpufit's equation 8") {
  const test::PrecisionSample s = test::draw_sample({1000, 3, 1.3, 1.3}, 20);
  const auto fits =
      fit_batch(batch_of(s), options_of(Model::CircularGaussian, Estimator::PoissonLikelihood));
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const Localization& l = fits[i];
    const test::Spot fitted = {l.x_px, l.y_px, l.sigma_x_px, l.amplitude_adu, l.background_adu};
    double deviance = 0;
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        const double q =
            s.pixels[i * kSide * kSide + static_cast<std::size_t>(row * kSide + column)];
        const double m = test::intensity(fitted, column, row);
        deviance += 2 * (m - q) - (q > 0 ? 2 * q * std::log(m / q) : 0);
      }
    }
    CHECK(l.chi_square == Approx(deviance).epsilon(1e-5));
  }
}

TEST_CASE("A fixed parameter keeps its start value, has no uncertainty, and helps the others") {
  const auto estimator = GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood);
  const test::PrecisionSample s = test::draw_sample({2000, 10, 1.3, 1.6}, 300);
  const std::vector<fitter::Start> starts(s.truth.size(), {5, 5, 1.3f, 1.6f});
  const std::vector<fitter::StartLevels> levels(s.truth.size(), {100, 10});
  FitOptions options = options_of(Model::EllipticalGaussian, estimator);
  fitter::Batch batch = batch_of(s);
  batch.starts = starts.data();
  batch.levels = levels.data();
  const auto free = fit_batch(batch, options);
  options.fixed = bit(Parameter::SigmaX) | bit(Parameter::Background);
  const auto fixed = fit_batch(batch, options);
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    REQUIRE(converged(fixed[i].status));
    CHECK(fixed[i].sigma_x_px == 1.3f);
    CHECK(fixed[i].background_adu == Approx(10).epsilon(1e-6));
    CHECK(fixed[i].sigma_x_sd_px == 0);
    CHECK(fixed[i].background_sd_adu == 0);
    CHECK(fixed[i].x_sd_px > 0);
    CHECK(fixed[i].amplitude_sd_adu < free[i].amplitude_sd_adu);
    CHECK(fixed[i].chi_square >= free[i].chi_square * (1 - 1e-5));
  }
}

TEST_CASE("All parameters fixed: the start values come back with their chi-square") {
  const test::PrecisionSample s = test::draw_sample({2000, 10, 1.3, 1.3}, 3);
  const std::vector<fitter::Start> starts(3, {4.9f, 5.2f, 1.4f, 1.4f});
  const std::vector<fitter::StartLevels> levels(3, {150, 11});
  FitOptions options = options_of(Model::CircularGaussian, Estimator::LeastSquares);
  options.fixed = 0x37;  // all but sigma_y, which it has not
  fitter::Batch batch = batch_of(s);
  batch.starts = starts.data();
  batch.levels = levels.data();
  for (const Localization& l : fit_batch(batch, options)) {
    CHECK(l.x_px == 4.9f);
    CHECK(l.sigma_x_px == 1.4f);
    CHECK(l.amplitude_adu == 150);
    CHECK(l.chi_square > 0);
    CHECK(l.x_sd_px == 0);
  }
}

TEST_CASE("Bounds are kept, and the best within them is found") {
  const auto estimator = GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood);
  const test::PrecisionSample s = test::draw_sample({5000, 10, 1.5, 1.5}, 300);
  FitOptions options = options_of(Model::CircularGaussian, estimator);
  const auto free = fit_batch(batch_of(s), options);
  options.bounds.upper[at(Parameter::SigmaX)] = 1.45f;
  options.bounds.lower[at(Parameter::Background)] = 9.9f;
  const auto bounded = fit_batch(batch_of(s), options);
  // Fixed at the bound, the fit has to come out the same.
  FitOptions held = options_of(Model::CircularGaussian, estimator);
  held.fixed = bit(Parameter::SigmaX);
  held.bounds.lower[at(Parameter::Background)] = 9.9f;
  const std::vector<fitter::Start> starts(s.truth.size(), {5, 5, 1.45f, 1.45f});
  fitter::Batch batch = batch_of(s);
  batch.starts = starts.data();
  const auto at_bound = fit_batch(batch, held);
  int touched = 0;
  for (std::size_t i = 0; i < bounded.size(); ++i) {
    REQUIRE(converged(bounded[i].status));
    CHECK(bounded[i].sigma_x_px <= 1.45f);
    CHECK(bounded[i].background_adu >= 9.9f - 1e-4f);
    if (free[i].sigma_x_px < 1.45f) continue;
    ++touched;
    CHECK(bounded[i].sigma_x_px == 1.45f);
    CHECK(bounded[i].x_px == Approx(at_bound[i].x_px).margin(1e-3));
    CHECK(bounded[i].chi_square == Approx(at_bound[i].chi_square).epsilon(1e-4));
  }
  CHECK(touched > 200);
}

TEST_CASE("Bounds of each fit hold beside those of all") {
  const test::PrecisionSample s = test::draw_sample({5000, 10, 1.5, 1.5}, 4);
  std::vector<fitter::Bounds> bounds(4);
  bounds[1].lower[at(Parameter::X)] = 5.8f;
  bounds[2].upper[at(Parameter::Amplitude)] = 100;
  bounds[3].lower[at(Parameter::Y)] = 40;  // outside the ROI: no parameters are left
  fitter::Batch batch = batch_of(s);
  batch.bounds = bounds.data();
  FitOptions options = options_of(Model::CircularGaussian, Estimator::LeastSquares);
  options.spots_only = false;
  const auto fits = fit_batch(batch, options);
  CHECK(fits[0].x_px < 5.8f);
  CHECK(fits[1].x_px >= 5.8f);
  CHECK(fits[2].amplitude_adu <= 100);
  CHECK(fits[3].status == FitStatus::BadInput);
}

TEST_CASE("Any minimum will do where spots are not asked for") {
  std::mt19937_64 generator(3);
  std::normal_distribution<float> noise(100, 5);
  std::vector<float> pixels(std::size_t{kSide} * kSide * 100);
  for (float& p : pixels) p = noise(generator);
  FitOptions options = options_of(Model::CircularGaussian, Estimator::LeastSquares);
  const auto count = [&] {
    int n = 0;
    for (const Localization& l : test::fit_all(pixels, kSide, options)) n += converged(l.status);
    return n;
  };
  CHECK(count() == 0);
  options.spots_only = false;
  CHECK(count() > 50);
}

TEST_CASE("A warm start gives the cold answer with every estimator") {
  const auto model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  const auto estimator = GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood);
  const int side = GENERATE(6, 9, 13, 24, 40);
  const auto images = test::simulate_spots<std::uint16_t>(side, 20'000, 400, 100, 9);
  const FitOptions options = options_of(model, estimator);
  const auto cold = test::fit_all(images.pixels, side, options);
  const auto warm = test::fit_all(images.pixels, side, options, test::starts_from(cold));
  for (std::size_t i = 0; i < cold.size(); ++i) {
    if (!converged(cold[i].status)) continue;
    REQUIRE(converged(warm[i].status));
    const double width = 2 * std::sqrt(1e-6) * side;
    CHECK(std::fabs(warm[i].x_px - cold[i].x_px) < width * cold[i].x_sd_px);
  }
}

TEST_CASE("Live and batch give the same bits with every estimator") {
  const auto model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  const auto estimator = GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood);
  const auto images = test::simulate_spots<std::uint16_t>(9, 20'000, 400, 8, 2);
  const FitOptions options = options_of(model, estimator);
  const auto batch = test::fit_all(images.pixels, 9, options);
  const auto live = fitter::make_cpu_live_fitter(9, 8, options);
  for (std::size_t i = 0; i < 8; ++i) std::copy_n(images.roi(i), 81, live->staging(i));
  const std::vector<fitter::Start> starts(8);
  const auto fits = live->fit(starts);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(fits[i].x_px == batch[i].x_px);
    CHECK(fits[i].chi_square == batch[i].chi_square);
  }
}

TEST_CASE("What cannot be done is refused with a sentence") {
  const test::PrecisionSample s = test::draw_sample({2000, 10, 1.3, 1.3}, 2);
  FitOptions options = options_of(Model::CircularGaussian, Estimator::ImplicitLeastSquares);
  const auto refusal = [&](fitter::Batch batch) {
    try {
      fit_batch(batch, options);
    } catch (const fitter::FitterError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  options.fixed = bit(Parameter::X);
  CHECK_THAT(refusal(batch_of(s)), contains("implicit least squares neither fixes nor bounds"));
  options.estimator = Estimator::LeastSquares;
  CHECK_THAT(refusal(batch_of(s)), contains("needs start values"));
  options.fixed = bit(Parameter::Amplitude);
  CHECK_THAT(refusal(batch_of(s)), contains("needs start levels"));
  options.fixed = 0;
  options.bounds.lower[2] = 3;
  options.bounds.upper[2] = 2;
  CHECK_THAT(refusal(batch_of(s)), contains("bounds of parameter 2 are 3"));
  options.bounds = {};
  options.estimator = Estimator::WeightedLeastSquares;
  CHECK_THAT(refusal(batch_of(s)), contains("needs the variances"));
  CHECK_THROWS_WITH(fitter::make_cpu_live_fitter(9, 1, options), contains("only a batch has"));
}

TEST_CASE("A variance that is none spoils its ROI alone") {
  const auto estimator = GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  const float bad = GENERATE(-1.0f, std::numeric_limits<float>::quiet_NaN());
  const test::PrecisionSample s = test::draw_sample({2000, 10, 1.3, 1.3}, 3);
  std::vector<float> variances(s.pixels.size(), 4.0f);
  variances[kSide * kSide + 7] = bad;
  fitter::Batch batch = batch_of(s);
  batch.variances = variances.data();
  const auto fits = fit_batch(batch, options_of(Model::CircularGaussian, estimator));
  CHECK(converged(fits[0].status));
  CHECK(fits[1].status == FitStatus::BadInput);
  CHECK(converged(fits[2].status));
}

TEST_CASE("Pixels below the camera's offset do no harm to the likelihood fit") {
  const test::PrecisionSample s = test::draw_sample({3000, 0, 1.3, 1.3}, 100);
  std::mt19937_64 generator(1);
  std::normal_distribution<float> read(0, 2);
  std::vector<float> pixels;
  for (const float photons : s.pixels) pixels.push_back(photons + read(generator));
  FitOptions options = options_of(Model::CircularGaussian, Estimator::PoissonLikelihood);
  options.noise = {1, 2, 0};
  double squares = 0, used = 0;
  const auto fits = test::fit_all(pixels, kSide, options);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (!converged(fits[i].status)) continue;
    const double error = (fits[i].x_px - s.truth[i].x_px) / fits[i].x_sd_px;
    squares += error * error;
    used += 1;
  }
  CHECK(used >= 99);
  CHECK(std::sqrt(squares / used) == Approx(1).margin(0.25));  // 100 fits: 7 % of sampling error
}

}  // namespace
}  // namespace driftd
