// SPDX-License-Identifier: MIT
// The kernels of the pixel-by-pixel searches, of models that are not separable, for two sizes of
// ROIs.
#pragma once

#include <cstdint>

#include "fitter/cuda/fit_kernel.cuh"
#include "fitter/fit_details.hpp"
#include "fitter/pixelwise_choice.hpp"

namespace driftd::fitter::cuda {

/// With memory for an image of residuals.
template <int kThreads, int kMostPx>
class PixelwiseRoi : public RoiSums<kThreads, kMostPx> {
  using Sums = RoiSums<kThreads, kMostPx>;

 public:
  static constexpr int kFloats = Sums::kFloats + kMostPx * kMostPx;

  /// @param memory  kFloats floats of this group, 16-byte aligned
  __device__ PixelwiseRoi(float* memory, int side, bool integrated)
      : Sums(memory + kMostPx * kMostPx, side, integrated), image_(memory) {}

  template <class Image>
  __device__ SmoothedExtremes smoothed_image(const Image& image) {
    return Sums::smoothed_image(image_, image);
  }

 private:
  float* image_;
};

/// Registers of a thread are many; blocks of few threads get them.
constexpr int kPixelwiseThreads = 128;

template <class Search, int kThreads, int kMostPx>
__global__ void __launch_bounds__(kPixelwiseThreads)
    fit_by_pixels(const __grid_constant__ KernelArgument job) {
  extern __shared__ float4 memory[];
  using Pixels = PixelwiseRoi<kThreads, kMostPx>;
  const int groups = static_cast<int>(blockDim.x) / kThreads;
  const int group = static_cast<int>(threadIdx.x) / kThreads;
  const std::uint32_t index = blockIdx.x * groups + group;
  if (index >= job.count) return;  // whole warps
  Pixels pixels(reinterpret_cast<float*>(memory) + group * Pixels::kFloats, job.roi_px,
                job.options.integrated);
  const FitInput input = input_of(job, index);
  load(pixels, job, index);
  if (input.variances != nullptr) pixels.load_map(input.variances, job.options);
  const auto found = fit_pixelwise<Search>(pixels, input, job.options);
  if (pixels.group().index() != 0) return;
  FitDetails* const details = job.details != nullptr ? job.details + index : nullptr;
  static_cast<Localization*>(job.results)[index] =
      as_localization<typename Search::Model>(found, input.angle_rad, input.angle_bounds, details);
}

template <class Search, int kThreads, int kMostPx>
Kernel pixelwise_kernel_of() {
  return {reinterpret_cast<const void*>(&fit_by_pixels<Search, kThreads, kMostPx>), kThreads,
          kPixelwiseThreads, sizeof(float) * PixelwiseRoi<kThreads, kMostPx>::kFloats};
}

template <class Search>
Kernel pixelwise_kernel(int roi_px) {
  if (roi_px <= 32) return pixelwise_kernel_of<Search, 32, 32>();
  return pixelwise_kernel_of<Search, 128, 64>();
}

}  // namespace driftd::fitter::cuda
