// SPDX-License-Identifier: MIT
// test_search.cpp on a GPU, where a search without end would hold the stream for ever. Needs a
// device.
#include "unit/fitter/cuda_fits.hpp"
#include "unit/fitter/far_starts.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Model;

test::Fits fit_cuda(const fitter::Batch& batch, const FitOptions& options) {
  static const auto cuda = fitter::make_cuda_batch_fitter();
  test::Fits fits(batch.count);
  std::memset(fits.data(), 0xa5, fits.size() * sizeof(fits[0]));  // poison
  cuda->fit(batch, options, fits);
  return fits;
}

FitOptions any_search() {
  FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  return options;
}

TEST_CASE("Every search on CUDA ends, whatever the pixels") {
  if (test::no_device()) return;
  const FitOptions options = any_search();
  const int max_iterations = GENERATE(1, 20, 46, 255);
  for (const int side : {4, 5, 7, 9, 13, 16, 17, 24, 32, 33, 48, 64}) {
    const test::HardImages images = test::hard_images(side, 300 + static_cast<unsigned>(side));
    for (test::HardInput input : test::hard_inputs(images, options, 7)) {
      input.options.max_iterations = max_iterations;
      const auto fits = fit_cuda(input.batch(images), input.options);
      for (std::size_t i = 0; i < fits.size(); ++i) {
        INFO("side " << side << ", " << images.kinds[i]);
        CHECK(fits[i].status <= fitter::FitStatus::BadInput);
        CHECK(fits[i].iterations <= max_iterations);
      }
    }
  }
}

TEST_CASE("A live fit of noise on CUDA ends within its deadline") {
  if (test::no_device()) return;
  const auto mode = GENERATE(fitter::CudaMode::Graph, fitter::CudaMode::Resident);
  FitOptions options = any_search();
  if (options.estimator == Estimator::WeightedLeastSquares) return;  // batches only
  options.max_iterations = 200;
  options.min_decrease = options.min_step = 0;
  constexpr int kSide = 9;
  constexpr std::size_t kArea = std::size_t{kSide} * kSide;
  const test::HardImages images = test::hard_images(kSide, 5);
  const std::size_t count = images.kinds.size();
  const auto live =
      fitter::make_cuda_live_fitter(kSide, count, options, {0, mode, std::chrono::seconds(30)});
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < kArea; ++k)
      live->staging(i)[k] =
          static_cast<std::uint16_t>(std::clamp(images.pixels[i * kArea + k], 0.0f, 65535.0f));
  CHECK(live->fit(std::vector<fitter::Start>(count)).size() == count);
  CHECK(live->error() == nullptr);
}

TEST_CASE("A likelihood fit on CUDA reaches its spot from three pixels away") {
  if (test::no_device()) return;
  for (const double distance_px : {0.0, 1.0, 2.0, 3.0}) {
    for (const test::FarStarts& far : test::all_far_starts(distance_px)) {
      const test::FarSample sample = test::draw_far(far, 200);
      INFO(distance_px << " px off, sigma " << far.sigma_px << " px, " << far.photons
                       << " photons, levels " << static_cast<int>(far.with) << ", model "
                       << static_cast<int>(far.model));
      CHECK(sample.reached(fit_cuda(sample.batch(), sample.options)) >= test::kLeastReached);
    }
  }
}

}  // namespace
}  // namespace driftd
