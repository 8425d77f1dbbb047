// SPDX-License-Identifier: MIT
// Spots that the GPU finds in frames of the host, and fits there, are those of the CPU's search and
// of the GPU's fits, to the bit.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/spots/localize.hpp"
#include "fitter/spots/spot_rules.hpp"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"
#include "unit/fitter/drawn_frames.hpp"

namespace driftd {
namespace {

using fitter::FoundInFrames, fitter::FrameShape, fitter::FrameSpot, fitter::HotPixels,
    fitter::SpotJob, fitter::SpotSearch;

/// Small chunks on several streams.
fitter::CudaBatchOptions several_lanes() {
  return {.devices = {0}, .streams = 3, .chunk_bytes = 50'000};
}

/// Spots by the CPU's search, fitted by the GPU from ROIs that the CPU cut.
template <class Pixel>
FoundInFrames expected_of(const std::vector<Pixel>& frames, const SpotJob& job) {
  FoundInFrames expected;
  std::vector<std::byte> copy;
  std::vector<Pixel> rois;
  std::vector<float> variances;
  const auto side = static_cast<std::size_t>(job.roi_px);
  for (std::size_t frame = 0; frame < job.count; ++frame) {
    const Pixel* const pixels = frames.data() + frame * job.shape.pixels();
    const auto* bytes = reinterpret_cast<const std::byte*>(pixels);
    for (const auto& spot : job.search->find(job.shape, job.hot->filled(job.shape, bytes, copy))) {
      expected.spots.push_back(
          {spot.x_px, spot.y_px, static_cast<std::int32_t>(frame), spot.net_gradient});
      if (job.roi_px == 0) continue;
      const int x = fitter::roi_origin(spot.x_px, job.roi_px, job.shape.width_px);
      const int y = fitter::roi_origin(spot.y_px, job.roi_px, job.shape.height_px);
      for (std::size_t row = 0; row < side; ++row) {
        const std::size_t first =
            (static_cast<std::size_t>(y) + row) * static_cast<std::size_t>(job.shape.width_px) +
            static_cast<std::size_t>(x);
        rois.insert(rois.end(), pixels + first, pixels + first + side);
        if (job.variances != nullptr)
          variances.insert(variances.end(), job.variances + first, job.variances + first + side);
      }
    }
  }
  if (job.roi_px == 0) return expected;
  expected.fits.resize(expected.spots.size());
  fitter::make_cuda_batch_fitter()->fit(
      {.pixels = rois.data(),
       .type = job.shape.type,
       .roi_px = job.roi_px,
       .count = expected.spots.size(),
       .variances = job.variances != nullptr ? variances.data() : nullptr},
      job.options, expected.fits);
  return expected;
}

void check_same(const FoundInFrames& found, const FoundInFrames& expected) {
  REQUIRE(found.spots.size() == expected.spots.size());
  REQUIRE(found.fits.size() == expected.fits.size());
  for (std::size_t i = 0; i < found.spots.size(); ++i) {
    const FrameSpot &is = found.spots[i], &wanted = expected.spots[i];
    if (std::memcmp(&is, &wanted, sizeof is) == 0) continue;
    FAIL("spot " << i << ": " << is.x_px << ", " << is.y_px << " in " << is.frame << " with "
                 << is.net_gradient << ", expected " << wanted.x_px << ", " << wanted.y_px << " in "
                 << wanted.frame << " with " << wanted.net_gradient);
  }
  CHECK(test::same_bits(found.fits.data(), expected.fits.data(), found.fits.size()));
}

template <class Pixel>
void check_frames(fitter::Estimator estimator, bool mapped) {
  constexpr std::size_t kFrames = 37;
  fitter::CudaBatchOptions lanes = several_lanes();
  const auto finder = fitter::make_cuda_spot_finder(lanes);
  for (const auto& [width, height] : {std::pair{97, 70}, {40, 33}, {130, 160}}) {
    const FrameShape shape{width, height, test::type_of<Pixel>()};
    const auto frames = test::drawn<Pixel>(shape, kFrames, 20, 3, 17);
    std::vector<float> variances(shape.pixels(), 2.0f);
    for (std::size_t i = 5; i < variances.size(); i += 191) variances[i] = 1e5f;
    const HotPixels hot = mapped ? HotPixels(width, variances) : HotPixels();
    for (const int roi_px : {0, 7, 12}) {
      CAPTURE(width, roi_px, mapped);
      const SpotSearch search({.box_px = roi_px == 12 ? 11 : 7, .least_noise = 0.3});
      SpotJob job{.shape = shape,
                  .count = kFrames,
                  .frames = reinterpret_cast<const std::byte*>(frames.data()),
                  .bring = {},
                  .search = &search,
                  .hot = &hot,
                  .roi_px = roi_px,
                  .options = {},
                  .variances = mapped ? variances.data() : nullptr};
      job.options.estimator = estimator;
      const FoundInFrames expected = expected_of(frames, job);
      CHECK(expected.spots.size() > 2 * kFrames);
      check_same(finder->find(job), expected);
      const test::CudaArray<Pixel> pinned(false, frames.data(), frames.size());
      job.frames = reinterpret_cast<const std::byte*>(pinned.get());
      check_same(finder->find(job), expected);
      job.frames = nullptr;
      job.bring = [&](std::size_t frame, std::byte* to) {
        std::memcpy(to, frames.data() + frame * shape.pixels(), shape.pixels() * sizeof(Pixel));
      };
      check_same(finder->find(job), expected);
    }
  }
}

TEST_CASE("The GPU finds and fits in whole frames what the CPU finds, of every pixel type") {
  if (test::no_device()) return;
  check_frames<std::uint8_t>(fitter::Estimator::ImplicitLeastSquares, false);
  check_frames<std::uint16_t>(fitter::Estimator::ImplicitLeastSquares, false);
  check_frames<float>(fitter::Estimator::LeastSquares, false);
  check_frames<std::uint16_t>(fitter::Estimator::PoissonLikelihood, true);
  check_frames<float>(fitter::Estimator::PoissonLikelihood, true);
}

TEST_CASE("The GPU's search sees noise and pixels that are no numbers as the CPU's does") {
  if (test::no_device()) return;
  const FrameShape shape{120, 90, fitter::PixelType::F32};
  const auto finder = fitter::make_cuda_spot_finder(several_lanes());
  const HotPixels hot;
  std::size_t spots = 0;
  for (const double background : {-6.0, 0.0, 500.0})
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 3e38f, -0.0f}) {
      CAPTURE(background, odd);
      auto frames = test::drawn<float>(shape, 8, background, 3, 23);
      for (float& pixel : frames) pixel = std::max(pixel, 0.0f) * 0.37f;
      for (std::size_t i = 3; i < frames.size(); i += 701) frames[i] = odd;
      for (const double least : {0.0, 30.0}) {
        const SpotSearch search({.box_px = 7, .min_net_gradient = least, .least_noise = 0.1});
        const SpotJob job{.shape = shape,
                          .count = 8,
                          .frames = reinterpret_cast<const std::byte*>(frames.data()),
                          .bring = {},
                          .search = &search,
                          .hot = &hot,
                          .roi_px = 0,
                          .options = {},
                          .variances = nullptr};
        const FoundInFrames expected = expected_of(frames, job);
        check_same(finder->find(job), expected);
        spots += expected.spots.size();
      }
    }
  CHECK(spots > 100);
}

TEST_CASE("FrameSpots finds the same on the GPU and the CPU, with maps, and fits agree") {
  if (test::no_device()) return;
  const FrameShape shape{120, 90, fitter::PixelType::U16};
  const auto pixels = test::drawn<std::uint16_t>(shape, 30, 100, 3, 31);
  std::vector<float> gains(shape.pixels(), 0.5f), variances(shape.pixels(), 2.0f);
  for (std::size_t i = 0; i < gains.size(); ++i) gains[i] += 0.01f * static_cast<float>(i % 7);
  variances[1000] = std::numeric_limits<float>::infinity();
  const fitter::Frames frames{.pixels = pixels.data(),
                              .type = shape.type,
                              .width_px = shape.width_px,
                              .height_px = shape.height_px,
                              .count = 30,
                              .row_bytes = 120 * 2,
                              .frame_bytes = 120 * 90 * 2,
                              .gains_e_per_adu = gains.data(),
                              .offsets_adu = nullptr,
                              .variances_adu2 = variances.data()};
  fitter::FitOptions options;
  options.estimator = fitter::Estimator::PoissonLikelihood;
  options.noise.offset_adu = 90;
  const fitter::FrameSpots spots(frames, options, 7, 0);
  fitter::BatchBackEnd cpu(fitter::BackEnd::Cpu), gpu(fitter::BackEnd::Cuda);
  fitter::GpuSearch none, search;
  const auto by_cpu = spots.find(cpu, none, 2), by_gpu = spots.find(gpu, search, 2);
  REQUIRE(by_cpu.size() > 60);
  REQUIRE(by_cpu.size() == by_gpu.size());
  CHECK(std::memcmp(by_cpu.data(), by_gpu.data(), by_cpu.size() * sizeof(FrameSpot)) == 0);
  const auto fits = spots.localize(cpu, none, 7, 1, 5, 2),
             on_gpu = spots.localize(gpu, search, 7, 1, 5, 2);
  REQUIRE(fits.size() == on_gpu.size());
  for (std::size_t i = 0; i < fits.size(); ++i) {
    CHECK(fits[i].frame == on_gpu[i].frame);
    CHECK(fits[i].net_gradient == on_gpu[i].net_gradient);
    CHECK(on_gpu[i].x == Approx(fits[i].x).margin(0.02 * static_cast<double>(fits[i].lpx)));
    CHECK(on_gpu[i].y == Approx(fits[i].y).margin(0.02 * static_cast<double>(fits[i].lpy)));
  }
}

TEST_CASE("Frames without spots, smaller than the box, or none at all, give none") {
  if (test::no_device()) return;
  const auto finder = fitter::make_cuda_spot_finder(several_lanes());
  const HotPixels hot;
  const SpotSearch search({.box_px = 7});
  for (const auto& [side, count] : {std::pair{6, 3}, {50, 3}, {50, 0}}) {
    const FrameShape shape{side, side, fitter::PixelType::U8};
    const std::vector<std::byte> frames(shape.pixels() * 3);
    const FoundInFrames found = finder->find({.shape = shape,
                                              .count = static_cast<std::size_t>(count),
                                              .frames = frames.data(),
                                              .bring = {},
                                              .search = &search,
                                              .hot = &hot,
                                              .roi_px = 4,
                                              .options = {},
                                              .variances = nullptr});
    CHECK((found.spots.empty() && found.fits.empty()));
  }
}

}  // namespace
}  // namespace driftd
