// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

/// ROI `index` of a batch.
template <int kThreads, int kMostPx>
__device__ void load(RoiSums<kThreads, kMostPx>& pixels, const Job& job, std::size_t index) {
  const void* const roi = static_cast<const unsigned char*>(job.pixels) + index * job.stride_bytes;
  switch (job.type) {
    case PixelType::U8:
      return pixels.load(static_cast<const std::uint8_t*>(roi), job.saturation);
    case PixelType::U16:
      return pixels.load(static_cast<const std::uint16_t*>(roi), job.saturation);
    case PixelType::F32:
      return pixels.load(static_cast<const float*>(roi), job.saturation);
  }
}

}  // namespace driftd::fitter::cuda
