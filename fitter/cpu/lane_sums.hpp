// SPDX-License-Identifier: MIT
// The CPU back end of pixel_sums.hpp, and of pixelwise.hpp, with a ROI in every lane: pixel i of
// all ROIs lies in one vector, so that no sum crosses lanes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "fitter/choice.hpp"
#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/lanes.hpp"
#include "fitter/cpu/workspace.hpp"
#include "fitter/left_out_pixels.hpp"
#include "fitter/pixel_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

/// @tparam Workspace  LaneWorkspaceOf some side
template <class Workspace>
class LaneSumsIn {
 public:
  using D = hn::CappedTag<float, kMaxLanes>;
  using Real = Lanes<D>;
  using Mask = Real::Mask;
  static constexpr int kLanes = Real::kCount;
  static constexpr bool kKeepsMoments = true;
  static constexpr bool kTakesMaps = true;

  LaneSumsIn(Workspace& workspace, int side, bool integrated)
      : w_(workspace), side_(side), integrated_(integrated) {}

  int side() const { return side_; }
  bool integrated() const { return integrated_; }
  const PixelSummaryOf<Real>& summary() const { return summary_; }

  /// @param rois  of each lane
  template <class T>
  void load(const T* const (&rois)[kLanes], float saturation) {
    const int count = side_ * side_;
    const float infinity = std::numeric_limits<float>::infinity();
    Real sum = 0.0f, lowest = infinity, highest = -infinity;
    for (int i = 0; i < count; i += kQuad) {
      // The last four overlap those before them: the extremes do not mind, and the pedestal need
      // not be the exact mean.
      const int from = i + kQuad <= count ? i : count - kQuad;
      Real pixel[kQuad];
      load_quad(rois, from, pixel);
      for (int k = 0; k < kQuad; ++k) {
        at(w_.pixels, from + k, pixel[k]);
        sum += pixel[k];
        lowest = hn::Min(lowest.v, pixel[k].v);
        highest = hn::Max(highest.v, pixel[k].v);
      }
    }
    const int summed = (count + kQuad - 1) / kQuad * kQuad;
    Real pedestal = sum / static_cast<float>(summed);
    if constexpr (std::numeric_limits<T>::is_integer) pedestal = hn::Round(pedestal.v);
    summary_.pedestal_adu = pedestal;
    Real less = 0.0f, squares = 0.0f;
    for (int row = 0; row < side_; ++row) {
      Real less_here = 0.0f, squares_here = 0.0f;  // in parts, which rounds less
      for (int c = 0; c < side_; ++c) {
        const Real g = pixel(row, c) - pedestal;
        at(w_.pixels, row * side_ + c, g);
        less_here += g;
        squares_here = multiply_add(g, g, squares_here);
      }
      less += less_here;
      squares += squares_here;
    }
    summary_.sum = less;
    summary_.sum_squares = squares;
    summary_.usable =
        squares <= std::numeric_limits<float>::max() && lowest < highest && highest < saturation;
  }

  /// One map value for each pixel; a variance that is none makes a ROI unusable.
  /// @pre the pixels are loaded
  void load_map(const float* const (&variances)[kLanes], const FitOptions& options) {
    const Estimator estimator = options.estimator;
    const float gain = gain_of(options), least = least_variance(estimator);
    Mask valid(true);
    const int count = side_ * side_;
    for (int i = 0; i < count; i += kQuad) {
      const int from = i + kQuad <= count ? i : count - kQuad;
      Real variance[kQuad];
      load_quad(variances, from, variance);
      for (int k = 0; k < kQuad; ++k) {
        valid = valid && variance[k] >= least;  // false for NaN
        at(w_.map, from + k, variance[k]);
      }
    }
    summary_.usable = summary_.usable && valid;
    mapped_ = knows_its_variances(estimator);
    of_map_ = estimator;
    const bool search = mapped_ && !all(none_to_leave_out());
    const Real most = search ? leave_out_pixels(options) : Real(kInfinity);
    for (int i = 0; i < count; ++i) {
      const Real variance = Real::load(w_.map + kStep * i);
      at(w_.map, i, map_value(estimator, gain, where(variance <= most, variance, Real(kInfinity))));
    }
  }

  SmoothedExtremesOf<Real> smoothed_pixels() {
    return smoothed<true>([&](int row, int c) { return pixel(row, c); });
  }

  SmoothedExtremesOf<Real> smoothed_residuals(const Real& alpha, const Real& beta) {
    const bool mapped = mapped_;
    Real scaled = 0.0f;
    int of_row = -1;
    return smoothed<false>([&](int row, int c) {
      if (row != of_row) scaled = alpha * y(0, row);
      of_row = row;
      const Real r = residual(row, c, scaled, beta);
      return mapped ? where(is_there(of_map_, map(row, c)), r, Real(0.0f)) : r;
    });
  }

  /// What pixelwise.hpp asks for.
  template <class Action>
  void for_each_pixel(const PixelNoiseOf<Real>&, const Action& action) const {
    for (int row = 0; row < side_; ++row)
      for (int c = 0; c < side_; ++c)
        action(Real(static_cast<float>(c)), Real(static_cast<float>(row)), pixel(row, c),
               mapped_ ? map(row, c) : Real(0.0f));
  }
  template <std::size_t n>
  static void combine(Real (&)[n]) {}
  static bool any_of(const Mask& mask) { return any(mask); }
  /// 0 of pixels that are gone.
  template <class Image>
  SmoothedExtremesOf<Real> smoothed_image(const Image& image) {
    return smoothed<false>([&](int row, int c) {
      const Real value = image(row, c, pixel(row, c));
      return mapped_ ? where(is_there(of_map_, map(row, c)), value, Real(0.0f)) : value;
    });
  }

  Real count_above(const Real& level) const {
    Real count = 0.0f;
    for (int i = 0; i < side_ * side_; ++i)
      count += where(Real::load(w_.pixels + kStep * i) > level, Real(1.0f), Real(0.0f));
    return count;
  }

  const ProfileMomentsOf<Real>& moments() const { return moments_; }
  const ProfileMomentsOf<Real>& set_profile(const ProfileOf<Real>& p, bool moments) {
    ProfileMomentsOf<Real> m = integrated_ ? set_axes<true>(p) : set_axes<false>(p);
    if (!moments) return moments_;
    int row = 0;
    for (; row + 1 < side_; row += 2) {
      Real first = 0.0f, second = 0.0f;
      for (int c = 0; c < side_; ++c) {
        const Real f = x(0, c);
        first = multiply_add(pixel(row, c), f, first);
        second = multiply_add(pixel(row + 1, c), f, second);
      }
      m.profile_pixels = multiply_add(first, y(0, row), m.profile_pixels);
      m.profile_pixels = multiply_add(second, y(0, row + 1), m.profile_pixels);
    }
    if (row < side_) {
      Real last = 0.0f;
      for (int c = 0; c < side_; ++c) last = multiply_add(pixel(row, c), x(0, c), last);
      m.profile_pixels = multiply_add(last, y(0, row), m.profile_pixels);
    }
    moments_ = m;
    return moments_;
  }

  ResidualMomentsOf<Real> residuals(const Real& alpha, const Real& beta) const {
    ResidualTotalsOf<Real> none;
    return residuals<false>(alpha, beta, none);
  }
  ResidualMomentsOf<Real> residuals(const Real& alpha, const Real& beta,
                                    ResidualTotalsOf<Real>& total) const {
    return residuals<true>(alpha, beta, total);
  }

  CubicMomentsOf<Real> cubic_moments() const {
    CubicMomentsOf<Real> m;
    for (int k = 0; k < kPairs; ++k) m.x[k] = m.y[k] = 0.0f;
    for (int i = 0; i < side_; ++i) {
      add_cubic(x(0, i), x(1, i), x(2, i), m.x);
      add_cubic(y(0, i), y(1, i), y(2, i), m.y);
    }
    return m;
  }

  WeightedSums<Real> weighted_moments(const PixelNoiseOf<Real>& noise, const Real& alpha,
                                      const Real& beta) {
    return with_weights<Real>(noise, [&](const auto& estimator, auto mapped) {
      return weigh<mapped()>(estimator, alpha, beta);
    });
  }

  WeightedSums<Real> plain_moments(const PixelNoiseOf<Real>& noise, const Real& alpha,
                                   const Real& beta) const {
    return weigh<true>(PlainSquares<Real>(noise), alpha, beta);
  }

  VarianceSumsOf<Real> variance_sums(const Real& alpha, const Real& beta) const {
    Real w = 0.0f, wf = 0.0f, wff = 0.0f, wfff = 0.0f, squares = 0.0f, squares_f = 0.0f;
    for (int row = 0; row < side_; ++row) {
      const Real of_row = y(0, row);
      const Real scaled = alpha * of_row;
      for (int c = 0; c < side_; ++c) {
        const Real f = x(0, c) * of_row;
        const Real r = residual(row, c, scaled, beta);
        const Real root = kVarianceRatio * Real(hn::ApproximateReciprocal((f + kVarianceRatio).v));
        const Real weight = root * root;
        const Real weight_f = weight * f;
        const Real weight_ff = weight_f * f;
        const Real rr = r * r;
        w += weight;
        wf += weight_f;
        wff += weight_ff;
        wfff = multiply_add(weight_ff, f, wfff);
        squares = multiply_add(weight, rr, squares);
        squares_f = multiply_add(weight_f, rr, squares_f);
      }
    }
    return {{w, wf, wff, wfff}, {squares, squares_f}};
  }

 private:
  static constexpr std::ptrdiff_t kStep = kLanes;  ///< from one vector to the next
  static constexpr int kQuad = 4;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr int kBlocks = kLanes / kQuad;  ///< of four lanes

  static void at(float* image, int i, const Real& value) { value.store(image + kStep * i); }
  Real pixel(int row, int c) const { return Real::load(w_.pixels + kStep * (row * side_ + c)); }
  Real map(int row, int c) const { return Real::load(w_.map + kStep * (row * side_ + c)); }
  Real x(int power, int c) const { return Real::load(w_.x[power] + kStep * c); }
  Real y(int power, int row) const { return Real::load(w_.y[power] + kStep * row); }
  /// @param scaled  alpha Y of the row
  Real residual(int row, int c, const Real& scaled, const Real& beta) const {
    return hn::NegMulAdd(x(0, c).v, scaled.v, (pixel(row, c) - beta).v);
  }

  /// Four neighbours of four ROIs each, as they lie in memory: block b of the vector those of ROI
  /// 4 b + r.
  template <class T>
  static Real load_blocks(const T* const (&rois)[kLanes], int r, int from) {
    alignas(64) T together[kLanes];
    for (int b = 0; b < kBlocks; ++b)
      std::memcpy(together + kQuad * b, rois[kQuad * b + r] + from, kQuad * sizeof(T));
    if constexpr (sizeof(T) == sizeof(float)) {
      return hn::Load(D(), together);
    } else {
      const hn::Rebind<T, D> narrow;
      const hn::Rebind<std::int32_t, D> wide;
      return hn::ConvertTo(D(), hn::PromoteTo(wide, hn::Load(narrow, together)));
    }
  }

  /// Pixels from .. from + 3 of all ROIs: a transposition within each block.
  template <class T>
  static void load_quad(const T* const (&rois)[kLanes], int from, Real (&pixel)[kQuad]) {
    const hn::Repartition<double, D> pairs;
    const auto a = load_blocks(rois, 0, from).v, b = load_blocks(rois, 1, from).v;
    const auto c = load_blocks(rois, 2, from).v, e = load_blocks(rois, 3, from).v;
    const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(D(), a, b));
    const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(D(), a, b));
    const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(D(), c, e));
    const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(D(), c, e));
    pixel[0] = hn::BitCast(D(), hn::InterleaveLower(pairs, ab_low, ce_low));
    pixel[1] = hn::BitCast(D(), hn::InterleaveUpper(pairs, ab_low, ce_low));
    pixel[2] = hn::BitCast(D(), hn::InterleaveLower(pairs, ab_high, ce_high));
    pixel[3] = hn::BitCast(D(), hn::InterleaveUpper(pairs, ab_high, ce_high));
  }

  using AxisMemory = float (&)[3][Workspace::kAxis];
  template <bool kIntegrated>
  AxisMomentsOf<Real> set_axis(const Real& centre, const Real& sigma, AxisMemory axis) const {
    // exp(-28) is far below single precision of the peak, and its cube is still a normal number.
    constexpr float kLog2E = 1.44269504f;
    const Real smallest = -28.0f * kLog2E;
    const Real factor = (-0.5f * kLog2E) / (sigma * sigma);
    // Single values: the compiler would keep an array in memory.
    Real sum = 0.0f, sum_u = 0.0f, sum_uu = 0.0f;
    Real s00 = 0.0f, s01 = 0.0f, s11 = 0.0f, s12 = 0.0f, s22 = 0.0f, s02 = 0.0f;
    const auto gaussian = [&](const Real& at) {
      return exp2_of(Real(hn::Max((at * at * factor).v, smallest.v)));
    };
    const int side = side_;
    for (int i = 0; i < side; ++i) {
      const Real u = static_cast<float>(i) - centre;
      const auto [f, uf, uuf] = axis_element<kIntegrated>(u, gaussian);
      at(axis[0], i, f);
      at(axis[1], i, uf);
      at(axis[2], i, uuf);
      sum += f;
      sum_u += uf;
      sum_uu += uuf;
      s00 = multiply_add(f, f, s00);
      s01 = multiply_add(f, uf, s01);
      s11 = multiply_add(uf, uf, s11);
      s12 = multiply_add(uf, uuf, s12);
      s22 = multiply_add(uuf, uuf, s22);
      if constexpr (kIntegrated) s02 = multiply_add(f, uuf, s02);
    }
    return {{sum, sum_u, sum_uu}, {s00, s01, s11, s12, s22, kIntegrated ? s02 : s11}};
  }

  template <bool kIntegrated>
  ProfileMomentsOf<Real> set_axes(const ProfileOf<Real>& p) const {
    return {set_axis<kIntegrated>(p.x_px, p.sigma_x_px, w_.x),
            set_axis<kIntegrated>(p.y_px, p.sigma_y_px, w_.y), 0.0f};
  }

  static void add_cubic(const Real& f, const Real& uf, const Real& uuf, Real (&sums)[kPairs]) {
    const Real ff = f * f;
    sums[k00] = multiply_add(ff, f, sums[k00]);
    sums[k01] = multiply_add(ff, uf, sums[k01]);
    sums[k11] = multiply_add(f * uf, uf, sums[k11]);
    sums[k12] = multiply_add(f * uf, uuf, sums[k12]);
    sums[k22] = multiply_add(f * uuf, uuf, sums[k22]);
    sums[k02] = multiply_add(ff, uuf, sums[k02]);
  }

  /// By the map of variances.
  Mask none_to_leave_out() const {
    Real largest[kNoisiest] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = 0; row < side_; ++row) {
      for (int c = 0; c < side_; ++c) {
        Real& of_class = largest[class_of(row, c)];
        of_class = larger(of_class, map(row, c));
      }
    }
    return fitter::none_to_leave_out(largest);
  }

  /// Of the map of variances. @return the largest that is not left out
  Real leave_out_pixels(const FitOptions& options) {
    const int count = side_ * side_;
    const auto sum_of = [&](const auto& of) {
      Real sum = 0.0f;
      for (int i = 0; i < count; ++i)
        sum += of(Real::load(w_.pixels + kStep * i), Real::load(w_.map + kStep * i));
      return sum;
    };
    const auto largest_of = [&](const auto& of) {
      Real largest = 0.0f;
      for (int i = 0; i < count; ++i)
        largest =
            larger(largest, of(Real::load(w_.pixels + kStep * i), Real::load(w_.map + kStep * i)));
      return largest;
    };
    const auto change = [&](const auto& of) {
      for (int i = 0; i < count; ++i)
        at(w_.pixels, i, of(Real::load(w_.pixels + kStep * i), Real::load(w_.map + kStep * i)));
    };
    const Real most = most_variance(summary_, options, sum_of, largest_of);
    leave_out(most, static_cast<float>(count), sum_of, change, summary_);
    return most;
  }

  /// Sums of a row of residuals, by the column's powers.
  struct RowSums {
    Real squares = 0.0f, sum = 0.0f, by_x = 0.0f, by_ux = 0.0f, by_uux = 0.0f;
  };

  template <int kRows, bool kTotals>
  void add_rows(int row, const Real& alpha, const Real& beta, ResidualMomentsOf<Real>& m,
                ResidualTotalsOf<Real>& total) const {
    RowSums s[std::size_t{kRows}];
    Real scaled[std::size_t{kRows}];
    for (int k = 0; k < kRows; ++k) scaled[k] = alpha * y(0, row + k);
    for (int c = 0; c < side_; ++c) {
      const Real f = x(0, c), uf = x(1, c), uuf = x(2, c);
      for (int k = 0; k < kRows; ++k) {
        const Real r = hn::NegMulAdd(f.v, scaled[k].v, (pixel(row + k, c) - beta).v);
        s[k].squares = multiply_add(r, r, s[k].squares);
        if constexpr (kTotals) s[k].sum += r;
        s[k].by_x = multiply_add(r, f, s[k].by_x);
        s[k].by_ux = multiply_add(r, uf, s[k].by_ux);
        s[k].by_uux = multiply_add(r, uuf, s[k].by_uux);
      }
    }
    for (int k = 0; k < kRows; ++k) {
      const Real of_row = y(0, row + k);
      m.squares += s[k].squares;  // in parts, which rounds less
      m.u = multiply_add(s[k].by_ux, of_row, m.u);
      m.v = multiply_add(s[k].by_x, y(1, row + k), m.v);
      m.uu = multiply_add(s[k].by_uux, of_row, m.uu);
      m.vv = multiply_add(s[k].by_x, y(2, row + k), m.vv);
      if constexpr (kTotals) {
        total.sum += s[k].sum;
        total.f = multiply_add(s[k].by_x, of_row, total.f);
      }
    }
  }

  template <bool kTotals>
  ResidualMomentsOf<Real> residuals(const Real& alpha, const Real& beta,
                                    ResidualTotalsOf<Real>& total) const {
    ResidualMomentsOf<Real> m = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    total = {0.0f, 0.0f};
    int row = 0;
    for (; row + 1 < side_; row += 2) add_rows<2, kTotals>(row, alpha, beta, m, total);
    if (row < side_) add_rows<1, kTotals>(row, alpha, beta, m, total);
    return m;
  }

  /// Row by row: first over its columns, then with the powers of v that belong to it.
  template <bool kMapped, class Term>
  WeightedSums<Real> weigh(const Term& term, const Real& alpha, const Real& beta) const {
    WeightedSums<Real> sums;
    for_each_sum(sums, [](Real& sum) { sum = 0.0f; });
    for (int row = 0; row < side_; ++row) {
      const Real of_row = y(0, row);
      const Real scaled = alpha * of_row;
      Real e_x[3] = {0.0f, 0.0f, 0.0f}, w_x[3] = {0.0f, 0.0f, 0.0f};
      Real w_xx[kPairs] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      Real value = 0.0f, e = 0.0f, w = 0.0f;
      for (int c = 0; c < side_; ++c) {
        const Real of_map = kMapped ? map(row, c) : Real(0.0f);
        const Real f = x(0, c), uf = x(1, c), uuf = x(2, c);
        const PixelTerm<Real> of = term.of(pixel(row, c), multiply_add(scaled, f, beta), of_map);
        value += of.value;
        e += of.residual;
        w += of.weight;
        e_x[0] = multiply_add(of.residual, f, e_x[0]);
        e_x[1] = multiply_add(of.residual, uf, e_x[1]);
        e_x[2] = multiply_add(of.residual, uuf, e_x[2]);
        const Real wf = of.weight * f, wuf = of.weight * uf, wuuf = of.weight * uuf;
        w_x[0] += wf;
        w_x[1] += wuf;
        w_x[2] += wuuf;
        w_xx[k00] = multiply_add(wf, f, w_xx[k00]);
        w_xx[k01] = multiply_add(wf, uf, w_xx[k01]);
        w_xx[k11] = multiply_add(wuf, uf, w_xx[k11]);
        w_xx[k12] = multiply_add(wuf, uuf, w_xx[k12]);
        w_xx[k22] = multiply_add(wuuf, uuf, w_xx[k22]);
        w_xx[k02] = multiply_add(wf, uuf, w_xx[k02]);
      }
      sums.value += value;
      sums.e += e;
      sums.w += w;
      const Real y_v[3] = {of_row, y(1, row), y(2, row)};
      const Real yy_v[kPairs] = {y_v[0] * y_v[0], y_v[0] * y_v[1], y_v[1] * y_v[1],
                                 y_v[1] * y_v[2], y_v[2] * y_v[2], y_v[0] * y_v[2]};
      for (int a = 0; a < kPairs; ++a) {
        for (int b = 0; b < kPairs; ++b) {
          if (reads_pairs(a, b))
            sums.second[a][b] = multiply_add(w_xx[a], yy_v[b], sums.second[a][b]);
          if (!reads_first(a, b)) continue;
          sums.ef[a][b] = multiply_add(e_x[a], y_v[b], sums.ef[a][b]);
          sums.wf[a][b] = multiply_add(w_x[a], y_v[b], sums.wf[a][b]);
        }
      }
    }
    return sums;
  }

  /// @tparam kPlaces  whether the place of the highest is wanted
  /// @param image     of (row, column), asked row by row
  template <bool kPlaces, class Image>
  SmoothedExtremesOf<Real> smoothed(const Image& image) {
    const float infinity = std::numeric_limits<float>::infinity();
    SmoothedExtremesOf<Real> e = {-infinity, infinity, 0.0f, 0.0f};
    for (int row = 0; row < side_; ++row) {
      float* const here = w_.rows[row % 3];
      Real left = image(row, 0), middle = image(row, 1);
      for (int c = 1; c + 1 < side_; ++c) {
        const Real right = image(row, c + 1);
        const Real three = left + middle + right;
        left = middle;
        middle = right;
        if (row >= 2) {
          const Real window = Real::load(w_.rows[(row + 1) % 3] + kStep * c) +
                              Real::load(w_.rows[(row + 2) % 3] + kStep * c) + three;
          if constexpr (kPlaces) {
            const Mask higher = window > e.highest;
            e.x_px = where(higher, Real(static_cast<float>(c)), e.x_px);
            e.y_px = where(higher, Real(static_cast<float>(row - 1)), e.y_px);
          }
          e.highest = hn::Max(window.v, e.highest.v);
          e.lowest = hn::Min(window.v, e.lowest.v);
        }
        at(here, c, three);
      }
    }
    e.highest *= 1.0f / 9.0f;
    e.lowest *= 1.0f / 9.0f;
    return e;
  }

  Workspace& w_;
  int side_;
  bool integrated_;
  PixelSummaryOf<Real> summary_;
  ProfileMomentsOf<Real> moments_ = {};
  bool mapped_ = false;
  Estimator of_map_ = {};
};
using LaneSums = LaneSumsIn<LaneWorkspace>;

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
