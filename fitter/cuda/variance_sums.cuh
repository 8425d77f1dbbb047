// SPDX-License-Identifier: MIT
// The sums of the CUDA back end from which the pixels' variance is estimated: see roi_sums.cuh,
// which includes it.
#pragma once

#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

template <int kThreads, int kMostPx>
__device__ VarianceSums RoiSums<kThreads, kMostPx>::variance_sums(float alpha, float beta) {
  float s[kVarianceSums] = {};
  for_each_pixel([&](float& pixel, int row, int column) {
    const float f = x_axis()[column].x * y_axis()[row].x;
    const float r = (pixel - beta) - alpha * f;
    const float root = __fdividef(kVarianceRatio, kVarianceRatio + f);
    const float root_r = root * r;
    const float squares = root_r * root_r;
    const float w = root * root;
    const float wff = w * f * f;
    s[0] += w;
    s[1] += w * f;
    s[2] += wff;
    s[3] += wff * f;
    s[4] += squares;
    s[5] += squares * f;
  });
  group_.combine(s);
  return {{s[0], s[1], s[2], s[3]}, {s[4], s[5]}};
}

}  // namespace driftd::fitter::cuda
