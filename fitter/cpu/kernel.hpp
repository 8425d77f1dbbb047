// SPDX-License-Identifier: MIT
// What is compiled for every SIMD target, and chosen at run time. Its source files are compiled
// once for each target, by flags (CMakeLists.txt), each into a namespace of its own: N_AVX3 and so
// on, as Highway calls them.
#pragma once

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "fitter/cpu/workspace.hpp"
#include "fitter/fitter.hpp"
#include "fitter/swarm_search.hpp"

namespace driftd::fitter::cpu {

/// `count` ROIs, `stride_bytes` apart, side roi_px.
struct FitJob {
  const void* pixels;
  std::size_t stride_bytes;
  PixelType type;
  int roi_px;
  std::size_t count;
  const Start* starts;  ///< null: all cold; the next three may be null, too: see Batch
  const StartLevels* levels;
  const Bounds* bounds;
  const float* variances;
  const FitOptions* options;
  Localization* results;
  const float* angles_rad = nullptr;  ///< this and the next two: see Batch
  const AngleBounds* angle_bounds = nullptr;
  FitDetails* details = nullptr;
  bool bounds_axes = false;  ///< Batch::bounds_axes()
  const float* places = nullptr;
};

/// The memory of one swarm; never shared.
struct alignas(64) SwarmWorkspace {
  Workspace roi;
  alignas(64) float position[kMaxDimensions][kMaxParticles];
  alignas(64) float velocity[kMaxDimensions][kMaxParticles];
  alignas(64) float best[kMaxDimensions][kMaxParticles];
  alignas(64) float best_value[kMaxParticles];
};

struct SwarmJob {
  FitJob rois;          ///< results and starts unused
  std::uint64_t first;  ///< number of its first ROI
  const SwarmOptions* options;
  SwarmReport* reports;
};

struct Kernels {
  const char* target;  ///< its name
  std::size_t lanes;   ///< of a vector
  /// The pixels of a fit across the lanes. @param workspaces  kFlights of them
  void (*fit_across_lanes)(const FitJob& job, Workspace* workspaces);
  /// A fit in every lane, roi_px at most kMostLaneRoiPx. A ROI's result depends neither on its lane
  /// nor on the other ROIs. Null where vectors have one lane.
  void (*fit_in_lanes)(const FitJob& job, LaneWorkspace& workspace);
  /// Fits of the models that are not separable. Also null where vectors have one lane.
  void (*fit_pixelwise)(const FitJob& job, PixelwiseWorkspace& workspace);
  void (*search_swarms)(const SwarmJob& job, SwarmWorkspace& workspace);
};

/// Those for the best target of this processor. Not real time.
Kernels choose_kernels();

/// Whether large batches have a fit in every lane: by the side alone, so that a fit's bits do not
/// depend on how many there are.
bool batch_in_lanes(const Kernels& kernels, int roi_px);

/// How many of `count` live ROIs, the first ones, are fitted one to a lane, the others with their
/// pixels across the lanes, because that takes least time.
std::size_t live_in_lanes(const Kernels& kernels, int roi_px, Estimator estimator,
                          std::size_t count);

}  // namespace driftd::fitter::cpu

namespace driftd::fitter::cpu::HWY_NAMESPACE {

void fit_across_lanes(const FitJob& job, Workspace* workspaces);
/// Its part that searches amplitude and background, too.
void fit_levels_across_lanes(const FitJob& job, Workspace* workspaces);
void fit_in_lanes(const FitJob& job, LaneWorkspace& workspace);
void fit_pixelwise(const FitJob& job, PixelwiseWorkspace& workspace);
void search_swarms(const SwarmJob& job, SwarmWorkspace& workspace);
/// All of them.
Kernels kernels();

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
