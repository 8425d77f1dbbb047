// SPDX-License-Identifier: MIT
// The profile of RoiSums and its sums with the pixels: see roi_sums.cuh, which includes this.
#pragma once

#include "fitter/cuda/roi_sums.cuh"

namespace driftd::fitter::cuda {

template <int kThreads, int kMostPx>
__device__ inline ProfileMoments RoiSums<kThreads, kMostPx>::set_profile(const Profile& p,
                                                                         bool moments_wanted) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kSmallest = -28.0f * kLog2E;  // as on the CPU: its cube is a normal number
  const bool is_y = (group_.index() & 1) != 0;
  const float centre = is_y ? p.y_px : p.x_px;
  const float sigma = is_y ? p.sigma_y_px : p.sigma_x_px;
  const float factor = (-0.5f * kLog2E) / (sigma * sigma);
  const int places = integrated_ ? kPlacesInPixel : 1;
  float4* const axis = axes_ + (is_y ? kMostPx : 0);
  float m[14] = {};
  group_.sync();  // all are done with the profile before
  const auto element = [&](int i) {
    const float u = static_cast<float>(i) - centre;
    const float inside = !kPadded || i < side_ ? 1.0f : 0.0f;
    const auto gaussian = [&](float at) {
      return inside * exp2f(fmaxf(at * at * factor, kSmallest));
    };
    AxisElement<float> of = {0, 0, 0};
    // One body for both kinds of pixels: two take a third longer to compile.
#pragma unroll 1
    for (int k = 0; k < places; ++k)
      add_place(integrated_ ? place_in_pixel(k) : PlaceInPixel{0, 1}, u, gaussian, of);
    const float f = of.f, uf = of.uf, uuf = of.uuf;
    axis[i] = make_float4(f, uf, uuf, inside);
    m[0] += f;
    m[1] += uf;
    m[2] += uuf;
    m[3] += f * f;
    m[4] += f * uf;
    m[5] += uf * uf;
    m[6] += uf * uuf;
    m[7] += uuf * uuf;
    m[8] += f * uuf;
  };
  if constexpr (kPadded) {
    element(group_.index() / 2);
  } else {
    for (int i = group_.index() / 2; i < side_; i += kThreads / 2) element(i);
  }
  group_.sync();
  if (!group_.any(moments_wanted)) return {};
  for_columns([&](int c, auto together) {
    struct Column {
      float by_y = 0, by_vy = 0, by_vvy = 0;
    } column[together()];
    for_rows([&](int r) {
      const float4 y = y_axis()[r];
#pragma unroll
      for (int k = 0; k < together(); ++k) {
        const float g = pixels_[r * kMostPx + c + k * kColumnThreads];
        column[k].by_y += g * y.x;
        column[k].by_vy += g * y.y;
        column[k].by_vvy += g * y.z;
      }
    });
#pragma unroll
    for (int k = 0; k < together(); ++k) {
      const float4 x = x_axis()[c + k * kColumnThreads];
      m[9] += column[k].by_y * x.x;
      m[10] += column[k].by_y * x.y;
      m[11] += column[k].by_vy * x.x;
      m[12] += column[k].by_y * x.z;
      m[13] += column[k].by_vvy * x.x;
    }
  });
  group_.sum_by_parity(m);
  const auto from = [](float v, int lane) { return __shfl_sync(kWholeWarp, v, lane, kWidth); };
  ProfileMoments moments;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    (k < 3 ? moments.x.first[k] : moments.x.second[k - 3]) = from(m[k], 0);
    (k < 3 ? moments.y.first[k] : moments.y.second[k - 3]) = from(m[k], 1);
  }
  const auto of_both = [&](float v) { return from(v, 0) + from(v, 1); };
  moments.pixels = {of_both(m[9]), of_both(m[10]), of_both(m[11]), of_both(m[12]), of_both(m[13])};
  if constexpr (kKeepsMoments) moments_ = moments;
  return moments;
}

}  // namespace driftd::fitter::cuda
