// SPDX-License-Identifier: MIT
#include "fitter/swarm.hpp"

#include <string>
#include <vector>

#include "fitter/cpu/kernel.hpp"
#include "fitter/options.hpp"
#include "fitter/parts.hpp"
#include "fitter/swarm_search.hpp"

namespace driftd::fitter {

void check_swarm(const Batch& batch, const SwarmOptions& swarm,
                 std::span<const SwarmReport> reports) {
  check_range("swarm.particles", swarm.particles, 16, kMaxParticles);
  if (swarm.particles % 16 != 0)
    throw FitterError("fitter: swarm.particles is " + std::to_string(swarm.particles) +
                      ", allowed are whole multiples of 16");
  check_range("swarm.iterations", swarm.iterations, 1, 1000);
  check_range("swarm.inertia", swarm.inertia, 0, 2);
  check_range("swarm.own_pull", swarm.own_pull, 0, 4);
  check_range("swarm.swarm_pull", swarm.swarm_pull, 0, 4);
  check_range("swarm.max_velocity", swarm.max_velocity, 1e-3, 1);
  check_range("swarm.spread_of_last", swarm.spread_of_last, 2, kMaxSpreadOfLast);
  if (batch.starts != nullptr) throw FitterError("fitter: a swarm takes no start values");
  if (!reports.empty() && reports.size() != batch.count)
    throw FitterError("fitter: " + std::to_string(batch.count) + " ROIs but room for " +
                      std::to_string(reports.size()) + " swarm reports");
}

void fit_swarm_cpu(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
                   std::span<Localization> results, std::span<SwarmReport> reports, int threads) {
  check_batch(batch, options, results.size());
  check_swarm(batch, swarm, reports);
  std::vector<SwarmReport> own(reports.empty() ? batch.count : 0);
  SwarmReport* const found = reports.empty() ? own.data() : reports.data();
  const std::size_t bytes = roi_bytes(batch);
  const auto* const pixels = static_cast<const unsigned char*>(batch.pixels);
  const auto search = cpu::choose_kernels().search_swarms;
  const auto bounds = [&](std::size_t i) { return batch.bounds ? batch.bounds + i : nullptr; };
  std::vector<cpu::SwarmWorkspace> workspaces(parts_of(batch.count, threads, 1));
  run_in_parts(batch.count, threads, 1, [&](std::size_t part, std::size_t from, std::size_t count) {
    search({{pixels + from * bytes, bytes, batch.type, batch.roi_px, count, nullptr, nullptr,
             bounds(from), nullptr, &options, nullptr},
            swarm.first_roi + from,
            &swarm,
            found + from},
           workspaces[part]);
  });
  std::vector<Start> starts;
  starts.reserve(batch.count);
  for (std::size_t i = 0; i < batch.count; ++i) starts.push_back(found[i].best);
  Batch polished = batch;
  polished.starts = starts.data();
  fit_batch_cpu(polished, options, results, threads);
}

}  // namespace driftd::fitter
