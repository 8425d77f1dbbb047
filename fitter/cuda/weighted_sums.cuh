// SPDX-License-Identifier: MIT
// The weighted sums of RoiSums: see roi_sums.cuh, which includes this.
#pragma once

#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

template <int kThreads, int kMostPx>
__device__ inline WeightedMoments RoiSums<kThreads, kMostPx>::weighted_moments(
    const PixelNoise& noise, float alpha, float beta) {
  WeightedMoments m = {};
  with_weights<float>(noise, [&](const auto& estimator, auto mapped) {
    weigh<mapped()>(estimator, noise, alpha, beta, m);
  });
  combine(m);
  return m;
}

template <int kThreads, int kMostPx>
__device__ inline WeightedMoments RoiSums<kThreads, kMostPx>::plain_moments(const PixelNoise& noise,
                                                                            float alpha,
                                                                            float beta) {
  WeightedMoments m = {};
  weigh<true>(PlainSquares<float>(noise), noise, alpha, beta, m);
  combine(m);
  return m;
}

template <int kThreads, int kMostPx>
__device__ inline float RoiSums<kThreads, kMostPx>::values(const PixelNoise& noise, float alpha,
                                                           float beta) {
  float s[1] = {0};
  with_weights<float>(noise, [&](const auto& estimator, auto mapped) {
    for (int c = column(); c < side_; c += kColumnThreads) {
      float of_column = 0;
      for_column<mapped()>(noise, c, alpha, beta,
                           [&](float pixel, float model, float map, const float4& y) {
                             const float inside = kPadded ? y.w : 1.0f;
                             of_column += inside * value_apart(estimator, pixel, model, map);
                           });
      s[0] += of_column;
    }
  });
  group_.combine(s);
  return s[0];
}

template <int kThreads, int kMostPx>
__device__ inline void RoiSums<kThreads, kMostPx>::combine(WeightedMoments& m) {
  // Few threads to a ROI gain from two sums less; a warp loses more by a second way through.
  if (kThreads >= kWarpThreads || integrated_) return combine_all<true>(m);
  combine_all<false>(m);
  m.second[k02][k00] = m.second[k11][k00];
  m.second[k00][k02] = m.second[k00][k11];
}

template <int kThreads, int kMostPx>
template <bool kRepeated>
__device__ inline void RoiSums<kThreads, kMostPx>::combine_all(WeightedMoments& m) {
  float sums[kWeightedSums - (kRepeated ? 0 : kRepeats)];
  int k = 0;
  for_each_sum<kRepeated>(m, [&](float& sum) { sums[k++] = sum; });
  group_.combine(sums);
  k = 0;
  for_each_sum<kRepeated>(m, [&](float& sum) { sum = sums[k++]; });
}

template <int kThreads, int kMostPx>
template <bool kMapped, class Term>
__device__ inline void RoiSums<kThreads, kMostPx>::weigh(const Term& term, const PixelNoise& noise,
                                                         float alpha, float beta,
                                                         WeightedMoments& m) const {
  for (int c = column(); c < side_; c += kColumnThreads) {
    const float4 x = x_axis()[c];
    float e_y[3] = {}, w_y[3] = {}, w_yy[kPairs] = {};
    for_column<kMapped>(noise, c, alpha, beta,
                        [&](float pixel, float model, float map, const float4& y) {
                          const PixelTerm<float> of = term.of(pixel, model, map);
                          const float inside = kPadded ? y.w : 1.0f;
                          const float w = inside * of.weight;
                          const float e = inside * of.residual;
                          const float w_f = w * y.x, w_vf = w * y.y, w_vvf = w * y.z;
                          m.value += inside * of.value;
                          m.e += e;
                          m.w += w;
                          e_y[0] += e * y.x;
                          e_y[1] += e * y.y;
                          e_y[2] += e * y.z;
                          w_y[0] += w_f;
                          w_y[1] += w_vf;
                          w_y[2] += w_vvf;
                          w_yy[k00] += w_f * y.x;
                          w_yy[k01] += w_f * y.y;
                          w_yy[k11] += w_vf * y.y;
                          w_yy[k12] += w_vvf * y.y;
                          w_yy[k22] += w_vvf * y.z;
                          w_yy[k02] += w_f * y.z;
                        });
    const float x_u[3] = {x.x, x.y, x.z};
    const float xx_u[kPairs] = {x.x * x.x, x.x * x.y, x.y * x.y, x.y * x.z, x.z * x.z, x.x * x.z};
#pragma unroll
    for (int a = 0; a < kPairs; ++a) {
#pragma unroll
      for (int b = 0; b < kPairs; ++b) {
        if (reads_pairs(a, b)) m.second[a][b] += w_yy[b] * xx_u[a];
        if (!reads_first(a, b)) continue;
        m.ef[a][b] += e_y[b] * x_u[a];
        m.wf[a][b] += w_y[b] * x_u[a];
      }
    }
  }
}

}  // namespace driftd::fitter::cuda
