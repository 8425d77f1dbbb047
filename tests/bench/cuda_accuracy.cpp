// SPDX-License-Identifier: MIT
#include "cuda_accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "support/paper_accuracy.hpp"

namespace driftd::bench {

using nlohmann::json;
using Spots = test::SpotImages<std::uint16_t>;
using Fits = std::vector<fitter::Localization>;

Spots simulate(int side, double signal, double background, std::size_t count, std::uint64_t seed) {
  constexpr std::size_t kPart = 4096;
  const std::size_t parts = (count + kPart - 1) / kPart;
  std::vector<Spots> done(parts);
  {
    std::vector<std::jthread> threads;
    const std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        for (std::size_t part = worker; part < parts; part += workers)
          done[part] = test::simulate_spots<std::uint16_t>(
              side, signal, background, std::min(kPart, count - part * kPart), seed + part);
      });
    }
  }
  Spots all = {side, {}, {}};
  for (const Spots& s : done) {
    all.truth.insert(all.truth.end(), s.truth.begin(), s.truth.end());
    all.pixels.insert(all.pixels.end(), s.pixels.begin(), s.pixels.end());
  }
  return all;
}

namespace {

json to_json(const test::ErrorSummary& e) {
  return {{"median", e.median}, {"mean", e.mean}, {"sd", e.sd}};
}

/// Counts of errors in bins of 0.005 from 0 on.
std::vector<int> histogram(const std::vector<double>& values) {
  std::vector<int> bins(60);
  for (const double v : values)
    ++bins[std::min(bins.size() - 1, static_cast<std::size_t>(v / 0.005))];
  return bins;
}

}  // namespace

json measure_accuracy() {
  const auto cuda = fitter::make_cuda_batch_fitter();
  json rows;
  for (const test::PaperRow& row : test::kPaperTable1) {
    const Spots spots =
        simulate(test::kPaperSidePx, row.signal, row.background, test::kPaperSpots, 20210311);
    const fitter::Batch batch = {spots.pixels.data(), fitter::PixelType::U16, test::kPaperSidePx,
                                 test::kPaperSpots, nullptr};
    Fits fits(test::kPaperSpots), twin(test::kPaperSpots);
    cuda->fit(batch, test::paper_options(test::kPaperSidePx), fits);
    fitter::fit_batch_cpu(batch, test::paper_options(test::kPaperSidePx), twin, 0);
    const auto [position, sigma] = test::relative_errors(fits, spots.truth);
    std::vector<int> iterations(21), cpu_iterations(21), status(6);
    std::size_t only_cpu = 0, only_cuda = 0, other_status = 0;
    double largest = 0;
    for (std::size_t i = 0; i < test::kPaperSpots; ++i) {
      ++iterations[fits[i].iterations];
      ++cpu_iterations[twin[i].iterations];
      ++status[static_cast<std::size_t>(fits[i].status)];
      const bool here = converged(fits[i].status), there = converged(twin[i].status);
      only_cpu += there && !here ? 1u : 0u;
      only_cuda += here && !there ? 1u : 0u;
      other_status += fits[i].status != twin[i].status ? 1u : 0u;
      if (here && there)
        largest = std::max(
            largest, static_cast<double>(std::fabs(fits[i].x_px - twin[i].x_px) / twin[i].x_sd_px));
    }
    const test::ErrorSummary p = test::summarize(position), s = test::summarize(sigma);
    std::printf(
        "accuracy %g:%g, median mean sd: position %.4f %.4f %.4f (paper %.4f %.4f %.4f), sigma "
        "%.4f %.4f %.4f (%.4f %.4f %.4f); got by the CPU alone %zu, by CUDA alone %zu, other "
        "status %zu, largest difference %.2g sd\n",
        row.signal, row.background, p.median, p.mean, p.sd, row.position.median, row.position.mean,
        row.position.sd, s.median, s.mean, s.sd, row.sigma.median, row.sigma.mean, row.sigma.sd,
        only_cpu, only_cuda, other_status, largest);
    std::printf("  iterations:");
    for (std::size_t k = 0; k < 10; ++k) std::printf(" %zu: %d", k, iterations[k]);
    std::printf("\n");
    rows.push_back({{"signal", row.signal},
                    {"background", row.background},
                    {"position", to_json(p)},
                    {"sigma", to_json(s)},
                    {"paper_position", to_json(row.position)},
                    {"paper_sigma", to_json(row.sigma)},
                    {"position_histogram", histogram(position)},
                    {"sigma_histogram", histogram(sigma)},
                    {"iterations", iterations},
                    {"cpu_iterations", cpu_iterations},
                    {"status", status},
                    {"converged_cpu_only", only_cpu},
                    {"converged_cuda_only", only_cuda},
                    {"other_status", other_status},
                    {"largest_difference_sd", largest}});
  }
  return rows;
}

}  // namespace driftd::bench
