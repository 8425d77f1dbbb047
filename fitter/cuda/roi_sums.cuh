// SPDX-License-Identifier: MIT
// The CUDA back end of pixel_sums.hpp and pixelwise.hpp: one ROI in shared memory, its columns and
// rows dealt out to the threads of a group. Even threads sum over the profile's columns, odd ones
// over its rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "fitter/cuda/thread_group.cuh"
#include "fitter/dispatch.hpp"
#include "fitter/fitter.hpp"
#include "fitter/left_out_pixels.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"

namespace driftd::fitter::cuda {

/// @tparam kMostPx  largest side that it takes, and the pitch of its rows: a multiple of 16
template <int kThreads, int kMostPx>
class RoiSums {
 public:
  using Real = float;
  /// Not where groups share a warp: they would have to agree on who sets his profile anew, because
  /// all join every sum.
  static constexpr bool kKeepsMoments = kThreads >= kWarpThreads;
  static constexpr bool kTakesMaps = true;
  /// Shared memory of a group, in floats: the profile of both axes, the pixels, the threads' own; a
  /// bit more, so that groups of fewer threads than a warp meet no bank conflicts.
  static constexpr int kFloats = 8 * kMostPx + kMostPx * kMostPx + ThreadGroup<kThreads>::kScratch +
                                 (kThreads < kWarpThreads ? (kThreads > 4 ? kThreads : 4) : 0);

  /// @param memory  kFloats floats of this group, 16-byte aligned
  __device__ RoiSums(float* memory, int side, bool integrated)
      : group_(memory + 8 * kMostPx + kMostPx * kMostPx),
        axes_(reinterpret_cast<float4*>(memory)),
        pixels_(memory + 8 * kMostPx),
        side_(side),
        integrated_(integrated) {}

  __device__ int side() const { return side_; }
  __device__ bool integrated() const { return integrated_; }
  __device__ const PixelSummary& summary() const { return summary_; }
  __device__ ThreadGroup<kThreads>& group() { return group_; }
  /// Less the pedestal, once loaded; rows kMostPx apart.
  __device__ float* pixels() const { return pixels_; }
  /// At least 16 floats that no sum holds once the fit is concluded.
  __device__ float* free_memory() { return reinterpret_cast<float*>(axes_); }

  /// Pixels one after another, in memory that does not change meanwhile.
  template <class T>
  __device__ void load(const T* pixels, float saturation) {
    clear_padding();
    Extent extent;
    for_each_pixel([&](float& pixel, int row, int column) {
      pixel = static_cast<float>(pixels[row * side_ + column]);
      extent.add(pixel);
    });
    summarize<std::numeric_limits<T>::is_integer>(extent, saturation);
  }

  /// A slot of u16 pixels in memory that the host writes: 16-byte words, and the start value in the
  /// one behind them. All words are read at once, because each read is a journey over the bus, and
  /// past the first cache, which would not see the host write.
  __device__ Start load_slot(const uint4* slot, float saturation) {
    constexpr int kMostWords = (kMostPx * kMostPx / 8) / kThreads + 1;
    const int words = (count() + 7) / 8;
    uint4 word[kMostWords];
#pragma unroll
    for (int k = 0; k < kMostWords; ++k) {
      const int i = group_.index() + k * kThreads;
      if (i <= words) word[k] = __ldcg(slot + i);
    }
    clear_padding();
    Extent extent;
#pragma unroll
    for (int k = 0; k < kMostWords; ++k) {
      const int i = group_.index() + k * kThreads;
      if (i < words) unpack(word[k], 8 * i, extent);
      if (i == words) *reinterpret_cast<uint4*>(axes_) = word[k];
    }
    group_.sync();
    const float4 start = axes_[0];
    summarize<true>(extent, saturation);
    return {start.x, start.y, start.z, start.w};
  }

  __device__ SmoothedExtremes smoothed_pixels() {
    return smoothed<false>(0, 0);
  }
  __device__ float smoothed_pixel(float x_px, float y_px) const {
    const int left = static_cast<int>(x_px) - 1, above = static_cast<int>(y_px) - 1;
    float sum = 0;
#pragma unroll
    for (int r = 0; r < 3; ++r) sum += three_columns(above + r, left);
    return sum / 9.0f;
  }
  __device__ SmoothedExtremes smoothed_residuals(float alpha, float beta) {
    return smoothed<true>(alpha, beta);
  }

  /// What pixelwise.hpp asks for.
  template <class Action>
  __device__ void for_each_pixel(const PixelNoise& noise, const Action& action) {
    for_each_pixel([&](float& pixel, int row, int column) {
      float map = 0;
      if (noise.mapped) {
        const float variance = is_left_out(row, column) ? INFINITY : variance_of(row, column);
        map = map_value(noise.estimator, noise.gain, variance);
      }
      action(static_cast<float>(column), static_cast<float>(row), pixel, map);
    });
  }
  template <int n>
  __device__ void combine(float (&sums)[n]) {
    constexpr int kMost = ThreadGroup<kThreads>::kMostValues;
    if constexpr (n <= kMost) {
      group_.combine(sums);
    } else {
      float first[kMost], rest[n - kMost];
#pragma unroll
      for (int k = 0; k < n; ++k) (k < kMost ? first[k] : rest[k - kMost]) = sums[k];
      group_.combine(first);
      combine(rest);
#pragma unroll
      for (int k = 0; k < n; ++k) sums[k] = k < kMost ? first[k] : rest[k - kMost];
    }
  }
  __device__ bool any_of(bool mask) const {
    return group_.any(mask);
  }
  /// 0 of pixels that are gone.
  /// @param memory  for the image: kMostPx rows
  template <class Image>
  __device__ SmoothedExtremes smoothed_image(float* memory, const Image& image) {
    for_each_pixel([&](float& pixel, int row, int column) {
      const bool gone = most_variance_ != INFINITY && is_left_out(row, column);
      memory[row * kMostPx + column] = gone ? 0.0f : image(row, column, pixel);
    });
    group_.sync();
    float* const pixels = pixels_;
    pixels_ = memory;
    const SmoothedExtremes extremes = smoothed<false>(0, 0);
    pixels_ = pixels;
    group_.sync();
    return extremes;
  }

  __device__ float count_above(float level) {
    float above[1] = {0};
    for_each_pixel([&](float& pixel, int, int) { above[0] += pixel > level ? 1.0f : 0.0f; });
    group_.combine(above);
    return above[0];
  }

  /// The moments of the profile set last.
  __device__ const ProfileMoments& moments() const {
    return moments_;
  }

  __device__ ProfileMoments set_profile(const Profile& p, bool moments_wanted);  // profile_sums.cuh

  __device__ float squares(float alpha, float beta) {
    float s[1] = {0};
    for_columns([&](int c, auto together) {
      float of_column[together()] = {}, scaled[together()], background[together()];
#pragma unroll
      for (int k = 0; k < together(); ++k) {
        const float4 x = x_axis()[c + k * kColumnThreads];
        scaled[k] = alpha * x.x;
        background[k] = kPadded ? beta * x.w : beta;
      }
      for_rows([&](int r) {
        const float4 y = y_axis()[r];
#pragma unroll
        for (int k = 0; k < together(); ++k) {
          const float g = pixels_[r * kMostPx + c + k * kColumnThreads];
          const float residual =
              (g - (kPadded ? background[k] * y.w : background[k])) - scaled[k] * y.x;
          of_column[k] += residual * residual;
        }
      });
#pragma unroll
      for (int k = 0; k < together(); ++k) s[0] += of_column[k];
    });
    group_.combine(s);
    return s[0];
  }

  /// The map is read where it lies, at each evaluation: it would take a third of the shared memory.
  /// @pre the pixels are loaded
  __device__ void load_map(const float* variances, const FitOptions& options) {
    const float least = least_variance(options.estimator);
    float invalid[1] = {0};
    float largest[2] = {0, 0};  // of even and odd rows
    for_each_pixel([&](float&, int row, int column) {
      const float variance = variances[row * side_ + column];
      if (!(variance >= least)) invalid[0] += 1;  // NaN, too
      const bool odd = row % 2 != 0;
      largest[0] = fmaxf(largest[0], odd ? 0.0f : variance);
      largest[1] = fmaxf(largest[1], odd ? variance : 0.0f);
    });
    group_.combine(invalid);
    if (invalid[0] > 0) summary_.usable = false;
    variances_ = variances;
    if (!knows_its_variances(options.estimator)) return;
    // A group that shares its warp looks where a neighbour has to, too: all join every sum.
    if (group_.any(!none_to_leave_out(largest))) leave_out_pixels(options);
  }

  // These three: weighted_sums.cuh.
  __device__ WeightedMoments weighted_moments(const PixelNoise& noise, float alpha, float beta);

  __device__ WeightedMoments plain_moments(const PixelNoise& noise, float alpha, float beta);

  __device__ float values(const PixelNoise& noise, float alpha, float beta);

  __device__ QuotientSums quotient_sums(float alpha, float beta);  // quotient_sums.cuh

  __device__ CubicMoments cubic_moments() {
    CubicMoments moments;
    cubic_axis(x_axis(), moments.x);
    cubic_axis(y_axis(), moments.y);
    return moments;
  }

 private:
  static constexpr int kWidth = kThreads < kWarpThreads ? kThreads : kWarpThreads;
  /// How the threads share a loop over pixels.
  static constexpr int kColumnThreads = kThreads < 16 || kMostPx > 16
                                            ? (kThreads < 32 ? kThreads : 32)
                                            : 16;
  static constexpr int kRowThreads = kThreads / kColumnThreads;
  static_assert(kRowThreads * kColumnThreads == kThreads);

  struct Extent {
    float sum = 0;
    float lowest = INFINITY, highest = -INFINITY;

    __device__ void add(float value) {
      sum += value;
      lowest = fminf(lowest, value);
      highest = fmaxf(highest, value);
    }
  };

  __device__ int count() const {
    return side_ * side_;
  }
  __device__ int column() const {
    return group_.index() % kColumnThreads;
  }
  __device__ int row() const {
    return group_.index() / kColumnThreads;
  }
  __device__ const float4* x_axis() const {
    return axes_;
  }
  __device__ const float4* y_axis() const {
    return axes_ + kMostPx;
  }

  /// Whether a thread has one column and few rows. Then all rows there could be are summed side by
  /// side, without a branch, which is quicker for one ROI alone: beyond the side the pixels and the
  /// profile are 0, and so is the profile's last member, which is 1 within.
  static constexpr bool kPadded = kMostPx <= kColumnThreads && kMostPx / kRowThreads <= 8;

  /// This thread's columns, two at a time as long as all threads have two: the profile of the rows
  /// is then read once for both. The action gets the first and how many they are.
  template <class Action>
  __device__ void for_columns(Action&& action) const {
    constexpr std::integral_constant<int, 1> kOne;
    constexpr std::integral_constant<int, 2> kTwo;
    if constexpr (kPadded) {
      action(column(), kOne);
    } else {
      int c = column();
      for (; c - column() + 2 * kColumnThreads <= side_; c += 2 * kColumnThreads) action(c, kTwo);
      for (; c < side_; c += kColumnThreads) action(c, kOne);
    }
  }

  template <class Action>
  __device__ void for_rows(Action&& action) const {
    if constexpr (kPadded) {
#pragma unroll
      for (int r = 0; r < kMostPx; r += kRowThreads) action(row() + r);
    } else {
#pragma unroll 4
      for (int r = row(); r < side_; r += kRowThreads) action(r);
    }
  }

  /// This thread's share of the pixels.
  template <class Action>
  __device__ void for_each_pixel(Action&& action) {
    for (int c = column(); c < side_; c += kColumnThreads) {
#pragma unroll 4
      for (int r = row(); r < side_; r += kRowThreads) action(pixels_[r * kMostPx + c], r, c);
    }
  }

  __device__ float variance_of(int r, int c) const {
    return variances_[r * side_ + c];
  }
  __device__ bool is_left_out(int r, int c) const {
    return !(variance_of(r, c) <= most_variance_);
  }

  /// @param of_rows  largest variance in this thread's even and odd rows
  __device__ bool none_to_leave_out(float (&of_rows)[2]) {
    static_assert(kColumnThreads % 2 == 0, "a thread's columns are all even, or all odd");
    group_.largest_by_parity(of_rows);
    const auto from = [](float v, int lane) { return __shfl_sync(kWholeWarp, v, lane, kWidth); };
    const float of_class[kNoisiest] = {from(of_rows[0], 0), from(of_rows[0], 1),
                                       from(of_rows[1], 0), from(of_rows[1], 1)};
    return fitter::none_to_leave_out(of_class);
  }

  __device__ void leave_out_pixels(const FitOptions& options) {
    const auto sum_of = [&](const auto& of) {
      float sum[1] = {0};
      for_each_pixel(
          [&](float& pixel, int r, int c) { sum[0] += of(pixel, variances_[r * side_ + c]); });
      group_.combine(sum);
      return sum[0];
    };
    const auto largest_of = [&](const auto& of) {
      float largest[1] = {0};
      for_each_pixel([&](float& pixel, int r, int c) {
        largest[0] = fmaxf(largest[0], of(pixel, variances_[r * side_ + c]));
      });
      group_.combine(largest, Largest{});
      return largest[0];
    };
    const auto change = [&](const auto& of) {
      for_each_pixel(
          [&](float& pixel, int r, int c) { pixel = of(pixel, variances_[r * side_ + c]); });
      group_.sync();
    };
    most_variance_ =
        leave_out(summary_, static_cast<float>(count()), options, sum_of, largest_of, change);
  }

  __device__ void combine(WeightedMoments& m);
  template <bool kRepeated>
  __device__ void combine_all(WeightedMoments& m);

  __device__ void clear_padding() {
    if constexpr (kPadded) {
      for (int i = group_.index(); i < kMostPx * kMostPx / 4; i += kThreads)
        reinterpret_cast<float4*>(pixels_)[i] = make_float4(0, 0, 0, 0);
      group_.sync();
    }
  }

  /// Eight pixels, of which those within the ROI count.
  __device__ void unpack(const uint4& word, int from, Extent& extent) {
    const unsigned pair[4] = {word.x, word.y, word.z, word.w};
    const float side = static_cast<float>(side_);
    int r = static_cast<int>((static_cast<float>(from) + 0.5f) / side);  // exact: from < 4096
    int c = from - r * side_;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float value = static_cast<float>((pair[k / 2] >> (16 * (k % 2))) & 0xffffu);
      if (r < side_) {
        pixels_[r * kMostPx + c] = value;
        extent.add(value);
      }
      if (++c == side_) {
        c = 0;
        ++r;
      }
    }
  }

  /// Subtracts a pedestal near the mean, whole for integer pixels: the subtraction is exact.
  template <bool kInteger>
  __device__ void summarize(const Extent& extent, float saturation) {
    float first[3] = {extent.sum, extent.highest, -extent.lowest};
    group_.combine(first, SumThenLargest{});
    float pedestal = first[0] / static_cast<float>(count());
    if constexpr (kInteger) pedestal = static_cast<float>(static_cast<int>(pedestal + 0.5f));
    float sum[2] = {};
    for_each_pixel([&](float& pixel, int, int) {
      pixel -= pedestal;
      sum[0] += pixel;
      sum[1] += pixel * pixel;
    });
    group_.combine(sum);
    group_.sync();
    const bool finite = sum[1] <= std::numeric_limits<float>::max();
    summary_ = {pedestal, sum[0], sum[1], finite && -first[2] < first[1] && first[1] < saturation};
  }

  __device__ float three_columns(int r, int c) const {
    const float* const p = pixels_ + r * kMostPx + c;
    return (p[0] + p[1]) + p[2];
  }

  /// Extremes of the pixels' averages over windows, or of the residuals': those less the model's.
  template <bool kResiduals>
  __device__ SmoothedExtremes smoothed(float alpha, float beta);  // smoothed_pixels.cuh

  __device__ void cubic_axis(const float4* axis, float (&third)[kPairs]) {
    float m[kPairs] = {};
    for (int i = group_.index(); i < side_; i += kThreads) {
      const float4 a = axis[i];
      const float ff = a.x * a.x;
      m[k00] += ff * a.x;
      m[k01] += ff * a.y;
      m[k11] += a.x * a.y * a.y;
      m[k12] += a.x * a.y * a.z;
      m[k22] += a.x * a.z * a.z;
      m[k02] += ff * a.z;
    }
    group_.combine(m);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) third[k] = m[k];
  }

  /// Calls action(pixel, model, map value, profile of the row) for this thread's share of a column.
  template <bool kMapped, class Action>
  __device__ void for_column(const PixelNoise& noise, int c, float alpha, float beta,
                             const Action& action) const {
    const float scaled = alpha * x_axis()[c].x;
    for_rows([&](int r) {
      const float4 y = y_axis()[r];
      float map = 0;
      if constexpr (kMapped) {
        const float variance = is_left_out(r, c) ? INFINITY : variances_[r * side_ + c];
        map = map_value(noise.estimator, noise.gain, variance);
      }
      action(pixels_[r * kMostPx + c], scaled * y.x + beta, map, y);
    });
  }

  /// This thread's share. Column by column: first over its rows, then with what of the column
  /// belongs to them. One body for both kinds of pixels: two would make live fits twice as slow.
  template <bool kMapped, class Term>
  __device__ void weigh(const Term& term, const PixelNoise& noise, float alpha, float beta,
                        WeightedMoments& m) const;

  ThreadGroup<kThreads> group_;
  float4* axes_;   ///< {X, X_1, X_2 (AxisElement), 0} by column, then the same by row
  float* pixels_;  ///< less the pedestal
  int side_;
  bool integrated_;
  const float* variances_ = nullptr;
  float most_variance_ = INFINITY;  ///< beyond which a pixel is left out
  PixelSummary summary_;
  ProfileMoments moments_;
};

}  // namespace driftd::fitter::cuda

#include "fitter/cuda/profile_sums.cuh"
#include "fitter/cuda/quotient_sums.cuh"
#include "fitter/cuda/smoothed_pixels.cuh"
#include "fitter/cuda/weighted_sums.cuh"
