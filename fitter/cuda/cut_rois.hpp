// SPDX-License-Identifier: MIT
// ROIs cut from frames in the device's memory, as the host sees it. No CUDA here.
#pragma once

#include <cstdint>

#include "fitter/frames.hpp"

namespace driftd::fitter::cuda {

/// The argument of both kernels. All pointers are such as the device may follow.
struct CutArgument {
  Frames frames;
  int roi_px;
  std::uint32_t count;
  const Place* places;  ///< `count`
  const Start* starts;  ///< `count`, of the frame; or null
  float offset_adu;     ///< of all pixels, where there is no map
  float saturation_adu;
  void* pixels;           ///< receives the ROIs, of type_of_cut()
  float* variances;       ///< receives those of the ROIs' pixels; null without a map
  Start* starts_of_rois;  ///< receives them; null without starts
  Localization* results;  ///< of the ROIs
};

constexpr unsigned kCutThreads = 256;  ///< of a block

/// (CutArgument), 32 threads a ROI: as CutRois::cut(); a place in a frame that is not there is as
/// one outside of its frame.
const void* cut_kernel();
/// (CutArgument), a thread a ROI: as CutRois::to_frame().
const void* to_frame_kernel();

}  // namespace driftd::fitter::cuda
