// SPDX-License-Identifier: MIT
// The CPU back end of pixel_sums.hpp with the pixels of one ROI across the lanes of Highway
// vectors, rows padded to whole vectors. Compiled for each SIMD target (see kernel.hpp).
#pragma once

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/lanes.hpp"
#include "fitter/cpu/workspace.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/left_out_pixels.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/pixel_type.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

/// @tparam D           Highway tag of float vectors, at most kMaxLanes lanes
/// @tparam kVectors    of a row, known to the compiler; 0: any number
template <class D, int kVectors>
class RoiSums {
 public:
  using Real = float;
  using V = hn::Vec<D>;
  static constexpr bool kKeepsMoments = true;
  static constexpr bool kTakesMaps = true;

  void attach(Workspace& workspace, int side, bool integrated) {
    w_ = &workspace;
    side_ = side;
    integrated_ = integrated;
    stride_ = (side + lanes() - 1) / lanes() * lanes();
  }

  int side() const { return side_; }
  const PixelSummary& summary() const { return summary_; }

  /// Converts the ROI to padded rows of float, less a pedestal near the mean (whole for integer
  /// pixels, so that the subtraction is exact).
  template <class T>
  void load(const T* pixels, float saturation) {
    const int count = side_ * side_;
    V sum = hn::Zero(d_);
    V lowest = hn::Set(d_, std::numeric_limits<float>::infinity());
    V highest = hn::Set(d_, -std::numeric_limits<float>::infinity());
    // The last vector overlaps the one before it (16 pixels are at least one vector): the extremes
    // do not mind, and the pedestal need not be the exact mean.
    for (int i = 0; i < count; i += lanes()) {
      const int from = i + lanes() <= count ? i : count - lanes();
      const V v = load_float(pixels + from);
      hn::StoreU(v, d_, w_->scratch + from);
      sum = hn::Add(sum, v);
      lowest = hn::Min(lowest, v);
      highest = hn::Max(highest, v);
    }
    const int summed = (count + lanes() - 1) / lanes() * lanes();
    float pedestal = total(sum) / static_cast<float>(summed);
    if constexpr (std::numeric_limits<T>::is_integer) {
      pedestal = std::nearbyint(pedestal);
    }
    summary_.pedestal_adu = pedestal;
    mapped_ = false;
    store_rows(pedestal);
    const float low = hn::GetLane(hn::MinOfLanes(d_, lowest));
    const float high = hn::GetLane(hn::MaxOfLanes(d_, highest));
    const bool finite = summary_.sum_squares <= std::numeric_limits<float>::max();
    summary_.usable = finite && low < high && high < saturation;
  }

  /// Less the pedestal.
  const float* pixels_of(int row) const { return row_of(w_->pixels, row); }

  SmoothedExtremes smoothed_pixels() { return smoothed(w_->pixels); }
  float smoothed_pixel(float x_px, float y_px) const {
    const int left = static_cast<int>(x_px) - 1, above = static_cast<int>(y_px) - 1;
    float sum = 0;
    for (int row = above; row < above + 3; ++row)
      for (int c = left; c < left + 3; ++c) sum += row_of(w_->pixels, row)[c];
    return sum / 9.0f;
  }

  float count_above(float level) const {
    const V limit = hn::Set(d_, level);
    const V one = hn::Set(d_, 1.0f);
    V count = hn::Zero(d_);
    for (int c = 0; c < stride(); c += lanes()) {
      const auto inside = columns_below(c, side_);
      for (int row = 0; row < side_; ++row) {
        const auto above = hn::Gt(hn::Load(d_, row_of(w_->pixels, row) + c), limit);
        count = hn::Add(count, hn::IfThenElseZero(hn::And(above, inside), one));
      }
    }
    return total(count);
  }

  const ProfileMoments& moments() const { return moments_; }
  const ProfileMoments& set_profile(const Profile& p, bool moments) {
    return integrated_ ? set_profile_as<true>(p, moments) : set_profile_as<false>(p, moments);
  }

  float squares(float alpha, float beta) const {
    V squares = hn::Zero(d_);
    for (int c = 0; c < stride(); c += lanes()) {
      const V background = hn::IfThenElseZero(columns_below(c, side_), hn::Set(d_, beta));
      const V scaled = hn::Mul(hn::Load(d_, w_->x[0] + c), hn::Set(d_, alpha));
      V of_column = hn::Zero(d_);
      for (int row = 0; row < side_; ++row) {
        const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
        const V r = hn::NegMulAdd(scaled, hn::Set(d_, w_->y[0][row]), hn::Sub(g, background));
        of_column = hn::MulAdd(r, r, of_column);
      }
      squares = hn::Add(squares, of_column);  // in parts, which rounds less
    }
    return total(squares);
  }
  static bool any_of(bool mask) { return mask; }

  CubicMoments cubic_moments() const {
    V sums[2 * kPairs];
    cubic_axis(w_->x, sums);
    cubic_axis(w_->y, sums + kPairs);
    float t[2 * kPairs + kMaxLanes];
    totals_from<0>(t, sums);
    return {{t[0], t[1], t[2], t[3], t[4], t[5]}, {t[6], t[7], t[8], t[9], t[10], t[11]}};
  }

  /// One map value for each pixel; a variance that is none makes the ROI unusable.
  /// @pre the pixels are loaded
  void load_map(const float* variances, const FitOptions& options) {
    const Estimator estimator = options.estimator;
    const float gain = gain_of(options), least = least_variance(estimator);
    mapped_ = knows_its_variances(estimator);
    of_map_ = estimator;
    const float infinity = std::numeric_limits<float>::infinity();
    for (int row = 0; row < side_; ++row) {
      float* const to = w_->map + row * stride();
      std::copy_n(variances + static_cast<std::ptrdiff_t>(row) * side_, side_, to);
      std::fill(to + side_, to + stride(), 0.0f);
    }
    const bool search = mapped_ && !none_to_leave_out();
    const float most = search ? leave_out_pixels(variances, options) : infinity;
    bool valid = true;
    for (int row = 0; row < side_; ++row) {
      float* const to = w_->map + row * stride();
      for (int c = 0; c < side_; ++c) {
        const float variance = to[c];
        valid = valid && variance >= least;  // false for NaN
        to[c] = map_value(estimator, gain, variance <= most ? variance : infinity);
      }
    }
    if (!valid) summary_.usable = false;
  }

  WeightedMoments weighted_moments(const PixelNoise& noise, float alpha, float beta) {
    square_rows();
    return with_weights<Lanes<D>>(noise, [&](const auto& estimator, auto mapped) {
      return weigh<mapped()>(estimator, alpha, beta);
    });
  }

  WeightedMoments plain_moments(const PixelNoise& noise, float alpha, float beta) {
    square_rows();
    return weigh<true>(PlainSquares<Lanes<D>>(noise), alpha, beta);
  }

  float values(const PixelNoise& noise, float alpha, float beta) const {
    return with_weights<Lanes<D>>(noise, [&](const auto& estimator, auto mapped) {
      V sum = hn::Zero(d_);
      for (int c = 0; c < stride(); c += lanes()) {
        const V scaled = hn::Mul(hn::Load(d_, w_->x[0] + c), hn::Set(d_, alpha));
        V of_columns = hn::Zero(d_);
        for_column<mapped()>(c, scaled, beta, [&](const V& g, const V& model, const V& map, int) {
          const Lanes<D> value = value_apart<Lanes<D>>(estimator, g, model, map);
          of_columns = hn::Add(of_columns, value.v);
        });
        sum = hn::Add(sum, hn::IfThenElseZero(columns_below(c, side_), of_columns));
      }
      return total(sum);
    });
  }

  QuotientSums quotient_sums(float alpha, float beta) const;  // quotient_sums.hpp

  SmoothedExtremes smoothed_residuals(float alpha, float beta) {
    for (int c = 0; c < stride(); c += lanes()) {
      const V scaled = hn::Mul(hn::Load(d_, w_->x[0] + c), hn::Set(d_, alpha));
      for (int row = 0; row < side_; ++row) {
        const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
        V r = hn::NegMulAdd(scaled, hn::Set(d_, w_->y[0][row]), hn::Sub(g, hn::Set(d_, beta)));
        if (mapped_) {
          const Lanes<D> map = hn::Load(d_, row_of(w_->map, row) + c);
          r = hn::IfThenElseZero(is_there(of_map_, map).m, r);
        }
        hn::Store(r, d_, w_->scratch + row * stride() + c);
      }
    }
    return smoothed(w_->scratch);
  }

 private:
  static constexpr D d_{};
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr int lanes() { return static_cast<int>(kLanes); }
  int stride() const { return kVectors > 0 ? kVectors * lanes() : stride_; }
  static float total(V v) { return hn::GetLane(hn::SumOfLanes(d_, v)); }

  const float* row_of(const float* image, int row) const { return image + row * stride(); }

  /// True where column c + lane < end.
  static hn::Mask<D> columns_below(int c, int end) {
    return hn::Lt(hn::Iota(d_, static_cast<float>(c)), hn::Set(d_, static_cast<float>(end)));
  }

  static V load_float(const float* p) { return hn::LoadU(d_, p); }
  template <class T>
  static V load_float(const T* p) {
    const hn::Rebind<T, D> narrow;
    const hn::Rebind<std::int32_t, D> wide;
    return hn::ConvertTo(d_, hn::PromoteTo(wide, hn::LoadU(narrow, p)));
  }

  void store_rows(float pedestal) {
    V sum = hn::Zero(d_), squares = sum;
    for (int row = 0; row < side_; ++row) {
      for (int c = 0; c < stride(); c += lanes()) {
        const float* from = w_->scratch + c + static_cast<std::ptrdiff_t>(row) * side_;
        const V v = hn::Sub(hn::LoadU(d_, from), hn::Set(d_, pedestal));
        const V inside = hn::IfThenElseZero(columns_below(c, side_), v);
        hn::Store(inside, d_, w_->pixels + row * stride() + c);
        sum = hn::Add(sum, inside);
        squares = hn::MulAdd(inside, inside, squares);
      }
    }
    summary_.sum = total(sum);
    summary_.sum_squares = total(squares);
  }

  /// By the map of variances.
  bool none_to_leave_out() const {
    const V zero = hn::Zero(d_);
    V largest[kNoisiest] = {zero, zero, zero, zero};
    for (int c = 0; c < stride(); c += lanes()) {
      V of_rows[2] = {zero, zero};  // even and odd
      for (int row = 0; row < side_; ++row)
        of_rows[row % 2] = hn::Max(of_rows[row % 2], hn::Load(d_, row_of(w_->map, row) + c));
      const V half = hn::Mul(hn::Iota(d_, static_cast<float>(c)), hn::Set(d_, 0.5f));
      const auto even = hn::Eq(hn::Floor(half), half);
      for (int k = 0; k < 2; ++k) {
        largest[2 * k] = hn::Max(largest[2 * k], hn::IfThenElseZero(even, of_rows[k]));
        largest[2 * k + 1] = hn::Max(largest[2 * k + 1], hn::IfThenZeroElse(even, of_rows[k]));
      }
    }
    float of_class[kNoisiest];
    for (int k = 0; k < kNoisiest; ++k) of_class[k] = hn::GetLane(hn::MaxOfLanes(d_, largest[k]));
    return fitter::none_to_leave_out(of_class);
  }

  /// @return the largest variance that is not left out
  float leave_out_pixels(const float* variances, const FitOptions& options) {
    const auto for_each = [&](const auto& action) {
      for (int row = 0; row < side_; ++row)
        for (int c = 0; c < side_; ++c)
          action(w_->pixels[row * stride() + c], variances[row * side_ + c]);
    };
    const auto sum_of = [&](const auto& of) {
      float sum = 0;
      for_each([&](float& pixel, float variance) { sum += of(pixel, variance); });
      return sum;
    };
    const auto largest_of = [&](const auto& of) {
      float largest = 0;
      for_each([&](float& pixel, float v) { largest = larger(largest, of(pixel, v)); });
      return largest;
    };
    const auto change = [&](const auto& of) {
      for_each([&](float& pixel, float variance) { pixel = of(pixel, variance); });
    };
    return leave_out(summary_, static_cast<float>(side_ * side_), options, sum_of, largest_of,
                     change);
  }

  /// Vectors whose lanes add up to AxisMoments.
  struct AxisSums {
    V first[3];
    V second[kPairs];
  };

  template <bool kIntegrated>
  const ProfileMoments& set_profile_as(const Profile& p, bool moments) {
    const AxisSums x = profile_axis<kIntegrated>(p.x_px, p.sigma_x_px, w_->x);
    const AxisSums y = profile_axis<kIntegrated>(p.y_px, p.sigma_y_px, w_->y);
    if (!moments) return moments_;
    V f = hn::Zero(d_), u = f, v = f, uu = f, vv = f;
    for (int c = 0; c < stride(); c += lanes()) {
      V by_y = hn::Zero(d_), by_vy = by_y, by_vvy = by_y;
      for (int row = 0; row < side_; ++row) {
        const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
        by_y = hn::MulAdd(g, hn::Set(d_, w_->y[0][row]), by_y);
        by_vy = hn::MulAdd(g, hn::Set(d_, w_->y[1][row]), by_vy);
        by_vvy = hn::MulAdd(g, hn::Set(d_, w_->y[2][row]), by_vvy);
      }
      const V of_column = hn::Load(d_, w_->x[0] + c);
      f = hn::MulAdd(by_y, of_column, f);
      u = hn::MulAdd(by_y, hn::Load(d_, w_->x[1] + c), u);
      v = hn::MulAdd(by_vy, of_column, v);
      uu = hn::MulAdd(by_y, hn::Load(d_, w_->x[2] + c), uu);
      vv = hn::MulAdd(by_vvy, of_column, vv);
    }
    float t[21 + kMaxLanes];
    totals(t, x.first[0], x.first[1], x.first[2], x.second[0], x.second[1], x.second[2],
           x.second[3], x.second[4], y.first[0], y.first[1], y.first[2], y.second[0], y.second[1],
           y.second[2], y.second[3], y.second[4], f, u, v, uu, vv);
    const float x02 = kIntegrated ? total(x.second[k02]) : t[5];
    const float y02 = kIntegrated ? total(y.second[k02]) : t[13];
    moments_ = {{{t[0], t[1], t[2]}, {t[3], t[4], t[5], t[6], t[7], x02}},
                {{t[8], t[9], t[10]}, {t[11], t[12], t[13], t[14], t[15], y02}},
                {t[16], t[17], t[18], t[19], t[20]}};
    return moments_;
  }

  template <bool kIntegrated>
  AxisSums profile_axis(float centre, float sigma, float (&axis)[3][kMaxRoiPx]) const {
    // exp(-28) is far below single precision of the peak, and its cube is still a normal number.
    const V smallest = hn::Set(d_, -28.0f);
    const V factor = hn::Set(d_, -0.5f / (sigma * sigma));
    const V zero = hn::Zero(d_);
    AxisSums s = {{zero, zero, zero}, {zero, zero, zero, zero, zero, zero}};
    const auto gaussian = [&](const Lanes<D>& at) {
      const Lanes<D> exponent = at * at * factor;
      return Lanes<D>(hn::Exp(d_, hn::Max(exponent.v, smallest)));
    };
    for (int c = 0; c < stride(); c += lanes()) {
      const V u = hn::Sub(hn::Iota(d_, static_cast<float>(c)), hn::Set(d_, centre));
      const auto inside = columns_below(c, side_);
      const AxisElement<Lanes<D>> of = axis_element<kIntegrated>(Lanes<D>(u), gaussian);
      const V f = hn::IfThenElseZero(inside, of.f.v);
      const V uf = hn::IfThenElseZero(inside, of.uf.v);
      const V uuf = hn::IfThenElseZero(inside, of.uuf.v);
      hn::Store(f, d_, axis[0] + c);
      hn::Store(uf, d_, axis[1] + c);
      hn::Store(uuf, d_, axis[2] + c);
      s.first[0] = hn::Add(s.first[0], f);
      s.first[1] = hn::Add(s.first[1], uf);
      s.first[2] = hn::Add(s.first[2], uuf);
      s.second[k00] = hn::MulAdd(f, f, s.second[k00]);
      s.second[k01] = hn::MulAdd(f, uf, s.second[k01]);
      s.second[k11] = hn::MulAdd(uf, uf, s.second[k11]);
      s.second[k12] = hn::MulAdd(uf, uuf, s.second[k12]);
      s.second[k22] = hn::MulAdd(uuf, uuf, s.second[k22]);
      if constexpr (kIntegrated) s.second[k02] = hn::MulAdd(f, uuf, s.second[k02]);
    }
    return s;
  }

  /// out[i] = sum of the lanes of the i-th vector, all at once; writes up to a vector's length past
  /// the last.
  template <class... Vectors>
  static void totals(float* out, const Vectors&... vectors) {
    constexpr std::size_t kCount = sizeof...(vectors);
    const V v[kCount] = {vectors...};
    totals_from<0>(out, v);
  }

  template <std::size_t first, std::size_t count>
  static void totals_from(float* out, const V (&v)[count]) {
    if constexpr (first < count) {
      hn::StoreU(packed<first, kLanes>(v), d_, out + first);
      totals_from<first + kLanes>(out, v);
    }
  }

  /// The lanes of `span` vectors from v[first] on, added up in groups of `span` neighbours: with as
  /// many vectors as lanes, lane i is the total of vector first + i.
  template <std::size_t first, std::size_t span, std::size_t count>
  static V packed(const V (&v)[count]) {
    if constexpr (span == 1) {
      return v[first];
    } else {
#if HWY_TARGET != HWY_SCALAR  // one lane needs no packing, and has no such shuffles
      constexpr std::size_t kMiddle = first + span / 2;
      const V low = packed<first, span / 2>(v);
      const V high = packed<(kMiddle < count ? kMiddle : first), span / 2>(v);
      return hn::Add(hn::ConcatEven(d_, high, low), hn::ConcatOdd(d_, high, low));
#endif
    }
  }

  /// @param sums  of each pair, whose lanes add up to the moments
  void cubic_axis(const float (&axis)[3][kMaxRoiPx], V* sums) const {
    for (int k = 0; k < kPairs; ++k) sums[k] = hn::Zero(d_);
    for (int c = 0; c < stride(); c += lanes()) {
      const V f = hn::Load(d_, axis[0] + c);
      const V uf = hn::Load(d_, axis[1] + c);
      const V uuf = hn::Load(d_, axis[2] + c);
      const V ff = hn::Mul(f, f);
      sums[k00] = hn::MulAdd(ff, f, sums[k00]);
      sums[k01] = hn::MulAdd(ff, uf, sums[k01]);
      sums[k11] = hn::MulAdd(hn::Mul(f, uf), uf, sums[k11]);
      sums[k12] = hn::MulAdd(hn::Mul(f, uf), uuf, sums[k12]);
      sums[k22] = hn::MulAdd(hn::Mul(f, uuf), uuf, sums[k22]);
      sums[k02] = hn::MulAdd(ff, uuf, sums[k02]);
    }
  }

  /// The pairs of each row.
  void square_rows() {
    for (int row = 0; row < side_; ++row) {
      const float f = w_->y[0][row], vf = w_->y[1][row], vvf = w_->y[2][row];
      w_->yy[k00][row] = f * f;
      w_->yy[k01][row] = f * vf;
      w_->yy[k11][row] = vf * vf;
      w_->yy[k12][row] = vf * vvf;
      w_->yy[k22][row] = vvf * vvf;
      w_->yy[k02][row] = f * vvf;
    }
  }

  /// Calls action(pixels, model, map values, row) for each row of a vector of columns.
  template <bool kMapped, class Action>
  void for_column(int c, const V& scaled, float beta, const Action& action) const {
    for (int row = 0; row < side_; ++row) {
      const V g = hn::Load(d_, row_of(w_->pixels, row) + c);
      const V map = kMapped ? hn::Load(d_, row_of(w_->map, row) + c) : hn::Zero(d_);
      const V model = hn::MulAdd(scaled, hn::Set(d_, w_->y[0][row]), hn::Set(d_, beta));
      action(g, model, map, row);
    }
  }

  /// Column by column: first over its rows, then with the powers of u that belong to it.
  template <bool kMapped, class Term>
  WeightedMoments weigh(const Term& term, float alpha, float beta) const {
    const V zero = hn::Zero(d_);
    WeightedSums<V> sums;
    for_each_sum(sums, [&](V& sum) { sum = zero; });
    for (int c = 0; c < stride(); c += lanes()) {
      const auto inside = columns_below(c, side_);
      const V x = hn::Load(d_, w_->x[0] + c);
      const V scaled = hn::Mul(x, hn::Set(d_, alpha));
      V e_y[3] = {zero, zero, zero}, w_y[3] = {zero, zero, zero};
      V w_yy[kPairs] = {zero, zero, zero, zero, zero, zero};
      for_column<kMapped>(c, scaled, beta, [&](const V& g, const V& model, const V& map, int row) {
        const PixelTerm<Lanes<D>> of = term.of(g, model, map);
        const V weight = hn::IfThenElseZero(inside, of.weight.v);
        const V residual = hn::IfThenElseZero(inside, of.residual.v);
        sums.value = hn::Add(sums.value, hn::IfThenElseZero(inside, of.value.v));
        sums.e = hn::Add(sums.e, residual);
        sums.w = hn::Add(sums.w, weight);
        for (int k = 0; k < 3; ++k) {
          const V y = hn::Set(d_, w_->y[k][row]);
          e_y[k] = hn::MulAdd(residual, y, e_y[k]);
          w_y[k] = hn::MulAdd(weight, y, w_y[k]);
        }
        for (int k = 0; k < kPairs; ++k)
          w_yy[k] = hn::MulAdd(weight, hn::Set(d_, w_->yy[k][row]), w_yy[k]);
      });
      const V ux = hn::Load(d_, w_->x[1] + c);
      const V uux = hn::Load(d_, w_->x[2] + c);
      const V x_u[3] = {x, ux, uux};
      const V xx_u[kPairs] = {hn::Mul(x, x),    hn::Mul(x, ux),    hn::Mul(ux, ux),
                              hn::Mul(ux, uux), hn::Mul(uux, uux), hn::Mul(x, uux)};
      for (int a = 0; a < kPairs; ++a) {
        for (int b = 0; b < kPairs; ++b) {
          if (reads_pairs(a, b))
            sums.second[a][b] = hn::MulAdd(w_yy[b], xx_u[a], sums.second[a][b]);
          if (!reads_first(a, b)) continue;
          sums.ef[a][b] = hn::MulAdd(e_y[b], x_u[a], sums.ef[a][b]);
          sums.wf[a][b] = hn::MulAdd(w_y[b], x_u[a], sums.wf[a][b]);
        }
      }
    }
    V vectors[kWeightedSums];
    int k = 0;
    for_each_sum(sums, [&](const V& sum) { vectors[k++] = sum; });
    float t[kWeightedSums + kMaxLanes];
    totals_from<0>(t, vectors);
    WeightedMoments m;
    k = 0;
    for_each_sum(m, [&](float& sum) { sum = t[k++]; });
    return m;
  }

  V three_columns(const float* p) const {
    return hn::Add(hn::Add(hn::LoadU(d_, p), hn::LoadU(d_, p + 1)), hn::LoadU(d_, p + 2));
  }

  SmoothedExtremes smoothed(const float* image) const {
    const float infinity = std::numeric_limits<float>::infinity();
    const float row_weight = 2.0f * static_cast<float>(kMaxRoiPx);
    float best = -infinity, lowest = infinity, best_place = 0;
    for (int c = 0; c < side_ - 2; c += lanes()) {
      const auto inside = columns_below(c, side_ - 2);
      V above = three_columns(row_of(image, 0) + c);
      V here = three_columns(row_of(image, 1) + c);
      V high = hn::Set(d_, -infinity), low = hn::Set(d_, infinity), place = hn::Zero(d_);
      for (int row = 2; row < side_; ++row) {
        const V below = three_columns(row_of(image, row) + c);
        const V window = hn::Add(hn::Add(above, here), below);
        const auto higher = hn::Gt(window, high);
        high = hn::IfThenElse(higher, window, high);
        low = hn::Min(low, window);
        place =
            hn::IfThenElse(higher, hn::Set(d_, row_weight * static_cast<float>(row - 1)), place);
        above = here;
        here = below;
      }
      high = hn::IfThenElse(inside, high, hn::Set(d_, -infinity));
      low = hn::IfThenElse(inside, low, hn::Set(d_, infinity));
      place = hn::Add(place, hn::Iota(d_, static_cast<float>(c + 1)));
      const float highest_here = hn::GetLane(hn::MaxOfLanes(d_, high));
      lowest = HWY_MIN(lowest, hn::GetLane(hn::MinOfLanes(d_, low)));
      const auto at_highest = hn::Eq(high, hn::Set(d_, highest_here));
      const V places = hn::IfThenElse(at_highest, place, hn::Set(d_, infinity));
      const float first_place = hn::GetLane(hn::MinOfLanes(d_, places));
      if (highest_here > best || (highest_here == best && first_place < best_place)) {
        best = highest_here;
        best_place = first_place;
      }
    }
    const int place = static_cast<int>(best_place);
    const int weight = static_cast<int>(row_weight);
    const int row = place / weight;
    return {best / 9.0f, lowest / 9.0f, static_cast<float>(place - row * weight),
            static_cast<float>(row)};
  }

  Workspace* w_ = nullptr;
  int side_ = 0;
  bool integrated_ = false;
  int stride_ = 0;  ///< of a padded row
  PixelSummary summary_ = {};
  ProfileMoments moments_ = {};
  bool mapped_ = false;
  Estimator of_map_ = {};
};

/// ROI `index` of a job.
template <class Sums>
void load_roi(Sums& pixels, const FitJob& job, std::size_t index) {
  const void* roi = static_cast<const unsigned char*>(job.pixels) + index * job.stride_bytes;
  with_pixels(job.type, roi,
              [&](const auto* of_type) { pixels.load(of_type, job.options->saturation_adu); });
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "fitter/cpu/quotient_sums.hpp"
