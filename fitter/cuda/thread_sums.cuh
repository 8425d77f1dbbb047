// SPDX-License-Identifier: MIT
// The CUDA back end of pixel_sums.hpp with a ROI in every thread, for batches of small ROIs: no sum
// crosses threads. Pixel i of all ROIs of a block lies in one row of shared memory; the profile of
// the columns lies in registers, that of a row is made where it is needed. Gaussians at the pixels'
// centres only.
#pragma once

#include <cmath>
#include <limits>

#include "fitter/pixel_sums.hpp"

namespace driftd::fitter::cuda {

/// @tparam kSide  of the ROIs, px
/// @tparam kRois  threads of the block, and its ROIs
template <int kSide, int kRois>
class ThreadSums {
 public:
  using Real = float;
  static constexpr bool kKeepsMoments = false;  // in registers, which are short
  static constexpr int kPixels = kSide * kSide;
  /// A row of one pixel, and one float more: neighbours in a ROI lie in different banks.
  static constexpr int kPitch = kRois + 1;
  static constexpr int kFloats = kPixels * kPitch;

  /// @param memory  kFloats floats of the block
  __device__ explicit ThreadSums(float* memory) : own_(memory + threadIdx.x) {}

  __device__ static constexpr int side() { return kSide; }
  __device__ const PixelSummary& summary() const { return summary_; }

  /// By all threads of the block: its `count` ROIs, which lie one after another.
  template <class T>
  __device__ void load(float* memory, const T* pixels, int count, float saturation) {
    int roi = static_cast<int>(threadIdx.x) / kPixels;
    int place = static_cast<int>(threadIdx.x) % kPixels;
    for (int i = static_cast<int>(threadIdx.x); i < count * kPixels; i += kRois) {
      memory[place * kPitch + roi] = static_cast<float>(pixels[i]);
      place += kRois % kPixels;
      roi += kRois / kPixels;
      if (place >= kPixels) {
        place -= kPixels;
        ++roi;
      }
    }
    __syncthreads();
    float sum = 0, lowest = INFINITY, highest = -INFINITY;
    for (int i = 0; i < kPixels; ++i) {
      const float g = own_[i * kPitch];
      sum += g;
      lowest = fminf(lowest, g);
      highest = fmaxf(highest, g);
    }
    float pedestal = sum / kPixels;
    if constexpr (std::numeric_limits<T>::is_integer) pedestal = rintf(pedestal);
    summary_ = {pedestal, 0, 0, false};
    for (int row = 0; row < kSide; ++row) {
      float sum_here = 0, squares_here = 0;  // in parts, which rounds less
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        float& g = own_[(row * kSide + c) * kPitch];
        g -= pedestal;
        sum_here += g;
        squares_here += g * g;
      }
      summary_.sum += sum_here;
      summary_.sum_squares += squares_here;
    }
    // fminf and fmaxf leave out what is no number, the sum of squares does not.
    const bool finite = summary_.sum_squares <= std::numeric_limits<float>::max();
    summary_.usable = finite && lowest < highest && highest < saturation;
  }

  __device__ SmoothedExtremes smoothed_pixels() const {
    return smoothed<false>(0, 0);
  }
  __device__ SmoothedExtremes smoothed_residuals(float alpha, float beta) const {
    return smoothed<true>(alpha, beta);
  }

  __device__ float count_above(float level) const {
    float count = 0;
    for (int i = 0; i < kPixels; ++i) count += own_[i * kPitch] > level ? 1.0f : 0.0f;
    return count;
  }

  __device__ ProfileMoments set_profile(const Profile& p) {
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
#pragma unroll 1
    for (int row = 0; row < kSide; ++row) {
      const float v = static_cast<float>(row) - y_px_;
      const float f = gaussian(v, y_factor_);
      add(v, f, m.y);
      float of_row = 0;
#pragma unroll
      for (int c = 0; c < kSide; ++c) of_row += pixel(row, c) * x_[c];
      m.profile_pixels += of_row * f;
    }
    return m;
  }

  __device__ ResidualMoments residuals(float alpha, float beta) const {
    constexpr float kMiddle = 0.5f * (kSide - 1);
    const float centre = x_px_ - kMiddle;
    ResidualMoments m = {};
#pragma unroll 1
    for (int row = 0; row < kSide; ++row) {
      const float v = static_cast<float>(row) - y_px_;
      const float f = gaussian(v, y_factor_);
      const float scaled = alpha * f;
      // Powers of the column about the middle, known to the compiler; moved to the centre then.
      float squares = 0, sum = 0, first = 0, second = 0;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float column = static_cast<float>(c) - kMiddle;
        const float r = (pixel(row, c) - beta) - scaled * x_[c];
        const float product = r * x_[c];
        squares += r * r;
        sum += product;
        first += column * product;
        second += column * column * product;
      }
      m.squares += squares;  // in parts, which rounds less
      m.u += f * (first - centre * sum);
      m.uu += f * (second - centre * (2.0f * first - centre * sum));
      m.v += f * v * sum;
      m.vv += f * v * v * sum;
    }
    return m;
  }

  __device__ CubicMoments cubic_moments() const {
    CubicMoments m = {};
#pragma unroll
    for (int c = 0; c < kSide; ++c) add_cubic(static_cast<float>(c) - x_px_, x_[c], m.x);
#pragma unroll 1
    for (int row = 0; row < kSide; ++row) {
      const float v = static_cast<float>(row) - y_px_;
      add_cubic(v, gaussian(v, y_factor_), m.y);
    }
    return m;
  }

  __device__ VarianceSums variance_sums(float alpha, float beta) const {
    VarianceSums s = {};
#pragma unroll 1
    for (int row = 0; row < kSide; ++row) {
      const float y = row_profile(row);
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const float f = x_[c] * y;
        const float r = (pixel(row, c) - beta) - alpha * f;
        const float root = __fdividef(kVarianceRatio, kVarianceRatio + f);
        const float w = root * root;
        const float wf = w * f, rr = r * r;
        s.w[0] += w;
        s.w[1] += wf;
        s.w[2] += wf * f;
        s.w[3] += wf * f * f;
        s.squares[0] += w * rr;
        s.squares[1] += wf * rr;
      }
    }
    return s;
  }

 private:
  static constexpr float kLog2E = 1.44269504f;

  __device__ float pixel(int row, int c) const {
    return own_[(row * kSide + c) * kPitch];
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

  template <bool kResiduals>
  __device__ SmoothedExtremes smoothed(float alpha, float beta) const {
    SmoothedExtremes e = {-INFINITY, INFINITY, 0, 0};
    float before[kSide], before_that[kSide];  // sums of three neighbours in the last two rows
#pragma unroll 1
    for (int row = 0; row < kSide; ++row) {
      const float scaled = kResiduals ? alpha * row_profile(row) : 0.0f;
      float here[kSide];
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        here[c] = pixel(row, c);
        if constexpr (kResiduals) here[c] = (here[c] - beta) - scaled * x_[c];
      }
#pragma unroll
      for (int c = 1; c + 1 < kSide; ++c) {
        const float three = here[c - 1] + here[c] + here[c + 1];
        if (row >= 2) {
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
