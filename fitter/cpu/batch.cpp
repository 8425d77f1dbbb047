// SPDX-License-Identifier: MIT
#include <memory>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/parts.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter {

void fit_batch_cpu(const Batch& batch, const FitOptions& options, std::span<Localization> results,
                   int threads) {
  check_batch(batch, options, results.size());
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t bytes = cpu::roi_bytes(batch);
  const auto* pixels = static_cast<const unsigned char*>(batch.pixels);
  const cpu::Kernels kernels = cpu::choose_kernels();
  const auto job_of = [&](std::size_t from, std::size_t count) {
    const auto share = [from](auto* of_all, std::size_t each = 1) {
      return of_all != nullptr ? of_all + from * each : nullptr;
    };
    return cpu::FitJob{pixels + from * bytes,
                       bytes,
                       batch.type,
                       batch.roi_px,
                       count,
                       share(batch.starts),
                       share(batch.levels),
                       share(batch.bounds),
                       share(batch.variances, side * side),
                       &options,
                       results.data() + from};
  };
  if (cpu::batch_in_lanes(kernels, batch.roi_px)) {
    const auto workspaces = std::make_unique_for_overwrite<cpu::LaneWorkspace[]>(
        cpu::parts_of(batch.count, threads, cpu::kPieceInLanes));
    cpu::run_in_parts(batch.count, threads, cpu::kPieceInLanes,
                      [&](std::size_t part, std::size_t from, std::size_t count) {
                        kernels.fit_in_lanes(job_of(from, count), workspaces[part]);
                      });
    return;
  }
  const auto workspaces = std::make_unique_for_overwrite<cpu::Workspace[]>(
      cpu::kFlights * cpu::parts_of(batch.count, threads, cpu::kPieceAcross));
  cpu::run_in_parts(batch.count, threads, cpu::kPieceAcross,
                    [&](std::size_t part, std::size_t from, std::size_t count) {
                      kernels.fit_across_lanes(job_of(from, count),
                                               &workspaces[part * cpu::kFlights]);
                    });
}

}  // namespace driftd::fitter
