// SPDX-License-Identifier: MIT
// The extremes of RoiSums' smoothed pixels: see roi_sums.cuh, which includes this.
#pragma once

#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

template <int kThreads, int kMostPx>
template <bool kResiduals>
__device__ inline SmoothedExtremes RoiSums<kThreads, kMostPx>::smoothed(float alpha, float beta) {
  constexpr float kRowWeight = 2.0f * kMaxRoiPx;
  const int windows = side_ - 2;  // by row and column
  const int share = (windows + kRowThreads - 1) / kRowThreads;
  const int first = row() * share;
  const int last = first + share < windows ? first + share : windows;
  float extremes[2] = {-INFINITY, -INFINITY};  // the highest and minus the lowest
  float place[1] = {0};
  for (int c = column(); c < windows; c += kColumnThreads) {
    if (first >= last) break;
    float scaled = 0, constant = 0;
    if constexpr (kResiduals) {
      scaled = -alpha * ((x_axis()[c].x + x_axis()[c + 1].x) + x_axis()[c + 2].x);
      constant = -3 * beta;
    }
    const auto row_sum = [&](int r) {
      const float sum = three_columns(r, c);
      if constexpr (!kResiduals) return sum;
      const float y = y_axis()[r].x;
      const float residual = (sum + constant) + scaled * y;
      if (most_variance_ == INFINITY) return residual;
      float gone = 0;  // what pixels that are left out have added
      for (int k = c; k < c + 3; ++k)
        if (is_left_out(r, k))
          gone += (pixels_[r * kMostPx + k] - beta) - alpha * x_axis()[k].x * y;
      return residual - gone;
    };
    float above = row_sum(first);
    float here = row_sum(first + 1);
    for (int r = first + 1; r <= last; ++r) {
      const float below = row_sum(r + 1);
      const float window = (above + here) + below;
      const float at = kRowWeight * static_cast<float>(r) + static_cast<float>(c + 1);
      if (window > extremes[0] || (window == extremes[0] && at < place[0])) {
        extremes[0] = window;
        place[0] = at;
      }
      extremes[1] = fmaxf(extremes[1], -window);
      above = here;
      here = below;
    }
  }
  const float own_highest = extremes[0];
  group_.combine(extremes, Largest{});
  if constexpr (!kResiduals) {
    if (own_highest != extremes[0]) place[0] = INFINITY;
    group_.combine(place, Smallest{});
  }
  const int at = static_cast<int>(place[0]);
  constexpr int kWeight = static_cast<int>(kRowWeight);
  return {extremes[0] / 9.0f, -extremes[1] / 9.0f, static_cast<float>(at % kWeight),
          static_cast<float>(at / kWeight)};
}

}  // namespace driftd::fitter::cuda
