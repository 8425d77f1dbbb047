// SPDX-License-Identifier: MIT
// The one call that is compiled for every SIMD target and chosen at run time.
#pragma once

#include <cstddef>

#include "fitter/cpu/workspace.hpp"
#include "fitter/fitter.hpp"

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
};

/// @param workspaces  kFlights of them
using FitKernel = void (*)(const FitJob& job, Workspace* workspaces);

/// The kernel for the best target of this processor, and that target's name. Not real time.
struct ChosenKernel {
  FitKernel fit;
  const char* target;
};
ChosenKernel choose_kernel();

}  // namespace driftd::fitter::cpu
