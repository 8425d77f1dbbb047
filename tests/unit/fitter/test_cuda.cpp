// SPDX-License-Identifier: MIT
// The CUDA batch fitter against the CPU twin and its own contract. Needs a device.
#include <cuda_runtime_api.h>

#include <limits>
#include <random>

#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::FitStatus;
using test::Fits;

template <class Pixel>
void check_type(int side, double signal, double background) {
  const auto images = test::simulate_spots<Pixel>(side, signal, background, 300, 51);
  const auto cpu = test::fit_all(images.pixels, side);
  test::check_agreement(cpu, test::fit_all_cuda(images.pixels, side), side);
  const auto starts = test::starts_from(cpu);
  test::check_agreement(test::fit_all(images.pixels, side, {}, starts),
                        test::fit_all_cuda(images.pixels, side, {}, starts), side);
}

TEST_CASE("CUDA agrees with the CPU for every ROI side and pixel type, cold and warm") {
  if (test::no_device()) return;
  const int side = GENERATE(range(fitter::kMinRoiPx, fitter::kMaxRoiPx + 1));
  check_type<std::uint8_t>(side, 600, 2.0 * side * side);
  check_type<std::uint16_t>(side, 4000, 400);
  check_type<std::uint16_t>(side, 4e6, 100.0 * side * side);
  check_type<float>(side, 1600, 40);
}

TEST_CASE("CUDA agrees with the CPU on weak spots, noise and gradients") {
  if (test::no_device()) return;
  const int side = GENERATE(4, 5, 7, 9, 13, 16, 17, 24, 33, 64);
  std::mt19937_64 generator(52);
  std::normal_distribution<double> noise(0, 1), slope(0, 40.0 / side);
  std::vector<float> pixels;
  constexpr int kRois = 1000;
  for (int i = 0; i < kRois; ++i) {
    const double by_x = i % 3 == 1 ? slope(generator) : 0, by_y = i % 3 == 1 ? slope(generator) : 0;
    const double amplitude = i % 3 == 2 ? 60 : 0;
    const test::Spot spot = {side / 2.0 + noise(generator), side / 2.0 + noise(generator), 1.3,
                             amplitude, 500};
    for (int row = 0; row < side; ++row)
      for (int column = 0; column < side; ++column)
        pixels.push_back(static_cast<float>(test::intensity(spot, column, row) + by_x * column +
                                            by_y * row + 10 * noise(generator)));
  }
  fitter::FitOptions options;
  if (side % 2 == 1) options.min_background_adu = 480;
  test::check_agreement(test::fit_all(pixels, side, options),
                        test::fit_all_cuda(pixels, side, options), side);
}

TEST_CASE("CUDA gives the CPU's verdict on nasty input") {
  if (test::no_device()) return;
  constexpr int kSide = 13;
  const test::Spot spot = {6.2, 5.9, 1.4, 800, 100};
  const auto clean = test::clean_image(spot, kSide);
  std::vector<std::vector<float>> rois = {clean};
  const auto add = [&](auto&& change) {
    rois.push_back(clean);
    change(rois.back());
  };
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), 3e38f})
    for (const std::size_t place : {0u, 84u, 168u}) add([&](auto& p) { p[place] = bad; });
  for (const float level : {0.0f, -1.5f, 65535.0f})
    add([&](auto& p) { std::fill(p.begin(), p.end(), level); });
  for (const float factor : {1e-12f, 1e-6f, 1e6f, 1e12f, -1.0f})
    add([&](auto& p) {
      for (float& v : p) v *= factor;
    });
  add([](auto& p) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<float>(i);
  });
  add([](auto& p) {
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = i % 13 < 5 ? 10.f : 200.f;
  });
  add([](auto& p) {
    std::fill(p.begin(), p.end(), 100.f);
    p[70] = 4000;
  });
  rois.push_back(clean);
  for (const double x : {-4.0, -1.0, -0.6, 0.0, 12.4, 13.2, 20.0})
    rois.push_back(test::clean_image({x, 6, 1.4, 800, 100}, kSide));
  for (const double sigma : {0.05, 0.3, 0.41, 6.0, 6.6, 40.0})
    rois.push_back(test::clean_image({6.1, 6, sigma, 800, 100}, kSide));
  std::vector<float> pixels;
  for (const auto& roi : rois) pixels.insert(pixels.end(), roi.begin(), roi.end());
  for (const bool warm : {false, true}) {
    const std::vector<fitter::Start> starts(warm ? rois.size() : 0, {6, 6, 1, 1});
    const Fits cpu = test::fit_all(pixels, kSide, {}, starts);
    const Fits cuda = test::fit_all_cuda(pixels, kSide, {}, starts);
    for (std::size_t i = 0; i < rois.size(); ++i) {
      INFO("roi " << i << " warm " << warm << ": " << name_of(cpu[i].status) << ", CUDA "
                  << name_of(cuda[i].status));
      CHECK(converged(cpu[i].status) == converged(cuda[i].status));
      CHECK((cpu[i].status == FitStatus::BadInput) == (cuda[i].status == FitStatus::BadInput));
      if (cuda[i].status == FitStatus::BadInput) CHECK(std::isnan(cuda[i].x_px));
    }
    CHECK(test::same_bits(&cuda[0], &cuda[24], 1));  // the clean ROI among bad neighbours
  }
}

TEST_CASE("Senseless and far starts end at the same spot on CUDA") {
  if (test::no_device()) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto image = test::clean_image({6.2, 5.9, 1.4, 800, 100}, 13);
  const std::vector<fitter::Start> starts = {
      {0, 0, 1, 1},   {12, 12, 0.5f, 0.5f}, {6, 6, 100, 100}, {-1e6f, 1e6f, 1, 1},
      {nan, 6, 1, 1}, {6, 6, nan, 1},       {6, 6, -1, -1},   {6, 6, 1.4f, 1.4f}};
  std::vector<float> pixels;
  for (std::size_t i = 0; i < starts.size(); ++i)
    pixels.insert(pixels.end(), image.begin(), image.end());
  for (const auto& fit : test::fit_all_cuda(pixels, 13, {}, starts)) {
    CHECK(converged(fit.status));
    CHECK(fit.x_px == Approx(6.2).margin(1e-3));
    CHECK(fit.sigma_x_px == Approx(1.4).margin(1e-3));
  }
}

TEST_CASE("Options mean the same on CUDA") {
  if (test::no_device()) return;
  const auto images = test::simulate_spots<std::uint16_t>(11, 3000, 900, 500, 53);
  fitter::FitOptions options;
  SECTION("noise model") {
    options.noise = {0.5f, 1.6f, 2.0f};
  }
  SECTION("residuum") {
    options.min_chi_square = 11 * 11 / 3.0f;
  }
  SECTION("background limit") {
    options.min_background_adu = 8;
  }
  SECTION("damping") {
    options.lambda_start = 10;
  }
  SECTION("saturation") {
    options.saturation_adu = 200;
  }
  const auto cpu = test::fit_all(images.pixels, 11, options);
  const auto cuda = test::fit_all_cuda(images.pixels, 11, options);
  test::check_agreement(cpu, cuda, 11);
  fitter::FitOptions few = options;
  few.max_iterations = 2;
  const auto limited = test::fit_all_cuda(images.pixels, 11, few);
  for (std::size_t i = 0; i < limited.size(); ++i) {
    CHECK(limited[i].iterations <= 2);
    if (cuda[i].iterations > 3 && cuda[i].status != FitStatus::BadInput)
      CHECK_FALSE(converged(limited[i].status));
  }
}

TEST_CASE("A batch of any size writes its results, all of them and no more") {
  if (test::no_device()) return;
  const int side = GENERATE(9, 20, 40);
  constexpr std::size_t kMost = 1000, kGuard = 8;
  const auto images = test::simulate_spots<std::uint16_t>(side, 1600, 40, kMost, 54);
  const auto whole = test::fit_all_cuda(images.pixels, side);
  const auto cuda = fitter::make_cuda_batch_fitter();
  Fits poison(kMost + kGuard);
  std::memset(poison.data(), 0xa5, poison.size() * sizeof(poison[0]));
  const std::size_t step = side == 9 ? 1 : 37;
  for (std::size_t count = 1; count <= kMost; count += step) {
    Fits results = poison;
    cuda->fit({images.pixels.data(), fitter::PixelType::U16, side, count, nullptr}, {},
              {results.data(), count});
    if (!test::same_bits(results.data(), whole.data(), count)) FAIL(count << " fits differ");
    if (!test::same_bits(results.data() + count, poison.data(), kGuard))
      FAIL("wrote past " << count);
  }
}

TEST_CASE("Wherever the batch lies and however it is cut, the bits are the same") {
  if (test::no_device()) return;
  constexpr std::size_t kCount = 30001;
  constexpr int kSide = 7;
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 1600, 40, kCount, 55);
  const std::vector<fitter::Start> starts(kCount, {3, 3, 1.5f, 1.5f});
  const Fits pageable = test::fit_all_cuda(images.pixels, kSide, {}, starts);
  for (int i = 0; i < 3; ++i)
    CHECK(test::same_bits(test::fit_all_cuda(images.pixels, kSide, {}, starts).data(),
                          pageable.data(), kCount));
  fitter::CudaBatchOptions cut;
  cut.chunk_bytes = 100000;
  cut.streams = 3;
  for (int device = 0; device < fitter::cuda_device_count(); ++device) {
    if (device > 0) cut.devices.push_back(device);
  }
  const auto cuda = fitter::make_cuda_batch_fitter(cut);
  for (int places = 0; places < 8; ++places) {
    const test::CudaArray<std::uint16_t> pixels((places & 1) != 0, images.pixels.data(),
                                                images.pixels.size());
    const test::CudaArray<fitter::Start> given((places & 2) != 0, starts.data(), kCount);
    const test::CudaArray<fitter::Localization> results((places & 4) != 0, pageable.data(), kCount);
    REQUIRE(cudaMemset(results.get(), 0xa5, kCount * sizeof(fitter::Localization)) == cudaSuccess);
    cuda->fit({pixels.get(), fitter::PixelType::U16, kSide, kCount, given.get()}, {},
              {results.get(), kCount});
    Fits back(kCount);
    REQUIRE(cudaMemcpy(back.data(), results.get(), kCount * sizeof(back[0]), cudaMemcpyDefault) ==
            cudaSuccess);
    INFO("places " << places);
    CHECK(test::same_bits(back.data(), pageable.data(), kCount));
  }
}

TEST_CASE("Senseless batches are refused on CUDA") {
  if (test::no_device()) return;
  const auto cuda = fitter::make_cuda_batch_fitter();
  const std::vector<std::uint16_t> pixels(81);
  Fits one(1);
  CHECK_NOTHROW(cuda->fit({nullptr, fitter::PixelType::U16, 9, 0, nullptr}, {}, {}));
  CHECK_THROWS_AS(cuda->fit({nullptr, fitter::PixelType::U16, 9, 1, nullptr}, {}, one),
                  fitter::FitterError);
  CHECK_THROWS_AS(cuda->fit({pixels.data(), fitter::PixelType::U16, 3, 1, nullptr}, {}, one),
                  fitter::FitterError);
  CHECK_THROWS_AS(cuda->fit({pixels.data(), fitter::PixelType::U16, 9, 2, nullptr}, {}, one),
                  fitter::FitterError);
  CHECK_THROWS_WITH(fitter::make_cuda_batch_fitter({{99}, 4, 1 << 20}),
                    contains("device 99 is not there"));
}

}  // namespace
}  // namespace driftd
