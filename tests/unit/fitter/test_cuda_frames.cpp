// SPDX-License-Identifier: MIT
// ROIs that the GPU cuts from frames in its memory are those that the CPU cuts.
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/frames.hpp"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

using fitter::Estimator, fitter::FitOptions, fitter::FrameFits, fitter::Localization, fitter::Place,
    fitter::Start;
using test::CudaArray, test::Fits;

constexpr int kSide = 7, kWidth = 61, kHeight = 40, kFrames = 5, kRowPixels = 64;
constexpr std::size_t kCount = 20'000;
constexpr std::size_t kFramePixels = std::size_t{kHeight} * kRowPixels + kRowPixels;

/// Frames of light in spots, with gaps behind each row and frame, and maps with some bad pixels.
template <class Pixel>
struct World {
  std::vector<Pixel> pixels;
  std::vector<float> gains, offsets, variances;
  std::vector<Place> places;
  std::vector<Start> starts;

  World() {
    std::mt19937 random(11);
    const auto spots = test::simulate_spots<Pixel>(32, 1600, 10, 2 * kFrames, 12);
    pixels.assign(kFrames * kFramePixels, Pixel{77});
    for (int f = 0; f < kFrames; ++f)
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x)
          pixels[static_cast<std::size_t>(f) * kFramePixels +
                 static_cast<std::size_t>(y * kRowPixels + x)] =
              spots
                  .pixels[static_cast<std::size_t>(((2 * f + x / 32) * 32 + y % 32) * 32 + x % 32)];
    const auto map_of = [&](float low, float high) {
      std::uniform_real_distribution<float> one(low, high);
      std::vector<float> map(std::size_t{kWidth} * kHeight);
      for (float& value : map) value = one(random);
      return map;
    };
    gains = map_of(0.4f, 0.6f);
    gains[200] = 0;
    offsets = map_of(-1, 3);
    offsets[700] = std::numeric_limits<float>::quiet_NaN();
    variances = map_of(1, 4);
    variances[400] = std::numeric_limits<float>::infinity();
    // Some leave their frame, at each edge and far beyond what an int holds between them.
    std::uniform_int_distribution<int> x(1, kWidth), y(1, kHeight), f(0, kFrames - 1);
    for (std::size_t i = 0; i < kCount; ++i) {
      places.push_back({x(random), y(random), f(random)});
      starts.push_back({static_cast<float>(places[i].x_px) + 0.3f,
                        static_cast<float>(places[i].y_px) - 0.2f, 1.5f, 1.5f});
    }
    constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
    places[3] = {kLeast, 20, 0};
    places[4] = {20, kMost, 4};
  }

  FrameFits fits() const {
    return {.frames = {.pixels = pixels.data(),
                       .type = test::pixel_type<Pixel>(),
                       .width_px = kWidth,
                       .height_px = kHeight,
                       .count = kFrames,
                       .row_bytes = kRowPixels * sizeof(Pixel),
                       .frame_bytes = kFramePixels * sizeof(Pixel)},
            .places = places.data(),
            .rois = {.roi_px = kSide, .count = kCount}};
  }
};

/// What the same GPU makes of the ROIs that the CPU cut.
Fits cut_by_cpu(const FrameFits& fits, const FitOptions& options) {
  static const auto cuda = fitter::make_cuda_batch_fitter();
  fitter::CutRois cut(fits, options, kCount);
  cut.cut(0, kCount);
  Fits results(kCount);
  cuda->fit(cut.batch(0, kCount), options_of_cut(fits.frames, options), results);
  cut.to_frame(0, results);
  return results;
}

/// A fitter of small chunks on several streams.
fitter::CudaBatchOptions small_chunks() {
  return {.devices = {0}, .streams = 3, .chunk_bytes = 400'000};
}

template <class Pixel>
void check_every_map(Estimator estimator) {
  const World<Pixel> world;
  const auto cuda = fitter::make_cuda_batch_fitter(small_chunks());
  const CudaArray<Pixel> pixels(true, world.pixels.data(), world.pixels.size());
  const CudaArray<float> gains(true, world.gains.data(), world.gains.size());
  const CudaArray<float> offsets(true, world.offsets.data(), world.offsets.size());
  const CudaArray<float> variances(true, world.variances.data(), world.variances.size());
  FitOptions options;
  options.estimator = estimator;
  options.saturation_adu = 150;
  options.noise.offset_adu = 2;
  for (unsigned maps = 0; maps < 8; ++maps) {
    CAPTURE(maps);
    const bool varied = (maps & 4u) != 0;
    if (estimator == Estimator::WeightedLeastSquares && !varied) continue;
    if (estimator == Estimator::ImplicitLeastSquares && varied) continue;
    FrameFits fits = world.fits();
    if ((maps & 1u) != 0) fits.frames.gains_e_per_adu = world.gains.data();
    if ((maps & 2u) != 0) fits.frames.offsets_adu = world.offsets.data();
    if (varied) fits.frames.variances_adu2 = world.variances.data();
    const Fits expected = cut_by_cpu(fits, options);
    std::size_t good = 0;
    for (const Localization& l : expected) good += converged(l.status) ? 1u : 0u;
    CHECK(good > kCount / 50);
    CHECK(expected[3].status == fitter::FitStatus::BadInput);
    CHECK(expected[4].status == fitter::FitStatus::BadInput);
    fits.frames.pixels = pixels.get();
    if ((maps & 1u) != 0) fits.frames.gains_e_per_adu = gains.get();
    if ((maps & 2u) != 0) fits.frames.offsets_adu = offsets.get();
    if (varied) fits.frames.variances_adu2 = variances.get();
    Fits found(kCount);
    cuda->fit_frames(fits, options, found);
    CHECK(test::same_bits(found.data(), expected.data(), kCount));
  }
}

TEST_CASE("The GPU cuts from its frames what the CPU cuts, with every map and pixel type") {
  if (test::no_device()) return;
  for (const Estimator estimator :
       {Estimator::ImplicitLeastSquares, Estimator::WeightedLeastSquares}) {
    check_every_map<std::uint8_t>(estimator);
    check_every_map<std::uint16_t>(estimator);
    check_every_map<float>(estimator);
  }
}

TEST_CASE("Wherever places, starts and results of frames on the GPU lie, the bits are the same") {
  if (test::no_device()) return;
  const World<std::uint16_t> world;
  FrameFits fits = world.fits();
  fits.rois.starts = world.starts.data();
  const Fits expected = cut_by_cpu(fits, {});
  const CudaArray<std::uint16_t> pixels(true, world.pixels.data(), world.pixels.size());
  fits.frames.pixels = pixels.get();
  const auto cuda = fitter::make_cuda_batch_fitter(small_chunks());
  for (unsigned where = 0; where < 8; ++where) {
    CAPTURE(where);
    const CudaArray<Place> places((where & 1u) != 0, world.places.data(), kCount);
    const CudaArray<Start> starts((where & 2u) != 0, world.starts.data(), kCount);
    const CudaArray<Localization> results((where & 4u) != 0, expected.data(), kCount);
    REQUIRE(cudaMemset(results.get(), 0xa5, kCount * sizeof(Localization)) == cudaSuccess);
    fits.places = places.get();
    fits.rois.starts = starts.get();
    cuda->fit_frames(fits, {}, {results.get(), kCount});
    Fits found(kCount);
    REQUIRE(cudaMemcpy(found.data(), results.get(), kCount * sizeof(found[0]), cudaMemcpyDefault) ==
            cudaSuccess);
    CHECK(test::same_bits(found.data(), expected.data(), kCount));
    std::vector<Start> kept(kCount);
    REQUIRE(cudaMemcpy(kept.data(), starts.get(), kCount * sizeof(kept[0]), cudaMemcpyDefault) ==
            cudaSuccess);
    CHECK(std::memcmp(kept.data(), world.starts.data(), kCount * sizeof(kept[0])) == 0);
  }
}

TEST_CASE("Frames of the host are cut in blocks, which come in order") {
  if (test::no_device()) return;
  constexpr std::size_t kTimes = 6;  // of 8 MB with variances and converted: three blocks of 16 MiB
  const World<std::uint16_t> world;
  FrameFits once = world.fits();
  once.frames.gains_e_per_adu = world.gains.data();
  once.frames.variances_adu2 = world.variances.data();
  FitOptions options;
  options.estimator = Estimator::PoissonLikelihood;
  const Fits expected = cut_by_cpu(once, options);
  FrameFits fits = once;
  std::vector<Place> places;
  for (std::size_t i = 0; i < kTimes; ++i)
    places.insert(places.end(), world.places.begin(), world.places.end());
  fits.places = places.data();
  fits.rois.count = places.size();
  fitter::BatchBackEnd back_end(fitter::BackEnd::Cuda);
  Fits found(places.size());
  back_end.fit_frames(fits, options, found, 3);
  for (std::size_t i = 0; i < kTimes; ++i)
    CHECK(test::same_bits(found.data() + i * kCount, expected.data(), kCount));
}

TEST_CASE("Places on the GPU in frames that are not there are bad input, and on the host refused") {
  if (test::no_device()) return;
  World<std::uint16_t> world;
  FrameFits fits = world.fits();
  const CudaArray<std::uint16_t> pixels(true, world.pixels.data(), world.pixels.size());
  fits.frames.pixels = pixels.get();
  fitter::BatchBackEnd back_end(fitter::BackEnd::Cuda);
  Fits expected(kCount), found(kCount);
  back_end.fit_frames(fits, {}, expected, 1);
  world.places[7].frame = kFrames;
  world.places[9].frame = -1;
  for (const std::size_t i : {7u, 9u}) expected[i].status = fitter::FitStatus::BadInput;
  const CudaArray<Place> places(true, world.places.data(), kCount);
  CHECK_THROWS_WITH(back_end.fit_frames(fits, {}, found, 1),
                    contains("place 7 is in frame 5, of frames there are 5"));
  fits.places = places.get();
  CHECK_NOTHROW(back_end.check(fits, {}, found));
  back_end.fit_frames(fits, {}, found, 1);
  for (std::size_t i = 0; i < kCount; ++i)
    if (found[i].status != expected[i].status) FAIL("fit " << i);
}

TEST_CASE("Frames and maps of several places, and pixels between addresses, are refused") {
  if (test::no_device()) return;
  const World<std::uint16_t> world;
  const CudaArray<std::uint16_t> pixels(true, world.pixels.data(), world.pixels.size());
  const CudaArray<float> gains(true, world.gains.data(), world.gains.size());
  fitter::BatchBackEnd back_end(fitter::BackEnd::Auto);
  Fits found(kCount);
  FrameFits fits = world.fits();
  fits.frames.pixels = pixels.get();
  fits.frames.gains_e_per_adu = world.gains.data();
  CHECK_THROWS_WITH(back_end.fit_frames(fits, {}, found, 1),
                    contains("maps have to lie there, too"));
  fits = world.fits();
  fits.frames.gains_e_per_adu = gains.get();
  CHECK_THROWS_WITH(back_end.fit_frames(fits, {}, found, 1),
                    contains("of frames in the host's memory"));
  for (const int which : {0, 1, 2}) {
    fits = world.fits();
    fits.frames.pixels =
        reinterpret_cast<const unsigned char*>(pixels.get()) + (which == 0 ? 1 : 0);
    fits.frames.count = 1;
    fits.frames.row_bytes += which == 1 ? 1 : 0;
    fits.frames.frame_bytes += which == 2 ? 1 : 0;
    std::vector<Place> first = world.places;
    for (Place& place : first) place.frame = 0;
    fits.places = first.data();
    CHECK_THROWS_WITH(back_end.fit_frames(fits, {}, found, 1),
                      contains("multiples of a pixel, 2 bytes"));
  }
  CHECK(back_end.on_gpu());
}

TEST_CASE("What the host can read is known without CUDA, too") {
  if (fitter::cuda_device_count() > 0) return;  // then CUDA says
  const std::size_t page = 4096;
  void* const none = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(none != MAP_FAILED);
  const std::vector<float> there(1);
  CHECK(fitter::host_can_read(there.data()));
  CHECK(fitter::host_can_read(nullptr));
  CHECK(!fitter::host_can_read(none));
  munmap(none, page);
}

}  // namespace
}  // namespace driftd
