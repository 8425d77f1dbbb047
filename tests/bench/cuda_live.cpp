// SPDX-License-Identifier: MIT
#include "cuda_live.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda_timing.hpp"
#include "fitter/cuda_fitter.hpp"
#include "support/spots.hpp"

namespace driftd::bench {
namespace {

using nlohmann::json;
using Fits = std::vector<fitter::Localization>;
using Starts = std::vector<fitter::Start>;

/// What the live markers are: the paper's molecules, and beads as a lock has them; with new noise
/// in every frame, or the same image again, which is as warm as a start can be.
struct Light {
  const char* name;
  double signal, background;
  bool new_noise;
};
constexpr std::array kLights = {Light{"molecule", kSignal, kBackground, true},
                                Light{"bead", 100 * kSignal, 100 * kBackground, true},
                                Light{"again", 100 * kSignal, 100 * kBackground, false}};

/// `count` markers that stand still, in `kFrames` frames.
struct Scene {
  static constexpr std::size_t kFrames = 64;
  std::vector<std::vector<std::uint16_t>> frames;
  std::vector<Starts> starts;  ///< from the frame before
  double iterations = 0;       ///< mean, warm
};

Scene make_scene(const Light& light, int side, std::size_t count) {
  std::mt19937_64 generator(20210312);
  std::vector<test::Spot> spots;
  for (std::size_t i = 0; i < count; ++i)
    spots.push_back(test::random_spot(side, light.signal, light.background, generator));
  Scene scene;
  for (std::size_t frame = 0; frame < Scene::kFrames; ++frame) {
    if (frame > 0 && !light.new_noise) {
      scene.frames.push_back(scene.frames.front());
      continue;
    }
    auto& pixels = scene.frames.emplace_back();
    for (const test::Spot& spot : spots)
      for (int row = 0; row < side; ++row)
        for (int column = 0; column < side; ++column)
          pixels.push_back(
              test::noisy<std::uint16_t>(test::intensity(spot, column, row), 65535, generator));
  }
  Starts last(count);
  for (std::size_t frame = 0; frame < 2 * Scene::kFrames; ++frame) {  // the second time round, warm
    if (frame >= Scene::kFrames) scene.starts.push_back(last);
    Fits fits(count);
    fitter::fit_batch_cpu({scene.frames[frame % Scene::kFrames].data(), fitter::PixelType::U16,
                           side, count, last.data()},
                          test::paper_options(side), fits);
    for (std::size_t i = 0; i < count; ++i) {
      last[i] = {fits[i].x_px, fits[i].y_px, fits[i].sigma_x_px, fits[i].sigma_y_px};
      if (frame >= Scene::kFrames)
        scene.iterations += fits[i].iterations / static_cast<double>(count * Scene::kFrames);
    }
  }
  return scene;
}

/// From staging written to results read.
Timing measure_calls(fitter::LiveFitter& live, const Scene& scene, std::size_t count, int frames) {
  const auto side = static_cast<std::size_t>(live.roi_px());
  const std::size_t size = side * side;
  std::vector<double> us;
  for (int i = -200; i < frames; ++i) {
    const std::size_t frame = static_cast<std::size_t>(i + 200) % Scene::kFrames;
    for (std::size_t k = 0; k < count; ++k)
      std::copy_n(scene.frames[frame].data() + k * size, size, live.staging(k));
    const auto start = Clock::now();
    const auto fits = live.fit(scene.starts[frame]);
    const double took = elapsed_us(start);
    if (live.error() != nullptr) throw std::runtime_error(live.error());
    if (fits.size() != count) throw std::runtime_error("results are missing");
    if (i >= 0) us.push_back(took);
  }
  return timing_of(us);
}

}  // namespace

json measure_live(const std::vector<int>& sides, int frames) {
  using fitter::CudaMode;
  json rows;
  std::printf("%-10s %-9s %4s %5s %5s %7s %7s %7s %8s   (us over %d calls; warm)\n", "live",
              "light", "side", "ROIs", "iter", "p50", "p99", "p99.9", "max", frames);
  const auto measure = [&](const Light& light, int side, std::size_t count) {
    const Scene scene = make_scene(light, side, count);
    const auto report = [&](const char* name, fitter::LiveFitter& live) {
      const Timing t = measure_calls(live, scene, count, frames);
      std::printf("%-10s %-9s %4d %5zu %5.2f %7.2f %7.2f %7.2f %8.1f\n", name, light.name, side,
                  count, scene.iterations, t.p50, t.p99, t.p99_9, t.max);
      std::fflush(stdout);
      rows.push_back({{"way", name},
                      {"light", light.name},
                      {"side_px", side},
                      {"rois", count},
                      {"mean_iterations", scene.iterations},
                      {"us", to_json(t)}});
    };
    const fitter::FitOptions options = test::paper_options(side);
    report("cpu", *fitter::make_cpu_live_fitter(side, count, options));
    for (const auto& [name, mode] :
         {std::pair{"launch", CudaMode::Launch}, std::pair{"graph", CudaMode::Graph},
          std::pair{"resident", CudaMode::Resident}})
      report(name, *fitter::make_cuda_live_fitter(side, count, options, {0, mode}));
  };
  for (const Light& light : kLights)
    for (const int side : sides)
      for (const std::size_t count : {std::size_t{16}, std::size_t{64}})
        measure(light, side, count);
  return rows;
}

json measure_live_estimators(int frames) {
  constexpr int kSide = 9;
  json rows;
  std::printf("%-11s %-14s %5s %-9s %7s %7s   (us over %d calls; beads of 9x9, warm)\n", "model",
              "estimator", "ROIs", "way", "p50", "p99", frames);
  for (const std::size_t count : {std::size_t{16}, std::size_t{64}}) {
    const Scene scene = make_scene(kLights[1], kSide, count);
    for (const Kind& kind : all_kinds()) {
      if (kind.estimator == fitter::Estimator::WeightedLeastSquares) continue;  // batches only
      const fitter::FitOptions options = options_of(kind, kSide);
      const auto report = [&](const char* name, fitter::LiveFitter& live) {
        const Timing t = measure_calls(live, scene, count, frames);
        std::printf("%-11s %-14s %5zu %-9s %7.2f %7.2f\n", kind.model_name, kind.estimator_name,
                    count, name, t.p50, t.p99);
        std::fflush(stdout);
        rows.push_back({{"model", kind.model_name},
                        {"estimator", kind.estimator_name},
                        {"rois", count},
                        {"way", name},
                        {"us", to_json(t)}});
      };
      report("cpu", *fitter::make_cpu_live_fitter(kSide, count, options));
      report("graph",
             *fitter::make_cuda_live_fitter(kSide, count, options, {0, fitter::CudaMode::Graph}));
      report("resident", *fitter::make_cuda_live_fitter(kSide, count, options,
                                                        {0, fitter::CudaMode::Resident}));
    }
  }
  return rows;
}

}  // namespace driftd::bench
