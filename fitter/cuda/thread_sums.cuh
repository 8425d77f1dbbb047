// SPDX-License-Identifier: MIT
// The CUDA back end of pixel_sums.hpp with a ROI in every thread, or in every few threads, which
// share its rows: for batches of small ROIs. The pixels lie in shared memory, ROI by ROI; the
// profile of the columns lies in registers, that of a row is made where it is needed. Gaussians at
// the pixels' centres only, and no maps.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "fitter/cuda/thread_group.cuh"
#include "fitter/dispatch.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"

namespace driftd::fitter::cuda {

/// Sums over the ROIs of a block of one warp.
/// @tparam kSide          of the ROIs, px
/// @tparam kThreadsOfRoi  1, or a power of two: the warp then goes through every call here in step,
///                        and the threads of a ROI get the same bits.
template <int kSide, int kThreadsOfRoi>
class ThreadSums {
 public:
  using Real = float;
  static constexpr bool kKeepsMoments = false;  // in registers, which are short
  static constexpr bool kTakesMaps = false;
  static constexpr int kThreads = kThreadsOfRoi;
  static constexpr int kRois = kWarpThreads / kThreads;
  static constexpr int kPixels = kSide * kSide;
  /// Pixels that one instruction reads.
  static constexpr int kWidth = kSide % 4 == 0 ? 4 : kSide % 2 == 0 ? 2 : 1;
  /// From a ROI to the next: an odd number of widths, so that neighbours read from different banks.
  static constexpr int kPitch = (kPixels / kWidth | 1) * kWidth;
  static constexpr int kFloats = kRois * kPitch;

  /// @param memory  kFloats floats of the block, 16-byte aligned
  __device__ explicit ThreadSums(float* memory) : own_(memory + roi() * kPitch) {}

  __device__ static constexpr int side() { return kSide; }
  /// The number of this thread's ROI in the block.
  __device__ static int roi() { return static_cast<int>(threadIdx.x) / kThreads; }
  /// The number of this thread in its ROI.
  __device__ static int part() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ const PixelSummary& summary() const { return summary_; }
  /// Whether to go on: true where it is for one of those who are in step.
  __device__ static bool any_of(bool condition) {
    if constexpr (kThreads == 1) return condition;
    return __any_sync(kWholeWarp, condition);
  }
  /// Where it is true, for how many threads that are in step with this one it is so. Who is in step
  /// is the compiler's choice, so it decides when a fit is left, never what it finds.
  __device__ static int count_of(bool condition) {
    if constexpr (kThreads > 1) return __popc(__ballot_sync(kWholeWarp, condition));
    return condition ? __popc(__activemask()) : kWarpThreads;
  }
  /// Those of the mask, in the ROI's memory: sums over its pixels are of no use then, but harmless.
  __device__ void keep(bool mask, const Localization& l) {
    static_assert(sizeof(Localization) <= kPitch * sizeof(float));
    if constexpr (kThreads > 1) __syncwarp();
    if (mask) *reinterpret_cast<Localization*>(own_) = l;
    if constexpr (kThreads > 1) __syncwarp();
  }
  __device__ Localization kept() const { return *reinterpret_cast<const Localization*>(own_); }

  /// Its first `count` ROIs; the last of them again for the others. summarize() is next.
  /// @param rois  a ROI's pixels by its place in the block
  template <class Rois>
  __device__ static void load(float* memory, const Rois& rois, int count) {
    using T = std::remove_cvref_t<decltype(*rois(0))>;
    constexpr int kTogether = 4;  // under way at once, because memory is far
    constexpr int kEach = (kPixels + kWarpThreads - 1) / kWarpThreads;
    const int lane = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (int first = 0; first < kRois; first += kTogether) {
      T pixels[kTogether][kEach];
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
        const T* const roi = rois(min(first + r, count - 1));
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          pixels[r][k] = roi[min(k * kWarpThreads + lane, kPixels - 1)];
      }
#pragma unroll
      for (int r = 0; r < kTogether; ++r) {
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
          const int place = k * kWarpThreads + lane;
          if (place < kPixels)
            memory[(first + r) * kPitch + place] = static_cast<float>(pixels[r][k]);
        }
      }
    }
    __syncwarp();
  }

  /// Subtracts a pedestal near the mean, whole for integer pixels: the subtraction is exact.
  __device__ void summarize(bool integer, float saturation) {
    float sum[1] = {0}, lowest[1] = {INFINITY}, highest[1] = {-INFINITY};
    for_rows([&](int row) {
      const Row g = row_of_pixels(row);
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        sum[0] += g.of[c];
        lowest[0] = fminf(lowest[0], g.of[c]);
        highest[0] = fmaxf(highest[0], g.of[c]);
      }
    });
    combine(sum);
    combine(lowest, Smallest{});
    combine(highest, Largest{});
    const float mean = sum[0] / kPixels;
    const float pedestal = integer ? rintf(mean) : mean;
    float less[2] = {0, 0};  // sum and squares
    for_rows([&](int row) {
      Row g = row_of_pixels(row);
      float sum_here = 0, squares_here = 0;  // in parts, which rounds less
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        g.of[c] -= pedestal;
        sum_here += g.of[c];
        squares_here += g.of[c] * g.of[c];
      }
      set_row_of_pixels(row, g);
      less[0] += sum_here;
      less[1] += squares_here;
    });
    combine(less);
    __syncwarp();
    // fminf and fmaxf leave out what is no number, the sum of squares does not.
    const bool finite = less[1] <= std::numeric_limits<float>::max();
    summary_ = {pedestal, less[0], less[1],
                finite && lowest[0] < highest[0] && highest[0] < saturation};
  }

  __device__ SmoothedExtremes smoothed_pixels() const {
    return smoothed<false>(0, 0);
  }
  __device__ float smoothed_pixel(float x_px, float y_px) const {
    const float* from = own_ + (static_cast<int>(y_px) - 1) * kSide + static_cast<int>(x_px) - 1;
    float sum = 0;
#pragma unroll
    for (int r = 0; r < 3; ++r, from += kSide) sum += from[0] + from[1] + from[2];
    return sum * (1.0f / 9.0f);
  }
  __device__ SmoothedExtremes smoothed_residuals(float alpha, float beta) const {
    return smoothed<true>(alpha, beta);
  }

  __device__ float count_above(float level) const {
    float count[1] = {0};
    for_rows([&](int row) {
      const Row g = row_of_pixels(row);
#pragma unroll
      for (int c = 0; c < kSide; ++c) count[0] += g.of[c] > level ? 1.0f : 0.0f;
    });
    combine(count);
    return count[0];
  }

  __device__ ProfileMoments set_profile(const Profile& p, bool moments) {
    x_px_ = p.x_px;
    y_px_ = p.y_px;
    y_factor_ = factor(p.sigma_y_px);
    const float x_factor = factor(p.sigma_x_px);
    ProfileMoments m = {};
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const float u = static_cast<float>(c) - x_px_;
      x_[c] = gaussian(u, x_factor);
      add(u, x_[c], m.x);
    }
    if (!any_of(moments)) return m;
    const float to_centre = kMiddle - x_px_;
    float s[5] = {};
    for_rows([&](int row) {
      const float v = static_cast<float>(row) - y_px_;
      const float f = gaussian(v, y_factor_);
      add(v, f, m.y);
      const Row g = row_of_pixels(row);
      float by_x[3] = {};
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float column = about_middle(c);
        const float product = g.of[c] * x_[c];
        by_x[0] += product;
        by_x[1] += column * product;
        by_x[2] += column * column * product;
      }
      move(to_centre, by_x);
      s[0] += f * by_x[0];
      s[1] += f * by_x[1];
      s[2] += f * v * by_x[0];
      s[3] += f * by_x[2];
      s[4] += f * v * v * by_x[0];
    });
    combine(m.y.first);
    combine(m.y.second);
    combine(s);
    m.pixels = {s[0], s[1], s[2], s[3], s[4]};
    return m;
  }

  __device__ float squares(float alpha, float beta) const {
    float s[1] = {0};
    for_rows([&](int row) {
      const float scaled = alpha * row_profile(row);
      const Row g = row_of_pixels(row);
      float of_row = 0;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float r = (g.of[c] - beta) - scaled * x_[c];
        of_row += r * r;
      }
      s[0] += of_row;  // in parts, which rounds less
    });
    combine(s);
    return s[0];
  }

  __device__ WeightedMoments weighted_moments(const PixelNoise& noise, float alpha,
                                              float beta) const {
    WeightedMoments m = {};
    with_weights<float>(noise, [&](const auto& estimator, auto mapped) {
      if constexpr (!mapped()) weigh(estimator, alpha, beta, m);
    });
    return m;
  }

  __device__ float values(const PixelNoise& noise, float alpha, float beta) const {
    float s[1] = {};
    with_weights<float>(noise, [&](const auto& estimator, auto mapped) {
      if constexpr (mapped()) return;
      for_rows([&](int row) {
        const float scaled = alpha * row_profile(row);
        const Row g = row_of_pixels(row);
        float of_row = 0;
#pragma unroll
        for (int c = 0; c < kSide; ++c)
          of_row += value_apart(estimator, g.of[c], scaled * x_[c] + beta, 0.0f);
        s[0] += of_row;
      });
    });
    combine(s);
    return s[0];
  }

  __device__ CubicMoments cubic_moments() const {
    CubicMoments m = {};
#pragma unroll
    for (int c = 0; c < kSide; ++c) add_cubic(static_cast<float>(c) - x_px_, x_[c], m.x);
    for_rows([&](int row) {
      const float v = static_cast<float>(row) - y_px_;
      add_cubic(v, gaussian(v, y_factor_), m.y);
    });
    combine(m.y);
    return m;
  }

  __device__ QuotientSums quotient_sums(float alpha, float beta) const {
    float s[kQuotientSums] = {};
    for_rows([&](int row) {
      const float y = row_profile(row);
      const float scaled = alpha * y;
      const Row g = row_of_pixels(row);
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float r = (g.of[c] - beta) - scaled * x_[c];
        const float f = y * x_[c];
        const float q = __fdividef(f, kVarianceRatio + f);
        const float qr = q * r;
        s[0] += q;
        s[1] += q * q;
        s[2] += qr * r;
        s[3] += qr * qr;
      }
    });
    combine(s);
    return {s[0], s[1], s[2], s[3]};
  }

 private:
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kMiddle = 0.5f * (kSide - 1);

  /// Pixels of a row.
  struct Row {
    float of[kSide];
  };
  struct alignas(sizeof(float) * kWidth) Together {
    float of[kWidth];
  };

  /// This thread's.
  template <class Action>
  __device__ static void for_rows(const Action& action) {
#pragma unroll 1
    for (int row = part(); row < kSide; row += kThreads) action(row);
  }
  /// The same of all threads of the ROI.
  template <int n, class Operation = Sum>
  __device__ static void combine(float (&v)[n], Operation operation = {}) {
#pragma unroll
    for (int distance = 1; distance < kThreads; distance *= 2)
#pragma unroll
      for (int k = 0; k < n; ++k)
        v[k] = operation(k, v[k], __shfl_xor_sync(kWholeWarp, v[k], distance));
  }

  __device__ Row row_of_pixels(int row) const {
    Row pixels;
#pragma unroll
    for (int c = 0; c < kSide; c += kWidth) {
      const Together some = *reinterpret_cast<const Together*>(own_ + row * kSide + c);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) pixels.of[c + k] = some.of[k];
    }
    return pixels;
  }
  __device__ void set_row_of_pixels(int row, const Row& pixels) {
#pragma unroll
    for (int c = 0; c < kSide; c += kWidth) {
      Together some;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) some.of[k] = pixels.of[c + k];
      *reinterpret_cast<Together*>(own_ + row * kSide + c) = some;
    }
  }

  __device__ static float factor(float sigma) {
    return (-0.5f * kLog2E) / (sigma * sigma);
  }
  /// @param factor  of the width
  __device__ static float gaussian(float u, float factor) {
    constexpr float kSmallest = -28.0f * kLog2E;  // as on the CPU: its cube is a normal number
    return exp2f(fmaxf(u * u * factor, kSmallest));
  }
  __device__ float row_profile(int row) const {
    return gaussian(static_cast<float>(row) - y_px_, y_factor_);
  }
  /// Sums over a row run over powers of this, known to the compiler, and are moved to the centre
  /// then.
  __device__ static constexpr float about_middle(int column) {
    return static_cast<float>(column) - kMiddle;
  }

  template <class Moments>
  __device__ static void add(float u, float f, Moments& m) {
    const float uf = u * f, uuf = u * uf;
    m.first[0] += f;
    m.first[1] += uf;
    m.first[2] += uuf;
    m.second[k00] += f * f;
    m.second[k01] += f * uf;
    m.second[k11] += uf * uf;
    m.second[k12] += uf * uuf;
    m.second[k22] += uuf * uuf;
    m.second[k02] += uf * uf;
  }

  __device__ static void add_cubic(float u, float f, float (&m)[kPairs]) {
    const float uf = u * f, uuf = u * uf, ff = f * f;
    m[k00] += ff * f;
    m[k01] += ff * uf;
    m[k11] += ff * uuf;
    m[k12] += f * uf * uuf;
    m[k22] += f * uuf * uuf;
    m[k02] += ff * uuf;
  }

  template <class Term>
  __device__ void weigh(const Term& term, float alpha, float beta, WeightedMoments& m) const {
    const float to_centre = kMiddle - x_px_;
    for_rows([&](int row) {
      const float v = static_cast<float>(row) - y_px_;
      const float f = gaussian(v, y_factor_);
      const float scaled = alpha * f;
      const Row g = row_of_pixels(row);
      float value = 0, e = 0, w = 0;
      float e_x[3] = {}, w_x[3] = {}, w_xx[5] = {};
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float column = about_middle(c);
        const PixelTerm<float> of = term.of(g.of[c], scaled * x_[c] + beta, 0.0f);
        value += of.value;
        e += of.residual;
        w += of.weight;
        const float ex = of.residual * x_[c], wx = of.weight * x_[c], wxx = wx * x_[c];
        float power = 1;
#pragma unroll
        for (int k = 0; k < 5; ++k, power *= column) {
          if (k < 3) e_x[k] += power * ex;
          if (k < 3) w_x[k] += power * wx;
          w_xx[k] += power * wxx;
        }
      }
      move(to_centre, e_x);
      move(to_centre, w_x);
      move(to_centre, w_xx);
      m.value += value;
      m.e += e;
      m.w += w;
      const float y[3] = {f, v * f, v * v * f};
      const float xx[kPairs] = {w_xx[0], w_xx[1], w_xx[2], w_xx[3], w_xx[4], w_xx[2]};
      const float yy[kPairs] = {f * f, f * y[1], y[1] * y[1], y[1] * y[2], y[2] * y[2], f * y[2]};
#pragma unroll
      for (int a = 0; a < kPairs; ++a) {
#pragma unroll
        for (int b = 0; b < kPairs; ++b) {
          if (reads_pairs(a, b) && !repeats(a, b)) m.second[a][b] += xx[a] * yy[b];
          if (!reads_first(a, b)) continue;
          m.ef[a][b] += e_x[a] * y[b];
          m.wf[a][b] += w_x[a] * y[b];
        }
      }
    });
    for_each_sum<false>(m, [](float& sum) {
      float one[1] = {sum};
      combine(one);
      sum = one[0];
    });
    m.second[k02][k00] = m.second[k11][k00];
    m.second[k00][k02] = m.second[k00][k11];
  }

  /// From moments about a place to those about another.
  /// @param to  from the new place to the old one
  template <int n>
  __device__ static void move(float to, float (&m)[n]) {
#pragma unroll
    for (int order = 1; order < n; ++order)
#pragma unroll
      for (int k = n - 1; k >= order; --k) m[k] += to * m[k - 1];
  }

  /// Each thread has windows of its own rows, one below the other.
  template <bool kResiduals>
  __device__ SmoothedExtremes smoothed(float alpha, float beta) const {
    constexpr int kShare = (kSide - 2 + kThreads - 1) / kThreads;
    const int first = part() * kShare;  // row above the first window's middle
    const int last = min(first + kShare + 2, kSide);
    SmoothedExtremes e = {-INFINITY, INFINITY, 0, 0};
    float before[kSide], before_that[kSide];  // sums of three neighbours in the last two rows
#pragma unroll 1
    for (int row = first; row < last; ++row) {
      const float scaled = kResiduals ? alpha * row_profile(row) : 0.0f;
      Row here = row_of_pixels(row);
      if constexpr (kResiduals) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) here.of[c] = (here.of[c] - beta) - scaled * x_[c];
      }
#pragma unroll
      for (int c = 1; c + 1 < kSide; ++c) {
        const float three = here.of[c - 1] + here.of[c] + here.of[c + 1];
        if (row >= first + 2) {
          const float window = before_that[c] + before[c] + three;
          if (window > e.highest) {
            e.x_px = static_cast<float>(c);
            e.y_px = static_cast<float>(row - 1);
          }
          e.highest = fmaxf(e.highest, window);
          e.lowest = fminf(e.lowest, window);
        }
        before_that[c] = before[c];
        before[c] = three;
      }
    }
#pragma unroll
    for (int distance = 1; distance < kThreads; distance *= 2) {
      const auto of_other = [&](float v) { return __shfl_xor_sync(kWholeWarp, v, distance); };
      const SmoothedExtremes other = {of_other(e.highest), of_other(e.lowest), of_other(e.x_px),
                                      of_other(e.y_px)};
      const bool is_above = other.y_px < e.y_px;
      if (other.highest > e.highest || (other.highest == e.highest && is_above)) {
        e.x_px = other.x_px;
        e.y_px = other.y_px;
      }
      e.highest = fmaxf(e.highest, other.highest);
      e.lowest = fminf(e.lowest, other.lowest);
    }
    e.highest *= 1.0f / 9.0f;
    e.lowest *= 1.0f / 9.0f;
    return e;
  }

  float* own_;
  PixelSummary summary_;
  float x_[kSide];  ///< profile of the columns
  float x_px_, y_px_, y_factor_;
};

}  // namespace driftd::fitter::cuda
