// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cpu/kernel.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter {
void fit_batch_cpu(const Batch& batch, const FitOptions& options, std::span<Localization> results,
                   int threads) {
  check_batch(batch, options, results.size());
  if (threads < 0) throw FitterError("fitter: a negative number of threads");
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads)
                                         : std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts = std::clamp<std::size_t>(batch.count, 1, wanted);
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t stride_bytes = side * side * bytes_per_pixel(batch.type);
  const auto* pixels = static_cast<const unsigned char*>(batch.pixels);
  const cpu::FitKernel kernel = cpu::choose_kernel().fit;
  std::vector<cpu::Workspace> workspaces(parts * cpu::kFlights);

  const auto run = [&](std::size_t part) {
    const std::size_t from = batch.count * part / parts;
    const std::size_t count = batch.count * (part + 1) / parts - from;
    const auto share = [from](auto* of_all, std::size_t each = 1) {
      return of_all != nullptr ? of_all + from * each : nullptr;
    };
    kernel({pixels + from * stride_bytes, stride_bytes, batch.type, batch.roi_px, count,
            share(batch.starts), share(batch.levels), share(batch.bounds),
            share(batch.variances, side * side), &options, results.data() + from},
           &workspaces[part * cpu::kFlights]);
  };
  std::vector<std::jthread> workers;
  for (std::size_t part = 1; part < parts; ++part) workers.emplace_back(run, part);
  run(0);
}

}  // namespace driftd::fitter
