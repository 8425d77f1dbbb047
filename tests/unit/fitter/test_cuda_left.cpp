// SPDX-License-Identifier: MIT
// Fits that a first launch leaves to a second one. Needs a device.
#include <cuda_runtime_api.h>

#include <set>

#include "fitter/cuda/batch_fitter.hpp"
#include "fitter/cuda/kernels.hpp"
#include "support/spots.hpp"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Model;
using test::Fits;

FitOptions options_of(Model model, Estimator estimator) {
  FitOptions options;
  options.model = model;
  options.estimator = estimator;
  options.noise = {1, 1.5f, 0};
  return options;
}

/// A batch in a GPU's memory against its fits one by one.
struct Many {
  std::size_t count;
  std::size_t different;  ///< which are repeated
  std::size_t alone;      ///< of the different ones; the others have the bits of their first
};
void check_each(const FitOptions& options, int side, bool warm, const Many& many) {
  CAPTURE(side, warm, options.spots_only, many.count);
  const auto area = static_cast<std::size_t>(side * side);
  // Dim ones take long, or are no spots; some starts lead nowhere.
  auto pixels = test::simulate_spots<std::uint16_t>(side, 300, 100, many.different, 76).pixels;
  std::vector<fitter::Start> starts(many.different, {3, 3, 1.5f, 1.5f});
  for (std::size_t i = 0; i < many.different; i += 7) starts[i] = {0, 0, 0.5f, 0.5f};
  for (std::size_t i = 0; i < many.different; i += 11) starts[i] = {};
  Fits alone(many.alone);
  for (std::size_t i = 0; i < many.alone; ++i)
    test::cuda_fitter().fit({pixels.data() + i * area, fitter::PixelType::U16, side, 1,
                             warm ? starts.data() + i : nullptr},
                            options, {alone.data() + i, 1});
  pixels.resize(many.count * area);
  starts.resize(many.count);
  for (std::size_t i = many.different; i < many.count; ++i) {
    std::copy_n(pixels.data() + i % many.different * area, area, pixels.data() + i * area);
    starts[i] = starts[i % many.different];
  }
  Fits fits(many.count);
  std::memset(fits.data(), 0xa5, many.count * sizeof fits[0]);
  const test::CudaArray<std::uint16_t> there(true, pixels.data(), pixels.size());
  const test::CudaArray<fitter::Start> starts_there(true, starts.data(), many.count);
  const test::CudaArray<fitter::Localization> results(true, fits.data(), many.count);
  test::cuda_fitter().fit(
      {there.get(), fitter::PixelType::U16, side, many.count, warm ? starts_there.get() : nullptr},
      options, {results.get(), many.count});
  REQUIRE(cudaMemcpy(fits.data(), results.get(), many.count * sizeof fits[0], cudaMemcpyDefault) ==
          cudaSuccess);
  std::size_t others = 0;
  for (std::size_t i = 0; i < many.count; ++i) {
    const std::size_t like = i % many.different;
    const fitter::Localization& one = like < many.alone ? alone[like] : fits[like];
    others += test::same_bits(&one, &fits[i], 1) ? 0u : 1u;
  }
  CHECK(others == 0);
}

TEST_CASE(
    "Of many fits in a GPU's memory each has the bits that it has alone, however slow it is") {
  if (test::no_device()) return;
  FitOptions options = options_of(GENERATE(Model::CircularGaussian, Model::EllipticalGaussian),
                                  GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                           Estimator::PoissonLikelihood));
  options.spots_only = GENERATE(true, false);
  check_each(options, GENERATE(5, 7, 9, 16), GENERATE(true, false), {500'009, 3001, 400});
}

// So few that racecheck ends, which alone sees that threads of a ROI wait for one another.
TEST_CASE("Of a few fits that a warp leaves each has the bits that it has alone") {
  if (test::no_device()) return;
  const FitOptions options =
      options_of(Model::CircularGaussian,
                 GENERATE(Estimator::ImplicitLeastSquares, Estimator::PoissonLikelihood));
  check_each(options, GENERATE(7, 9, 16), true, {130, 130, 130});
}

TEST_CASE("A first launch over a GPU's memory leaves a few fits to a second, on every stream") {
  if (test::no_device()) return;
  static std::multiset<cudaStream_t> streams;  // of second launches
  static std::size_t left;
  streams.clear();
  left = 0;
  fitter::cuda::RuntimeCalls calls;
  calls.launch = [](const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                    cudaStream_t stream) {
    const auto& job = *static_cast<const fitter::cuda::KernelArgument*>(arguments[0]);
    if (job.goes_on) {
      std::uint32_t here = 0;
      cudaStreamSynchronize(stream);
      cudaMemcpy(&here, job.left, sizeof here, cudaMemcpyDefault);
      left += here;
      streams.insert(stream);
    }
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
  };
  constexpr int kSide = 9;
  constexpr std::size_t kCount = 400'000;
  const auto pixels = test::simulate_spots<std::uint16_t>(kSide, 300, 100, kCount, 77).pixels;
  const test::CudaArray<std::uint16_t> there(true, pixels.data(), pixels.size());
  const test::CudaArray<fitter::Localization> results(true, Fits(kCount).data(), kCount);
  const fitter::CudaBatchOptions cuda;
  fitter::cuda::make_batch_fitter(cuda, calls)
      ->fit({there.get(), fitter::PixelType::U16, kSide, kCount}, FitOptions(),
            {results.get(), kCount});
  CHECK(streams.size() == static_cast<std::size_t>(cuda.streams));
  for (const cudaStream_t stream : streams) CHECK(streams.count(stream) == 1);
  CHECK(left > kCount / 50);
  CHECK(left < kCount / 5);
}

}  // namespace
}  // namespace driftd
