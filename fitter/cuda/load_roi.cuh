// SPDX-License-Identifier: MIT
#pragma once

#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/roi_sums.cuh"
#include "fitter/pixel_type.hpp"

namespace driftd::fitter::cuda {

/// ROI `index` of a batch.
template <int kThreads, int kMostPx>
__device__ void load(RoiSums<kThreads, kMostPx>& pixels, const KernelArgument& job,
                     std::size_t index) {
  const void* const roi = static_cast<const unsigned char*>(job.pixels) + index * job.stride_bytes;
  with_pixels(job.type, roi, [&](const auto* of_type) { pixels.load(of_type, job.saturation); });
}

}  // namespace driftd::fitter::cuda
