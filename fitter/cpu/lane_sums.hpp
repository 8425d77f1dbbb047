// SPDX-License-Identifier: MIT
// The CPU back end of pixel_sums.hpp, and of pixelwise.hpp, with a ROI in every lane: pixel i of
// all ROIs lies in one vector, so that no sum crosses lanes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/lane_pair.hpp"
#include "fitter/cpu/lanes.hpp"
#include "fitter/cpu/workspace.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/left_out_pixels.hpp"
#include "fitter/pixel_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

/// @tparam Workspace    LaneWorkspaceOf some side
/// @tparam kTwoAbreast  whether long chains of operations have another to overlap with
template <class Workspace, bool kTwoAbreast = kManyRegisters>
class LaneSumsIn {
 public:
  using D = hn::CappedTag<float, kMaxLanes>;
  using Real = Lanes<D>;
  using Abreast = std::conditional_t<kTwoAbreast, PairOf<Real>, Real>;
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
    has_windows_ = mapped_ = placed_ = false;
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
    has_windows_ = false;
    const Real most = search ? leave_out_pixels(options) : Real(kInfinity);
    for (int i = 0; i < count; ++i) {
      const Real variance = Real::load(w_.map + kStep * i);
      at(w_.map, i, map_value(estimator, gain, where(variance <= most, variance, Real(kInfinity))));
    }
  }

  /// Loads where each pixel lies on a line, instead of its row and column.
  void load_places(const float* const (&places)[kLanes]) {
    for (int i = 0; i < side_ * side_; ++i) {
      alignas(64) float of[kLanes];
      for (int k = 0; k < kLanes; ++k) of[k] = places[k][i];
      at(w_.places, i, Real::load(of));
    }
    placed_ = true;
  }

  SmoothedExtremesOf<Real> smoothed_pixels() {
    set_windows();
    SmoothedExtremesOf<Real> e = {-kInfinity, kInfinity, 0.0f, 0.0f};
    for (int row = 0; row + 2 < side_; ++row) {
      for (int c = 0; c + 2 < side_; ++c) {
        const Real sum = window(row, c);
        const Mask higher = sum > e.highest;
        e.x_px = where(higher, Real(static_cast<float>(c + 1)), e.x_px);
        e.y_px = where(higher, Real(static_cast<float>(row + 1)), e.y_px);
        add_to(e, sum);
      }
    }
    return as_means(e);
  }

  Real smoothed_pixel(const Real& x_px, const Real& y_px) const {
    const hn::RebindToSigned<D> whole;
    const Real window = (y_px - 1.0f) * static_cast<float>(side_) + (x_px - 1.0f);
    const auto place =
        hn::Add(hn::ConvertTo(whole, (window * static_cast<float>(kLanes)).v), hn::Iota(whole, 0));
    return (1.0f / 9.0f) * Real(hn::GatherIndex(D(), w_.windows, place));
  }

  SmoothedExtremesOf<Real> smoothed_residuals(const Real& alpha, const Real& beta) {
    if (mapped_) {
      return smoothed_image([&](int row, int c, const Real& pixel) {
        return multiply_add(-x(0, c), alpha * y(0, row), pixel - beta);
      });
    }
    set_windows();
    SmoothedExtremesOf<Real> e = {-kInfinity, kInfinity, 0.0f, 0.0f};
    for (int row = 0; row + 2 < side_; ++row) {
      const Real scaled = -alpha * (y(0, row) + y(0, row + 1) + y(0, row + 2));
      Real left = x(0, 0), middle = x(0, 1);
      for (int c = 0; c + 2 < side_; ++c) {
        const Real right = x(0, c + 2);
        add_to(e, multiply_add(left + middle + right, scaled, window(row, c)));
        left = middle;
        middle = right;
      }
    }
    e.highest -= 9.0f * beta;
    e.lowest -= 9.0f * beta;
    return as_means(e);
  }

  /// What pixelwise.hpp asks for.
  template <class Action>
  void for_each_pixel(const PixelNoiseOf<Real>&, const Action& action) const {
    for (int row = 0; row < side_; ++row)
      for (int c = 0; c < side_; ++c)
        action(placed_ ? place(row, c) : Real(static_cast<float>(c)),
               Real(placed_ ? 0.0f : static_cast<float>(row)), pixel(row, c),
               mapped_ ? map(row, c) : Real(0.0f));
  }
  template <std::size_t n>
  static void combine(Real (&)[n]) {}
  static bool any_of(const Mask& mask) { return any(mask); }
  /// 0 of pixels that are gone.
  template <class Image>
  SmoothedExtremesOf<Real> smoothed_image(const Image& image) {
    SmoothedExtremesOf<Real> e = {-kInfinity, kInfinity, 0.0f, 0.0f};
    for_each_window(
        [&](int row, int c) {
          const Real value = image(row, c, pixel(row, c));
          return mapped_ ? where(is_there(of_map_, map(row, c)), value, Real(0.0f)) : value;
        },
        [&](int, int, const Real& sum) { add_to(e, sum); });
    return as_means(e);
  }

  Real count_above(const Real& level) const {
    Real count = 0.0f;
    for (int row = 0; row < side_; ++row) {
      Real of_row = 0.0f;
      for (int c = 0; c < side_; ++c)
        of_row += where(pixel(row, c) > level, Real(1.0f), Real(0.0f));
      count += of_row;
    }
    return count;
  }

  const ProfileMomentsOf<Real>& moments() const { return moments_; }
  const ProfileMomentsOf<Real>& set_profile(const ProfileOf<Real>& p, bool moments) {
    integrated_ ? set_axes<true>(p) : set_axes<false>(p);
    if (!moments) return moments_;
    Real f = 0.0f, u = 0.0f, v = 0.0f, uu = 0.0f, vv = 0.0f;
    for_rows([&](int row, auto together) {
      Real by_x[together()], by_ux[together()], by_uux[together()];
      for (int k = 0; k < together(); ++k) by_x[k] = by_ux[k] = by_uux[k] = 0.0f;
      for (int c = 0; c < side_; ++c) {
        for (int k = 0; k < together(); ++k) {
          const Real g = pixel(row + k, c);
          by_x[k] = multiply_add(g, x(0, c), by_x[k]);
          by_ux[k] = multiply_add(g, x(1, c), by_ux[k]);
          by_uux[k] = multiply_add(g, x(2, c), by_uux[k]);
        }
      }
      for (int k = 0; k < together(); ++k) {
        const Real of_row = y(0, row + k);
        f = multiply_add(by_x[k], of_row, f);
        u = multiply_add(by_ux[k], of_row, u);
        v = multiply_add(by_x[k], y(1, row + k), v);
        uu = multiply_add(by_uux[k], of_row, uu);
        vv = multiply_add(by_x[k], y(2, row + k), vv);
      }
    });
    moments_.pixels = {f, u, v, uu, vv};
    return moments_;
  }

  Real squares(const Real& alpha, const Real& beta) const {
    Real squares = 0.0f;
    for_rows([&](int row, auto together) {
      Real scaled[together()], of_row[together()];
      for (int k = 0; k < together(); ++k) {
        scaled[k] = alpha * y(0, row + k);
        of_row[k] = 0.0f;
      }
      for (int c = 0; c < side_; ++c) {
        for (int k = 0; k < together(); ++k) {
          const Real r = residual(row + k, c, scaled[k], beta);
          of_row[k] = multiply_add(r, r, of_row[k]);
        }
      }
      for (int k = 0; k < together(); ++k) squares += of_row[k];  // in parts, which rounds less
    });
    return squares;
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
    return with_weights<Abreast>(noise, [&](const auto& estimator, auto mapped) {
      return weigh<mapped()>(estimator, alpha, beta);
    });
  }

  WeightedSums<Real> plain_moments(const PixelNoiseOf<Real>& noise, const Real& alpha,
                                   const Real& beta) const {
    return weigh<true>(PlainSquares<Abreast>(noise), alpha, beta);
  }

  Real values(const PixelNoiseOf<Real>& noise, const Real& alpha, const Real& beta) const {
    return with_weights<Abreast>(noise, [&](const auto& estimator, auto mapped) {
      Real sum = 0.0f;
      for (int row = 0; row < side_; ++row) {
        Real of_row = 0.0f;
        for_row<mapped()>(
            row, alpha * y(0, row), beta,
            [&](const Abreast& g, const Abreast& model, const Abreast& of_map) {
              return value_apart(estimator, g, model, of_map);
            },
            [&](const Abreast& value, auto which, int /*c*/) { of_row += part<which()>(value); });
        sum += of_row;
      }
      return sum;
    });
  }

  QuotientSumsOf<Real> quotient_sums(const Real& alpha, const Real& beta) const {
    Real q = 0.0f, qq = 0.0f, q_rr = 0.0f, qq_rr = 0.0f;
    for (int row = 0; row < side_; ++row) {
      const Real of_row = y(0, row);
      const Real scaled = alpha * of_row;
      for (int c = 0; c < side_; ++c) {
        const Real r = residual(row, c, scaled, beta);
        const Real f = x(0, c) * of_row;
        const Real here = f * reciprocal_of(f + kVarianceRatio);
        const Real qr = here * r;
        q += here;
        qq = multiply_add(here, here, qq);
        q_rr = multiply_add(qr, r, q_rr);
        qq_rr = multiply_add(qr, qr, qq_rr);
      }
    }
    return {q, qq, q_rr, qq_rr};
  }

 private:
  static constexpr std::ptrdiff_t kStep = kLanes;  ///< from one vector to the next
  static constexpr int kQuad = 4;
  static constexpr int kRowsTogether = 2;
  static constexpr int kAbreast = kTwoAbreast ? 2 : 1;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static constexpr int kBlocks = kLanes / kQuad;  ///< of four lanes

  /// Some rows at a time, which have independent sums. The action gets the first and how many.
  template <class Action>
  void for_rows(const Action& action) const {
    constexpr std::integral_constant<int, kRowsTogether> kTogether;
    constexpr std::integral_constant<int, 1> kOne;
    int row = 0;
    for (; row + kRowsTogether <= side_; row += kRowsTogether) action(row, kTogether);
    for (; row < side_; ++row) action(row, kOne);
  }

  static void at(float* image, int i, const Real& value) { value.store(image + kStep * i); }
  Real pixel(int row, int c) const { return Real::load(w_.pixels + kStep * (row * side_ + c)); }
  Real map(int row, int c) const { return Real::load(w_.map + kStep * (row * side_ + c)); }
  Real place(int row, int c) const { return Real::load(w_.places + kStep * (row * side_ + c)); }
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

  /// Both axes, one after the other or abreast.
  template <bool kIntegrated>
  void set_axes(const ProfileOf<Real>& p) {
    for (int first = 0; first < 2; first += kAbreast) set_axes<kIntegrated>(p, first);
  }
  /// Not inlined: the compiler then keeps its constants in registers.
  /// @param first  0: x, 1: y
  template <bool kIntegrated>
  HWY_NOINLINE void set_axes(const ProfileOf<Real>& p, int first) {
    // exp(-28) is far below single precision of the peak, and its cube is still a normal number.
    constexpr float kLog2E = 1.44269504f;
    constexpr float kSmallest = -28.0f * kLog2E;
    const auto of_axes = [&](const Real& x, const Real& y) {
      return joined<Abreast>(first == 0 ? x : y, y);
    };
    const Abreast centre = of_axes(p.x_px, p.y_px), sigma = of_axes(p.sigma_x_px, p.sigma_y_px);
    const Abreast factor = Abreast(-0.5f * kLog2E) * reciprocal_of(sigma * sigma);
    auto& memory = first == 0 ? w_.x : w_.y;
    // Single values: the compiler would keep an array in memory.
    Abreast sum = 0.0f, sum_u = 0.0f, sum_uu = 0.0f;
    Abreast s00 = 0.0f, s01 = 0.0f, s11 = 0.0f, s12 = 0.0f, s22 = 0.0f, s02 = 0.0f;
    const auto gaussian = [&](const Abreast& at) {
      return exp2_of(largest_of(at * at * factor, Abreast(kSmallest)));
    };
    const auto set = [&](int power, int i, const Abreast& value) {
      at(memory[power], i, part<0>(value));
      if constexpr (kAbreast > 1) at(w_.y[power], i, part<1>(value));
    };
    Real place = 0.0f;
    for (int i = 0, side = side_; i < side; ++i, place += 1.0f) {
      const auto [f, uf, uuf] = axis_element<kIntegrated>(Abreast(place) - centre, gaussian);
      set(0, i, f);
      set(1, i, uf);
      set(2, i, uuf);
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
    if constexpr (!kIntegrated) s02 = s11;
    const auto moments = [&]<int k>(AxisMomentsOf<Real>& of, std::integral_constant<int, k>) {
      of = {{part<k>(sum), part<k>(sum_u), part<k>(sum_uu)},
            {part<k>(s00), part<k>(s01), part<k>(s11), part<k>(s12), part<k>(s22), part<k>(s02)}};
    };
    moments(first == 0 ? moments_.x : moments_.y, std::integral_constant<int, 0>());
    if constexpr (kAbreast > 1) moments(moments_.y, std::integral_constant<int, 1>());
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

  /// Leaves out pixels by the map of variances. @return the largest variance that stays
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
    return leave_out(summary_, static_cast<float>(count), options, sum_of, largest_of, change);
  }

  /// The terms of a row's pixels, as many columns at a time as are abreast.
  /// @param term    from pixels, the model's and the map's values
  /// @param action  takes a term, which of those abreast is meant (a constant), and its column
  template <bool kMapped, class Term, class Action>
  void for_row(int row, const Real& scaled, const Real& beta, const Term& term,
               const Action& action) const {
    for (int c = 0; c < side_; c += kAbreast) {
      const int last = c + kAbreast <= side_ ? c + kAbreast - 1 : c;
      const auto here = [&](const auto& of) { return joined<Abreast>(of(c), of(last)); };
      const Abreast g = here([&](int i) { return pixel(row, i); });
      const Abreast model = here([&](int i) { return multiply_add(scaled, x(0, i), beta); });
      const Abreast of_map = kMapped ? here([&](int i) { return map(row, i); }) : Abreast(0.0f);
      const auto terms = term(g, model, of_map);
      action(terms, std::integral_constant<int, 0>(), c);
      if constexpr (kAbreast > 1)
        if (last > c) action(terms, std::integral_constant<int, 1>(), last);
    }
  }

  /// Row by row: first over its columns, then with the powers of v that belong to it.
  template <bool kMapped, class Term>
  WeightedSums<Real> weigh(const Term& term, const Real& alpha, const Real& beta) const {
    WeightedSums<Real> sums;
    for_each_sum(sums, [](Real& sum) { sum = 0.0f; });
    for (int c = 0; c < side_; ++c) {
      const Real f = x(0, c), uf = x(1, c), uuf = x(2, c);
      const Real pairs[kPairs] = {f * f, f * uf, uf * uf, uf * uuf, uuf * uuf, f * uuf};
      for (int k = 0; k < kPairs; ++k) at(w_.xx[k], c, pairs[k]);
    }
    for (int row = 0; row < side_; ++row) {
      const Real of_row = y(0, row);
      const Real scaled = alpha * of_row;
      Real e_x[3] = {0.0f, 0.0f, 0.0f}, w_x[3] = {0.0f, 0.0f, 0.0f};
      Real w_xx[kPairs] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      Real value = 0.0f, e = 0.0f, w = 0.0f;
      const auto add = [&](const PixelTerm<Abreast>& of, auto which, int c) {
        const Real &residual = part<which()>(of.residual), &weight = part<which()>(of.weight);
        value += part<which()>(of.value);
        e += residual;
        w += weight;
        for (int k = 0; k < 3; ++k) {
          const Real f = x(k, c);
          e_x[k] = multiply_add(residual, f, e_x[k]);
          w_x[k] = multiply_add(weight, f, w_x[k]);
        }
        for (int k = 0; k < kPairs; ++k)
          w_xx[k] = multiply_add(weight, Real::load(w_.xx[k] + kStep * c), w_xx[k]);
      };
      for_row<kMapped>(
          row, scaled, beta,
          [&](const Abreast& g, const Abreast& model, const Abreast& of_map) {
            return term.of(g, model, of_map);
          },
          add);
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

  /// Sums of 3x3 neighbours.
  /// @param image   of (row, column), asked row by row
  /// @param action  of the upper left one's row and column, and the sum
  template <class Image, class Action>
  void for_each_window(const Image& image, const Action& action) {
    for (int row = 0; row < side_; ++row) {
      Real left = image(row, 0), middle = image(row, 1);
      for (int c = 0; c + 2 < side_; ++c) {
        const Real right = image(row, c + 2);
        const Real three = left + middle + right;
        left = middle;
        middle = right;
        if (row >= 2)
          action(row - 2, c,
                 Real::load(w_.rows[(row + 1) % 3] + kStep * c) +
                     Real::load(w_.rows[(row + 2) % 3] + kStep * c) + three);
        at(w_.rows[row % 3], c, three);
      }
    }
  }
  static void add_to(SmoothedExtremesOf<Real>& e, const Real& sum) {
    e.highest = hn::Max(sum.v, e.highest.v);
    e.lowest = hn::Min(sum.v, e.lowest.v);
  }
  static SmoothedExtremesOf<Real> as_means(SmoothedExtremesOf<Real> e) {
    e.highest *= 1.0f / 9.0f;
    e.lowest *= 1.0f / 9.0f;
    return e;
  }

  /// Sums the pixels of each 3x3 window: a cold start and the verdict both need them.
  void set_windows() {
    if (has_windows_) return;
    for_each_window([&](int row, int c) { return pixel(row, c); },
                    [&](int row, int c, const Real& sum) { at(w_.windows, row * side_ + c, sum); });
    has_windows_ = true;
  }
  Real window(int row, int c) const { return Real::load(w_.windows + kStep * (row * side_ + c)); }

  Workspace& w_;
  int side_;
  bool integrated_;
  PixelSummaryOf<Real> summary_;
  ProfileMomentsOf<Real> moments_ = {};
  bool has_windows_ = false;
  bool mapped_ = false, placed_ = false;
  Estimator of_map_ = {};
};
using LaneSums = LaneSumsIn<LaneWorkspace>;

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
