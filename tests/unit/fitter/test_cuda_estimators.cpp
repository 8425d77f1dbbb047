// SPDX-License-Identifier: MIT
// Every model, estimator and search on CUDA against the CPU twin, with all that a batch may bring.
// Needs a device.
#include <cuda_runtime_api.h>

#include <limits>
#include <random>

#include "fitter/swarm.hpp"
#include "support/hard_spots.hpp"
#include "support/noisy_pixels.hpp"
#include "support/precision.hpp"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::FitStatus;
using fitter::Model;
using fitter::Parameter;
using test::Fits;
using Reports = std::vector<fitter::SwarmReport>;

Fits on_cuda(const fitter::Batch& batch, const FitOptions& options) {
  Fits fits(batch.count);
  test::cuda_fitter().fit(batch, options, fits);
  return fits;
}

Fits on_cpu(const fitter::Batch& batch, const FitOptions& options) {
  Fits fits(batch.count);
  fitter::fit_batch_cpu(batch, options, fits, 0);
  return fits;
}

FitOptions options_of(Model model, Estimator estimator) {
  FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise = {1, 1.5f, 0};
  return options;
}

Model any_model() {
  return GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
}

/// Variances of some pixels that all differ, around 9 adu^2.
std::vector<float> random_variances(std::size_t count) {
  std::mt19937_64 generator(71);
  std::uniform_real_distribution<float> variance(4, 14);
  std::vector<float> v(count);
  for (float& each : v) each = variance(generator);
  return v;
}

template <class Pixel>
void check_type(int side, const FitOptions& options) {
  const double light = 6.0 * side * side;
  const auto images = test::simulate_spots<Pixel>(side, 1000 + light, light, 200, 72);
  const auto variances = random_variances(images.pixels.size());
  fitter::Batch batch = {images.pixels.data(), test::pixel_type<Pixel>(), side, 200};
  if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
  const Fits cold = on_cpu(batch, options);
  test::check_agreement(cold, on_cuda(batch, options), side);
  const auto starts = test::starts_from(cold);
  batch.starts = starts.data();
  test::check_agreement(on_cpu(batch, options), on_cuda(batch, options), side);
  if (options.estimator != Estimator::PoissonLikelihood) return;
  batch.variances = variances.data();
  test::check_agreement(on_cpu(batch, options), on_cuda(batch, options), side);
}

TEST_CASE("Every model and estimator agrees with the CPU for every ROI side and pixel type") {
  if (test::no_device()) return;
  FitOptions options = options_of(
      any_model(), GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                            Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood));
  options.integrated = GENERATE(false, true);
  // Below 7 px the likelihood's background often ends at its limit, and rounding decides whether it
  // is held there, which is what uncertainties then differ by.
  const int least = options.estimator == Estimator::PoissonLikelihood ? 7 : fitter::kMinRoiPx + 1;
  for (int side = least; side <= fitter::kMaxRoiPx; side += side < 20 ? 1 : 7) {
    INFO("model " << static_cast<int>(options.model) << " estimator "
                  << static_cast<int>(options.estimator) << " integrated " << options.integrated);
    if (side < 9) check_type<std::uint8_t>(side, options);
    check_type<std::uint16_t>(side, options);
    check_type<float>(side, options);
  }
}

/// Noise alone, so that nearly every fit is tried again.
std::vector<float> noise_images(int side, std::size_t count) {
  std::mt19937_64 generator(74);
  std::normal_distribution<float> noise(100, 5);
  std::vector<float> pixels(count * static_cast<std::size_t>(side * side));
  for (float& pixel : pixels) pixel = noise(generator);
  return pixels;
}

TEST_CASE("A fit that is tried again on CUDA is that of a cold start") {
  if (test::no_device()) return;
  const FitOptions options =
      options_of(any_model(), GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                       Estimator::PoissonLikelihood));
  // The first launch has 131,072 of 600,000: its second tries are more than run at once.
  const auto [side, count] =
      GENERATE(std::pair{4, 600'000u}, std::pair{9, 1001u}, std::pair{13, 999u},
               std::pair{15, 999u}, std::pair{16, 1001u}, std::pair{20, 1001u});
  const auto pixels = noise_images(side, count);
  fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, side, count};
  const Fits cold = on_cuda(batch, options);
  const float middle = 0.5f * static_cast<float>(side);
  std::vector<fitter::Start> starts(count, {middle, middle, 1, 1});
  for (std::size_t i = 0; i < count; i += 3) starts[i].sigma_x_px = 0;  // none
  batch.starts = starts.data();
  const Fits warm = on_cuda(batch, options);
  std::size_t same = 0, wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_same = test::same_bits(&warm[i], &cold[i], 1);
    same += is_same ? 1u : 0u;
    if (!is_same && !converged(warm[i].status)) ++wrong;
  }
  CAPTURE(side, count);
  CHECK(wrong == 0);
  CHECK(same > count * 9 / 10);
}

TEST_CASE("The likelihood fit on CUDA agrees with the CPU at few photons") {
  if (test::no_device()) return;
  const auto cell =
      GENERATE(test::PrecisionCell{100, 0, 1, 1}, test::PrecisionCell{200, 1, 1, 1.5},
               test::PrecisionCell{1000, 0, 1.3, 1.3}, test::PrecisionCell{100'000, 10, 1, 2});
  const auto sample = test::draw_sample(cell, 3000);
  const FitOptions options = [&] {
    FitOptions o = options_of(
        cell.sigma_x_px == cell.sigma_y_px ? Model::CircularGaussian : Model::EllipticalGaussian,
        Estimator::PoissonLikelihood);
    o.noise.read_noise_e = 0;
    return o;
  }();
  const fitter::Batch batch = {sample.pixels.data(), fitter::PixelType::F32, test::kPrecisionSidePx,
                               sample.truth.size()};
  test::check_agreement(on_cpu(batch, options), on_cuda(batch, options), test::kPrecisionSidePx);
}

TEST_CASE("Fixed and bounded parameters, start levels and any minimum mean the same on CUDA") {
  if (test::no_device()) return;
  constexpr int kSide = 11;
  constexpr std::size_t kCount = 500;
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 3000, 900, kCount, 73);
  FitOptions options =
      options_of(any_model(), GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood));
  std::vector<fitter::Start> starts = test::starts_from(test::fit_all(images.pixels, kSide));
  for (fitter::Start& s : starts) s.x_px += 0.3f;
  const std::vector<fitter::StartLevels> levels(kCount, {250, 9});
  std::vector<fitter::Bounds> bounds(kCount);
  fitter::Batch batch = {images.pixels.data(), fitter::PixelType::U16, kSide, kCount,
                         starts.data(),        levels.data()};
  options.spots_only = false;
  SECTION("levels only") {}
  SECTION("fixed width and background") {
    options.fixed = fitter::bit(Parameter::SigmaX) | fitter::bit(Parameter::Background);
  }
  SECTION("all fixed but the amplitude") {
    options.fixed = static_cast<std::uint8_t>(0b101111 & bits_of(options.model));
  }
  SECTION("bounds of all") {
    options.bounds.lower[0] = 5.2f;
    options.bounds.upper[2] = 1.4f;
  }
  SECTION("bounds of each, some of them impossible") {
    for (std::size_t i = 0; i < kCount; ++i) {
      bounds[i].upper[1] = starts[i].y_px - 0.1f;
      if (i % 7 == 0) bounds[i].lower[1] = starts[i].y_px;
    }
    batch.bounds = bounds.data();
  }
  const Fits cpu = on_cpu(batch, options);
  const Fits gpu = on_cuda(batch, options);
  for (std::size_t i = 0; i < kCount; ++i) {
    INFO("fit " << i << ": " << name_of(cpu[i].status) << ", CUDA " << name_of(gpu[i].status));
    REQUIRE((cpu[i].status == FitStatus::BadInput) == (gpu[i].status == FitStatus::BadInput));
    if (cpu[i].status == FitStatus::BadInput) continue;
    CHECK(converged(cpu[i].status) == converged(gpu[i].status));
    CHECK(gpu[i].x_px == Approx(cpu[i].x_px).margin(2e-3));
    CHECK(gpu[i].y_px == Approx(cpu[i].y_px).margin(2e-3));
    CHECK(gpu[i].sigma_x_px == Approx(cpu[i].sigma_x_px).margin(2e-3));
    CHECK(gpu[i].amplitude_adu == Approx(cpu[i].amplitude_adu).epsilon(2e-3));
    CHECK(gpu[i].x_sd_px == Approx(cpu[i].x_sd_px).epsilon(0.01));
    CHECK(gpu[i].background_sd_adu == Approx(cpu[i].background_sd_adu).epsilon(0.01));
  }
}

TEST_CASE("Bad variances are bad input on CUDA, of those ROIs alone") {
  if (test::no_device()) return;
  const int side = GENERATE(9, 20, 40);
  constexpr std::size_t kCount = 12;
  const auto area = static_cast<std::size_t>(side * side);
  const auto images = test::simulate_spots<std::uint16_t>(side, 9000, 40, kCount, 74);
  for (const auto estimator : {Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood}) {
    std::vector<float> variances(images.pixels.size(), 9.0f);
    variances[3 * area] = -1;
    variances[5 * area + area - 1] = std::numeric_limits<float>::quiet_NaN();
    variances[7 * area + 4] = 0;  // no weight has it, but a read noise of 0 is one
    variances[8 * area + 4] = std::numeric_limits<float>::infinity();
    const FitOptions options = options_of(Model::CircularGaussian, estimator);
    const fitter::Batch batch = {
        images.pixels.data(), fitter::PixelType::U16, side, kCount, nullptr, nullptr,
        variances.data()};
    const Fits cpu = on_cpu(batch, options);
    const Fits gpu = on_cuda(batch, options);
    for (std::size_t i = 0; i < kCount; ++i) {
      INFO("side " << side << " ROI " << i);
      CHECK((gpu[i].status == FitStatus::BadInput) == (cpu[i].status == FitStatus::BadInput));
    }
    CHECK(gpu[3].status == FitStatus::BadInput);
    CHECK(gpu[5].status == FitStatus::BadInput);
    CHECK(converged(gpu[4].status));
  }
}

TEST_CASE("Pixels that the map calls noisy or gone are left out on CUDA as on the CPU") {
  if (test::no_device()) return;
  const auto estimator = GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  const int side = GENERATE(7, 9, 13, 16, 24, 40);
  const double variance = GENERATE(100.0, 10000.0, double{std::numeric_limits<float>::infinity()});
  for (const int noisy : {1, 2}) {
    const auto s = test::draw_noisy({side, 1.3, 2000, 10, 1, variance, noisy}, 500, 79);
    FitOptions options = s.options(estimator);
    options.model = noisy == 1 ? Model::CircularGaussian : Model::EllipticalGaussian;
    fitter::Batch batch = s.batch(estimator);
    INFO("estimator " << static_cast<int>(estimator) << " variance " << variance << " noisy "
                      << noisy);
    const Fits cold = on_cuda(batch, options);
    test::check_agreement(on_cpu(batch, options), cold, side);
    CHECK(test::verdicts(s, cold).refused < 0.02);
    const auto starts = s.starts();
    batch.starts = starts.data();
    const Fits warm = on_cuda(batch, options);
    test::check_agreement(on_cpu(batch, options), warm, side);
    CHECK(test::verdicts(s, warm).refused < 0.02);
  }
}

TEST_CASE("Whose neighbours have pixels to be left out has the same bits on CUDA") {
  if (test::no_device()) return;
  const auto estimator = GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  const int side = GENERATE(7, 9, 16, 17, 24, 40);
  const auto step = GENERATE(std::size_t{2}, std::size_t{9}, std::size_t{64});
  const auto area = static_cast<std::size_t>(side * side);
  const test::NoisyPixels clean = test::draw_noisy({side, 1.3, 1000, 10, 1, 0, 0}, 257, 80);
  test::NoisyPixels mixed = clean, noisy = clean;
  for (std::size_t i = 0; i < clean.truth.size(); ++i) {
    for (const std::size_t pixel : {std::size_t{3}, area - 1}) {
      const std::size_t at = i * area + pixel;
      noisy.variances[at] = noisy.read_variances[at] = 1e5f;
      if (i % step == 0) mixed.variances[at] = mixed.read_variances[at] = 1e5f;
    }
  }
  const FitOptions options = clean.options(estimator);
  const Fits of_mixed = on_cuda(mixed.batch(estimator), options);
  const Fits of_clean = on_cuda(clean.batch(estimator), options);
  const Fits of_noisy = on_cuda(noisy.batch(estimator), options);
  for (std::size_t i = 0; i < of_mixed.size(); ++i) {
    CAPTURE(side, step, i);
    CHECK(test::same_bits(&of_mixed[i], i % step == 0 ? &of_noisy[i] : &of_clean[i], 1));
  }
}

TEST_CASE("Wherever the rarer arrays lie, the bits are the same") {
  if (test::no_device()) return;
  constexpr int kSide = 7;
  constexpr std::size_t kCount = 20001;
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 1600, 40, kCount, 75);
  const std::vector<fitter::Start> starts(kCount, {3, 3, 1.5f, 1.5f});
  const std::vector<fitter::StartLevels> levels(kCount, {100, 2});
  const auto variances = random_variances(images.pixels.size());
  std::vector<fitter::Bounds> bounds(kCount);
  for (std::size_t i = 0; i < kCount; ++i) bounds[i].upper[0] = 3 + static_cast<float>(i) / kCount;
  const FitOptions options = options_of(Model::EllipticalGaussian, Estimator::PoissonLikelihood);
  const fitter::Batch batch = {
      images.pixels.data(), fitter::PixelType::U16, kSide,        kCount, starts.data(),
      levels.data(),        variances.data(),       bounds.data()};
  const Fits pageable = on_cuda(batch, options);
  const Fits cpu = on_cpu(batch, options);
  for (std::size_t i = 0; i < kCount; ++i)  // uncertainties differ where a bound just holds
    if (converged(cpu[i].status) && std::fabs(pageable[i].x_px - cpu[i].x_px) > 2e-3f)
      FAIL("fit " << i << ": x " << cpu[i].x_px << ", CUDA " << pageable[i].x_px);
  fitter::CudaBatchOptions cut;
  cut.chunk_bytes = 300000;
  cut.streams = 3;
  const auto small = fitter::make_cuda_batch_fitter(cut);
  for (int places = 0; places < 8; ++places) {
    const test::CudaArray<fitter::StartLevels> l((places & 1) != 0, levels.data(), kCount);
    const test::CudaArray<float> v((places & 2) != 0, variances.data(), variances.size());
    const test::CudaArray<fitter::Bounds> b((places & 4) != 0, bounds.data(), kCount);
    fitter::Batch there = batch;
    there.levels = l.get();
    there.variances = v.get();
    there.bounds = b.get();
    Fits fits(kCount);
    small->fit(there, options, fits);
    INFO("places " << places);
    CHECK(test::same_bits(fits.data(), pageable.data(), kCount));
  }
}

struct Found {
  Fits fits;
  Reports reports;
};

Found search_cuda(const fitter::Batch& batch, const FitOptions& options,
                  const fitter::SwarmOptions& swarm) {
  Found found = {Fits(batch.count), Reports(batch.count)};
  test::cuda_fitter().search(batch, options, swarm, found.fits, found.reports);
  return found;
}

Found search_cpu(const fitter::Batch& batch, const FitOptions& options,
                 const fitter::SwarmOptions& swarm) {
  Found found = {Fits(batch.count), Reports(batch.count)};
  fitter::fit_swarm_cpu(batch, options, swarm, found.fits, found.reports, 0);
  return found;
}

TEST_CASE("A swarm on CUDA begins as its CPU twin does") {
  if (test::no_device()) return;
  const auto sample = test::draw_hard(test::Hard::TwoSpots, 300, 76);
  FitOptions options;
  options.model = any_model();
  fitter::SwarmOptions swarm;
  swarm.particles = GENERATE(16, 48, 256, 1024);
  swarm.iterations = 1;  // later ones part: rounding decides which of two places is better
  swarm.seed = 0x123456789abcdefu;
  swarm.first_roi = 0x1234567800000000u - 100;  // numbers of 64 bits, with a carry among them
  const Found cpu = search_cpu(sample.batch(), options, swarm);
  const Found gpu = search_cuda(sample.batch(), options, swarm);
  int same = 0;
  for (std::size_t i = 0; i < cpu.reports.size(); ++i) {
    const auto& p = cpu.reports[i];
    const auto& q = gpu.reports[i];
    if (std::fabs(p.best.x_px - q.best.x_px) > 1e-4f) continue;
    ++same;
    CHECK(q.best.sigma_y_px == Approx(p.best.sigma_y_px).margin(1e-4));
    CHECK(q.spread.y_px == Approx(p.spread.y_px).margin(1e-4));
    CHECK(q.chi_square == Approx(p.chi_square).epsilon(1e-4));
  }
  CHECK(same >= 297);
}

TEST_CASE("A swarm on CUDA ends where its CPU twin does") {
  if (test::no_device()) return;
  const auto hard = GENERATE(test::Hard::Ordinary, test::Hard::AtBorder, test::Hard::HotPixel);
  constexpr std::size_t kCount = 1000;
  const auto sample = test::draw_hard(hard, kCount, 77);
  FitOptions options;
  options.model = any_model();
  const Found cpu = search_cpu(sample.batch(), options, {});
  const Found gpu = search_cuda(sample.batch(), options, {});
  std::size_t apart = 0;
  double spread_cpu = 0, spread_gpu = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (converged(cpu.fits[i].status) != converged(gpu.fits[i].status) ||
        std::fabs(cpu.fits[i].x_px - gpu.fits[i].x_px) > 0.02f * cpu.fits[i].x_sd_px)
      ++apart;
    spread_cpu += cpu.reports[i].spread.x_px / kCount;
    spread_gpu += gpu.reports[i].spread.x_px / kCount;
  }
  INFO(test::name_of(hard) << ": " << apart << " apart");
  CHECK(apart <= kCount / 50);
  CHECK(spread_gpu == Approx(spread_cpu).epsilon(0.2));
  CHECK(test::share_found(sample, gpu.fits) > test::share_found(sample, cpu.fits) - 0.01);
}

TEST_CASE("Swarms of every ROI side find the spot on CUDA, by any estimator") {
  if (test::no_device()) return;
  const Model model = any_model();
  for (const int side : {4, 5, 8, 11, 12, 13, 16, 17, 24, 32, 33, 48, 64}) {
    const test::Spot spot = {side * 0.45, side * 0.55, side / 8.0 + 0.5, 800, 50};
    const auto pixels = test::clean_image(spot, side);
    for (const auto estimator : {Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood}) {
      const Found found = search_cuda({pixels.data(), fitter::PixelType::F32, side, 1},
                                      options_of(model, estimator), {});
      INFO("side " << side);
      CHECK(converged(found.fits[0].status));
      CHECK(found.fits[0].x_px == Approx(spot.x_px).margin(1e-3 * side));
      CHECK(found.reports[0].best.y_px == Approx(spot.y_px).margin(0.05 * side));
    }
  }
}

TEST_CASE("A search on CUDA gives the same bits however it is cut, and keeps to its bounds") {
  if (test::no_device()) return;
  constexpr std::size_t kCount = 20001;
  const auto sample = test::draw_hard(test::Hard::Ordinary, kCount, 78);
  FitOptions options;
  options.estimator = Estimator::LeastSquares;
  options.bounds.upper[0] = 5.5f;
  options.spots_only = false;
  fitter::SwarmOptions swarm;
  swarm.particles = 32;
  swarm.iterations = 10;
  const Found whole = search_cuda(sample.batch(), options, swarm);
  for (const auto& r : whole.reports) REQUIRE(r.best.x_px <= 5.5f);
  fitter::CudaBatchOptions cut;
  cut.chunk_bytes = 300000;
  cut.streams = 3;
  for (int device = 1; device < fitter::cuda_device_count(); ++device)
    cut.devices.push_back(device);
  const auto small = fitter::make_cuda_batch_fitter(cut);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const test::CudaArray<fitter::SwarmReport> there(true, whole.reports.data(), kCount);
  Found parts = {Fits(kCount), Reports(kCount)};
  small->search(sample.batch(), options, swarm, parts.fits, parts.reports);
  CHECK(test::same_bits(parts.fits.data(), whole.fits.data(), kCount));
  CHECK(std::memcmp(parts.reports.data(), whole.reports.data(),
                    kCount * sizeof(fitter::SwarmReport)) == 0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const test::CudaArray<std::uint16_t> pixels(true, sample.pixels.data(), sample.pixels.size());
  const test::CudaArray<fitter::Localization> results(true, whole.fits.data(), kCount);
  REQUIRE(cudaMemset(results.get(), 0xa5, kCount * sizeof(fitter::Localization)) == cudaSuccess);
  REQUIRE(cudaMemset(there.get(), 0xa5, kCount * sizeof(fitter::SwarmReport)) == cudaSuccess);
  fitter::Batch on_device = sample.batch();
  on_device.pixels = pixels.get();
  test::cuda_fitter().search(on_device, options, swarm, {results.get(), kCount},
                             {there.get(), kCount});
  REQUIRE(cudaMemcpy(parts.fits.data(), results.get(), kCount * sizeof(fitter::Localization),
                     cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(cudaMemcpy(parts.reports.data(), there.get(), kCount * sizeof(fitter::SwarmReport),
                     cudaMemcpyDefault) == cudaSuccess);
  CHECK(test::same_bits(parts.fits.data(), whole.fits.data(), kCount));
  CHECK(std::memcmp(parts.reports.data(), whole.reports.data(),
                    kCount * sizeof(fitter::SwarmReport)) == 0);
}

TEST_CASE("Unusable pixels and senseless searches on CUDA are said") {
  if (test::no_device()) return;
  const std::vector<float> pixels(81, 5.0f);
  const fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, 9, 1};
  const Found found = search_cuda(batch, {}, {});
  CHECK(found.fits[0].status == FitStatus::BadInput);
  CHECK(std::isnan(found.reports[0].chi_square));
  fitter::SwarmOptions swarm;
  swarm.particles = 100;
  CHECK_THROWS_WITH(search_cuda(batch, {}, swarm), contains("whole multiples of 16"));
  Fits fits(1);
  Reports two(2);
  CHECK_THROWS_WITH(test::cuda_fitter().search(batch, {}, {}, fits, two),
                    contains("2 swarm reports"));
}

}  // namespace
}  // namespace driftd
