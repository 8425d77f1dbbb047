// SPDX-License-Identifier: MIT
// The particle swarm of one thread, compiled for every SIMD target and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/workspace.hpp"
#include "fitter/swarm_search.hpp"

namespace driftd::fitter::cpu {

/// The memory of one swarm; never shared.
struct alignas(64) SwarmWorkspace {
  Workspace roi;
  alignas(64) float position[kMaxDimensions][kMaxParticles];
  alignas(64) float velocity[kMaxDimensions][kMaxParticles];
  alignas(64) float best[kMaxDimensions][kMaxParticles];
  alignas(64) float best_value[kMaxParticles];
  alignas(64) float random[kDraws][kMaxParticles];
};

struct SwarmJob {
  FitJob rois;          ///< results and starts unused
  std::uint64_t first;  ///< number of its first ROI
  const SwarmOptions* options;
  SwarmReport* reports;
};

using SwarmKernel = void (*)(const SwarmJob& job, SwarmWorkspace& workspace);
SwarmKernel choose_swarm_kernel();

}  // namespace driftd::fitter::cpu
