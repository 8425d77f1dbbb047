// SPDX-License-Identifier: MIT
// The two ways of the CPU fitter side by side, by ROI side: the pixels of a fit across the lanes of
// a vector, and a fit in every lane. From how many ROIs the second is the faster one, warm and
// cold, and how much faster in a large batch. live_in_lanes() of fitter/cpu/dispatch.cpp stands on
// it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/cpu_target.hpp"
#include "fitter/cpu/kernel.hpp"
#include "support/spots.hpp"

namespace driftd {
namespace {

using Clock = std::chrono::steady_clock;
namespace cpu = fitter::cpu;

constexpr std::size_t kBatch = 1024;

struct Ways {
  cpu::Kernels kernels = cpu::choose_kernels();
  std::vector<cpu::Workspace> across = std::vector<cpu::Workspace>(cpu::kFlights);
  std::vector<cpu::LaneWorkspace> lanes = std::vector<cpu::LaneWorkspace>(1);

  void fit(bool in_lanes, const cpu::FitJob& job) {
    if (in_lanes) {
      kernels.fit_in_lanes(job, lanes.front());
    } else {
      kernels.fit_across_lanes(job, across.data());
    }
  }

  /// Median time of `count` of the job's ROIs, us; groups of other ones in turn.
  double us(bool in_lanes, cpu::FitJob job, std::size_t count, int repeats) {
    std::vector<double> times;
    const auto* const pixels = static_cast<const unsigned char*>(job.pixels);
    const fitter::Start* const starts = job.starts;
    for (int i = 0; i < repeats; ++i) {
      const std::size_t first = static_cast<std::size_t>(i) * count % (kBatch - count + 1);
      job.pixels = pixels + first * job.stride_bytes;
      if (starts != nullptr) job.starts = starts + first;
      job.count = count;
      const auto begin = Clock::now();
      fit(in_lanes, job);
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return times[static_cast<std::size_t>(repeats) / 2];
  }
};

int run(const std::vector<int>& sides, const fitter::FitOptions& options, int repeats) {
  Ways ways;
  if (ways.kernels.fit_in_lanes == nullptr) {
    std::fprintf(stderr, "%s has one lane: there is one way\n", ways.kernels.target);
    return 1;
  }
  std::printf("%s; us a fit in batches of %zu, and from how many ROIs lanes are faster\n",
              ways.kernels.target, kBatch);
  std::printf("%4s %28s %28s\n%4s %9s %7s %10s %9s %7s %10s\n", "", "cold", "warm", "side",
              "across", "lanes", "from", "across", "lanes", "from");
  for (const int side : sides) {
    const auto spots = test::simulate_spots<std::uint16_t>(side, 400, 40, kBatch, 20261125);
    std::vector<fitter::Localization> results(kBatch);
    cpu::FitJob job = {spots.pixels.data(),
                       sizeof(std::uint16_t) * static_cast<std::size_t>(side * side),
                       fitter::PixelType::U16,
                       side,
                       kBatch,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr,
                       &options,
                       results.data()};
    std::vector<fitter::Start> starts;
    std::printf("%4d", side);
    for (const bool warm : {false, true}) {
      if (warm) {
        for (const auto& l : results)
          starts.push_back({l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px});
        job.starts = starts.data();
      }
      std::size_t from = 0;
      for (std::size_t count = 1; count <= 16 && from == 0; ++count)
        if (ways.us(true, job, count, repeats) < ways.us(false, job, count, repeats)) from = count;
      const int batches = std::max(5, repeats / 50);
      const double across = ways.us(false, job, kBatch, batches) / kBatch;
      const double lanes = ways.us(true, job, kBatch, batches) / kBatch;
      std::printf(" %9.3f %7.3f %10s", across, lanes,
                  from > 0 ? std::to_string(from).c_str() : "never");
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  using driftd::fitter::Estimator;
  using driftd::fitter::Model;
  std::vector<int> sides = {5, 7, 9, 11, 13, 16, 17, 21, 24, 28, 32};
  driftd::fitter::FitOptions options;
  int repeats = 2000;
  std::int64_t target = 0;
  CLI::App app("A fit in every lane against a fit's pixels across the lanes");
  app.add_option("--sides", sides, "ROI sides, px")->check(CLI::Range(4, 32));
  app.add_option("--repeats", repeats, "Of each number of ROIs")->check(CLI::Range(10, 1000000));
  app.add_option("--model", options.model)
      ->transform(CLI::CheckedTransformer(std::map<std::string, Model>{
          {"circular", Model::CircularGaussian}, {"elliptical", Model::EllipticalGaussian}}));
  app.add_option("--estimator", options.estimator)
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Estimator>{{"implicit", Estimator::ImplicitLeastSquares},
                                           {"least-squares", Estimator::LeastSquares},
                                           {"poisson", Estimator::PoissonLikelihood}}));
  app.add_option("--target", target)
      ->transform(CLI::CheckedTransformer(driftd::bench::kCpuTargets));
  CLI11_PARSE(app, argc, argv);
  driftd::bench::use_cpu_target(target);
  return driftd::run(sides, options, repeats);
}
