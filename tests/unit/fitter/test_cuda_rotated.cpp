// SPDX-License-Identifier: MIT
// Ellipses in any direction and covariances of all models on CUDA, against the CPU. Needs a device.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "support/hard_spots.hpp"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::Batch;
using fitter::Estimator;
using fitter::FitDetails;
using fitter::FitOptions;
using fitter::Model;
using test::Fits;

struct Found {
  Fits fits;
  std::vector<FitDetails> details;
};

Found on(bool gpu, Batch batch, const FitOptions& options) {
  Found found = {Fits(batch.count), std::vector<FitDetails>(batch.count)};
  batch.details = found.details.data();
  if (gpu)
    test::cuda_fitter().fit(batch, options, found.fits);
  else
    fitter::fit_batch_cpu(batch, options, found.fits, 0);
  return found;
}

/// Photons of ellipses in any direction.
std::vector<float> ellipses(int side, std::size_t count, unsigned seed = 3) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> some(-1, 1);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = side / 2.0 + some(generator), y = side / 2.0 + some(generator);
    const double wide = side / 7.0 * (1.2 + 0.2 * some(generator)), narrow = side / 7.0 * 0.8;
    const double angle = 3 * some(generator), amplitude = 500 + 300 * some(generator);
    for (int k = 0; k < side * side; ++k) {
      const double u = k % side - x, v = k / side - y;
      const double a = (u * std::cos(angle) + v * std::sin(angle)) / wide;
      const double b = (v * std::cos(angle) - u * std::sin(angle)) / narrow;
      const double mean = amplitude * std::exp(-(a * a + b * b) / 2) + 20;
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
    }
  }
  return pixels;
}

FitOptions options_of(Model model, Estimator estimator) {
  FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise = {1, 1.5f, 0};
  return options;
}

void check(const Found& cpu, const Found& gpu, int side) {
  test::check_agreement(cpu.fits, gpu.fits, side);
  std::size_t others = 0;
  for (std::size_t i = 0; i < cpu.fits.size(); ++i) {
    if (!converged(cpu.fits[i].status) || !converged(gpu.fits[i].status)) continue;
    const FitDetails &p = cpu.details[i], &q = gpu.details[i];
    // Beside the singular place of a nearly round spot the angle hangs on the last digits.
    if (p.angle_sd_rad > 0.3f) continue;
    bool differs = std::fabs(p.angle_rad - q.angle_rad) > 0.03f * p.angle_sd_rad;
    for (int a = 0; a < FitDetails::kOrder; ++a)
      for (int b = 0; b < FitDetails::kOrder; ++b)
        differs = differs || std::fabs(p.covariance[a][b] - q.covariance[a][b]) >
                                 0.02f * std::sqrt(p.covariance[a][a] * p.covariance[b][b]);
    others += differs ? 1u : 0u;
  }
  CHECK(others <= cpu.fits.size() / 100);
}

Estimator any_estimator() {
  return GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                  Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
}

TEST_CASE("Ellipses and details agree with the CPU for every side and estimator") {
  if (test::no_device()) return;
  const Model model =
      GENERATE(Model::RotatedGaussian, Model::EllipticalGaussian, Model::CircularGaussian);
  FitOptions options = options_of(model, any_estimator());
  options.integrated = GENERATE(false, true);
  for (const int side : {8, 9, 13, 16, 17, 32, 33, 64}) {
    const std::size_t count = side < 20 ? 300 : 60;
    const std::vector<float> pixels = ellipses(side, count);
    std::vector<float> variances;
    for (const float v : pixels) variances.push_back(std::max(v, 4.0f));
    Batch batch = {
        .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = side, .count = count};
    if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
    if (model != Model::RotatedGaussian) options.spots_only = false;
    INFO("model " << static_cast<int>(model) << " estimator " << static_cast<int>(options.estimator)
                  << " integrated " << options.integrated << " side " << side);
    check(on(false, batch, options), on(true, batch, options), side);
    if (options.estimator != Estimator::PoissonLikelihood) continue;
    variances[7] = std::numeric_limits<float>::infinity();
    batch.variances = variances.data();
    check(on(false, batch, options), on(true, batch, options), side);
  }
}

TEST_CASE("Details of fits that are tried again agree with the CPU") {
  if (test::no_device()) return;
  const FitOptions options =
      options_of(GENERATE(Model::CircularGaussian, Model::EllipticalGaussian),
                 GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                          Estimator::PoissonLikelihood));
  for (const int side : {9, 15, 20}) {
    constexpr std::size_t kCount = 2000;
    std::mt19937_64 generator(6);
    std::vector<float> pixels;
    std::vector<fitter::Start> starts;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double middle = side / 2.0, wide = side / 7.0;
      for (int k = 0; k < side * side; ++k) {
        const double u = (k % side - middle) / wide, v = (k / side - middle) / wide;
        const double mean = 500 * std::exp(-(u * u + v * v) / 2) + 20;
        pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
      }
      // Every third of a spot that jumped.
      const float from = i % 3 == 0 ? 0.5f : static_cast<float>(middle);
      starts.push_back({from, from, 1, 1});
    }
    const Batch batch = {.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = side,
                         .count = kCount,
                         .starts = starts.data()};
    INFO("model " << static_cast<int>(options.model) << " estimator "
                  << static_cast<int>(options.estimator) << " side " << side);
    check(on(false, batch, options), on(true, batch, options), side);
  }
}

TEST_CASE("Cauchy profiles agree with the CPU for every side and estimator") {
  if (test::no_device()) return;
  const FitOptions options = options_of(Model::EllipticalCauchy, any_estimator());
  for (const int side : {8, 9, 13, 16, 17, 32, 33, 64}) {
    const std::size_t count = side < 20 ? 300 : 60;
    std::mt19937_64 generator(4);
    std::uniform_real_distribution<double> some(-1, 1);
    std::vector<float> pixels, variances;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = side / 2.0 + some(generator), y = side / 2.0 + some(generator);
      const double wide = side / 9.0 * (1.2 + 0.2 * some(generator)), narrow = side / 9.0;
      for (int k = 0; k < side * side; ++k) {
        const double u = (k % side - x) / wide, v = (k / side - y) / narrow;
        const double mean = 800 / (1 + u * u) / (1 + v * v) + 20;
        pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
        variances.push_back(static_cast<float>(mean));
      }
    }
    Batch batch = {
        .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = side, .count = count};
    if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
    INFO("estimator " << static_cast<int>(options.estimator) << " side " << side);
    check(on(false, batch, options), on(true, batch, options), side);
  }
}

TEST_CASE("Pixels too few for the parameters are bad input on CUDA, too") {
  if (test::no_device()) return;
  const Model model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian,
                               Model::RotatedGaussian, Model::EllipticalCauchy);
  FitOptions options =
      options_of(model, GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood));
  options.spots_only = false;
  for (const int side : {9, 33}) {
    constexpr std::size_t kCount = 10;  // the i-th has i pixels
    const std::vector<float> pixels = ellipses(side, kCount);
    const auto area = static_cast<std::size_t>(side * side);
    std::vector<float> variances(pixels.size(), std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < kCount; ++i)
      std::fill_n(variances.begin() + static_cast<std::ptrdiff_t>(i * area + area / 2), i, 9.0f);
    const std::vector<fitter::Start> starts(
        kCount, {static_cast<float>(side) / 2, static_cast<float>(side) / 2, 1.5f, 1.5f});
    const Batch batch = {.pixels = pixels.data(),
                         .type = fitter::PixelType::F32,
                         .roi_px = side,
                         .count = kCount,
                         .starts = starts.data(),
                         .variances = variances.data()};
    const Found cpu = on(false, batch, options), gpu = on(true, batch, options);
    INFO("model " << static_cast<int>(model) << " side " << side);
    for (std::size_t i = 0; i < kCount; ++i) {
      CAPTURE(i);
      CHECK((gpu.fits[i].status == fitter::FitStatus::BadInput) ==
            (cpu.fits[i].status == fitter::FitStatus::BadInput));
    }
    CHECK(cpu.fits[3].status == fitter::FitStatus::BadInput);
  }
}

TEST_CASE("Wide, dim spots pass on CUDA, too, where the gain is known") {
  if (test::no_device()) return;
  const Model model = GENERATE(Model::CircularGaussian, Model::RotatedGaussian);
  const FitOptions options =
      options_of(model, GENERATE(Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood));
  constexpr int kSide = 64;
  constexpr std::size_t kCount = 60;
  std::mt19937_64 generator(5);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount * kSide * kSide; ++i) {
    const int k = static_cast<int>(i % (kSide * kSide));
    const double u = k % kSide - 31.2, v = k / kSide - 32.4;
    const double mean = 3000 / (2 * M_PI * 64) * std::exp(-(u * u + v * v) / 128) + 1;
    pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
  }
  const Batch batch = {
      .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = kSide, .count = kCount};
  const Found cpu = on(false, batch, options), gpu = on(true, batch, options);
  for (const Found* found : {&cpu, &gpu})
    CHECK(std::count_if(found->fits.begin(), found->fits.end(),
                        [](const auto& l) { return converged(l.status); }) >= 59);
}

TEST_CASE("Starts, angles, bounds and what is fixed mean the same to ellipses on CUDA") {
  if (test::no_device()) return;
  constexpr int kSide = 13;
  constexpr std::size_t kCount = 300;
  const std::vector<float> pixels = ellipses(kSide, kCount);
  FitOptions options = options_of(Model::RotatedGaussian, Estimator::LeastSquares);
  const Batch cold = {
      .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = kSide, .count = kCount};
  const Found found = on(false, cold, options);
  std::vector<fitter::Start> starts = test::starts_from(found.fits);
  std::vector<float> angles;
  for (const FitDetails& d : found.details) angles.push_back(d.angle_rad + 3);
  const std::vector<fitter::Bounds> bounds(kCount);
  const std::vector<fitter::AngleBounds> angle_bounds(kCount, {2.5f, 3.5f});
  Batch batch = cold;
  batch.starts = starts.data();
  batch.angles_rad = angles.data();
  options.spots_only = false;
  SECTION("starts alone") {}
  SECTION("a fixed angle") {
    options.fixed = fitter::kAngleBit;
  }
  SECTION("a fixed width") {
    options.fixed = bit(fitter::Parameter::SigmaY);
  }
  SECTION("bounds") {
    batch.bounds = bounds.data();
  }
  SECTION("of the angle") {
    batch.angle_bounds = angle_bounds.data();
  }
  check(on(false, batch, options), on(true, batch, options), kSide);
}

TEST_CASE("Details may lie on the GPU, and those of many chunks are those of few") {
  if (test::no_device()) return;
  constexpr int kSide = 9;
  constexpr std::size_t kCount = 20000;
  const std::vector<float> pixels = ellipses(kSide, kCount);
  const FitOptions options = options_of(GENERATE(Model::RotatedGaussian, Model::EllipticalGaussian),
                                        Estimator::LeastSquares);
  Batch batch = {
      .pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = kSide, .count = kCount};
  const Found whole = on(true, batch, options);
  std::vector<FitDetails> back(kCount);
  const test::CudaArray<FitDetails> there(true, back.data(), kCount);
  batch.details = there.get();
  Fits fits(kCount);
  test::cuda_fitter().fit(batch, options, fits);
  REQUIRE(cudaMemcpy(back.data(), there.get(), kCount * sizeof(FitDetails), cudaMemcpyDefault) ==
          cudaSuccess);
  CHECK(std::memcmp(back.data(), whole.details.data(), kCount * sizeof(FitDetails)) == 0);
  CHECK(test::same_bits(fits.data(), whole.fits.data(), kCount));
  const auto other = fitter::make_cuda_batch_fitter({.chunk_bytes = std::size_t{1} << 20});
  batch.details = back.data();
  other->fit(batch, options, fits);
  CHECK(std::memcmp(back.data(), whole.details.data(), kCount * sizeof(FitDetails)) == 0);
}

}  // namespace
}  // namespace driftd
