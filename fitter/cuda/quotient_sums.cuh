// SPDX-License-Identifier: MIT
// The sums of the CUDA back end from which the pixels' variance is estimated: see roi_sums.cuh,
// which includes it.
#pragma once

#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

template <int kThreads, int kMostPx>
__device__ QuotientSums RoiSums<kThreads, kMostPx>::quotient_sums(float alpha, float beta) {
  float s[kQuotientSums] = {};
  for_each_pixel([&](float& pixel, int row, int column) {
    const float f = x_axis()[column].x * y_axis()[row].x;
    const float r = (pixel - beta) - alpha * f;
    const float q = __fdividef(f, kVarianceRatio + f);
    const float qr = q * r;
    s[0] += q;
    s[1] += q * q;
    s[2] += qr * r;
    s[3] += qr * qr;
  });
  group_.combine(s);
  return {s[0], s[1], s[2], s[3]};
}

}  // namespace driftd::fitter::cuda
