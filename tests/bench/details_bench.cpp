// SPDX-License-Identifier: MIT
// Speed of rotated fits and of details (angles, covariances), which go pixel by pixel: on one CPU
// core, and from pinned memory on a GPU if there is one, against the elliptical fit without details
// in the same run. Spots of 1,600 counts above 160, whose ellipses point anywhere.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"

namespace driftd {
namespace {

using fitter::Batch;
using fitter::Estimator;
using fitter::FitOptions;
using fitter::Model;

constexpr std::size_t kOnCpu = 4000, kOnGpu = 200000;

/// Memory that a GPU reads and writes directly, if there is one.
template <class T>
struct Pinned {
  explicit Pinned(std::size_t count)
      : pinned(static_cast<T*>(fitter::allocate_pinned(count * sizeof(T)))),
        own(pinned == nullptr ? count : 0) {}
  ~Pinned() { fitter::free_pinned(pinned); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() { return pinned != nullptr ? pinned : own.data(); }

  T* pinned;
  std::vector<T> own;
};

void draw(int side, std::size_t count, std::uint16_t* pixels) {
  std::mt19937_64 generator(20261126);
  std::normal_distribution<double> off(0, side / 20.0);
  std::uniform_real_distribution<double> turn(-1.5, 1.5);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = (side - 1) / 2.0 + off(generator), y = (side - 1) / 2.0 + off(generator);
    const double angle = turn(generator), wide = side / 6.0, narrow = side / 9.0;
    for (int k = 0; k < side * side; ++k) {
      const double u = k % side - x, v = k / side - y;
      const double a = (u * std::cos(angle) + v * std::sin(angle)) / wide;
      const double b = (v * std::cos(angle) - u * std::sin(angle)) / narrow;
      const double mean = 1600 * std::exp(-(a * a + b * b) / 2) + 160;
      *pixels++ = static_cast<std::uint16_t>(std::poisson_distribution<int>(mean)(generator));
    }
  }
}

/// Median microseconds of a call, of half a second of them.
template <class Call>
double median_us(const Call& call) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  call();
  std::vector<double> times;
  for (const auto begin = Clock::now(); us(Clock::now() - begin) < 5e5 || times.size() < 5;) {
    const auto from = Clock::now();
    call();
    times.push_back(us(Clock::now() - from));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

struct Kind {
  const char* name;
  Model model;
  bool details, integrated;
};
constexpr Kind kKinds[] = {{"elliptical", Model::EllipticalGaussian, false, false},
                           {"elliptical with details", Model::EllipticalGaussian, true, false},
                           {"rotated", Model::RotatedGaussian, false, false},
                           {"rotated with details", Model::RotatedGaussian, true, false},
                           {"rotated, integrated", Model::RotatedGaussian, false, true}};

void measure(int side, Estimator estimator, const char* name) {
  const bool gpu = fitter::cuda_device_count() > 0;
  const std::size_t count = gpu ? kOnGpu : kOnCpu;
  Pinned<std::uint16_t> pixels(count * static_cast<std::size_t>(side * side));
  draw(side, count, pixels.data());
  Pinned<fitter::Localization> results(count);
  Pinned<fitter::FitDetails> details(count);
  const auto cuda = gpu ? fitter::make_cuda_batch_fitter() : nullptr;
  double first_cpu = 0, first_gpu = 0;
  for (const Kind& kind : kKinds) {
    FitOptions options;
    options.model = kind.model;
    options.estimator = estimator;
    options.integrated = kind.integrated;
    Batch batch = {.pixels = pixels.data(), .roi_px = side, .count = kOnCpu};
    if (kind.details) batch.details = details.data();
    const double cpu = median_us([&] {
                         fitter::fit_batch_cpu(batch, options, {results.data(), kOnCpu});
                       }) /
                       static_cast<double>(kOnCpu);
    double good = 0;
    for (std::size_t i = 0; i < kOnCpu; ++i)
      good += converged(results.data()[i].status) ? 1.0 / static_cast<double>(kOnCpu) : 0.0;
    double on_gpu = 0;
    if (gpu) {
      batch.count = kOnGpu;
      on_gpu = median_us([&] {
                 cuda->fit(batch, options, {results.data(), kOnGpu});
               }) /
               static_cast<double>(kOnGpu);
    }
    if (first_cpu == 0) first_cpu = cpu, first_gpu = on_gpu;
    std::printf("%-14s %4d  %-24s %8.3f us (%5.2f)", name, side, kind.name, cpu, cpu / first_cpu);
    if (gpu) std::printf("  %8.1f M/s (%5.2f)", 1 / on_gpu, on_gpu / first_gpu);
    std::printf("  converged %.3f\n", good);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace driftd

int main() {
  using driftd::fitter::Estimator;
  std::printf("%s, one core; in brackets the time over that of the elliptical fit\n",
              driftd::fitter::make_cpu_live_fitter(9, 1, {})->description());
  for (const int side : {9, 13, 16, 32}) {
    driftd::measure(side, Estimator::LeastSquares, "least squares");
    driftd::measure(side, Estimator::PoissonLikelihood, "likelihood");
  }
}
