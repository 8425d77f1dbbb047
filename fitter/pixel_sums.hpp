// SPDX-License-Identifier: MIT
// What a back end has to sum over the pixels of one ROI, and nothing else. Models are separable,
// f(x, y) = X(x) Y(y) with X = exp(-u^2 / 2 sigma_x^2), u = x - x0, and Y likewise with v = y - y0.
// So every sum over f and its derivatives alone is a product of two one-dimensional moments (2 side
// exponentials instead of side^2). Only five sums need the pixels, whatever the levels; sums over
// residuals are differences between these five and the moments. Where pixels have weights of their
// own, nothing factorizes, and all sums run over pixels.
// Plain values, host and device.
#pragma once

#include <concepts>
#include <cstdint>

#include "fitter/pixel_terms.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// The separable profile: centre and widths, ROI coordinates.
template <class Real>
struct ProfileOf {
  Real x_px, y_px;
  Real sigma_x_px, sigma_y_px;
};
using Profile = ProfileOf<float>;

/// Widths that a spot may have. Below, it is one pixel (its neighbours have 4 % of the peak), and
/// so may be noise or a defect; above half a side not even the one-sigma contour fits into the ROI.
constexpr float kMinSigmaPx = 0.4f;
DRIFTD_HD constexpr float max_sigma_px(int side) {
  return 0.5f * static_cast<float>(side);
}

/// The profile of one axis at one pixel, X, and what its derivatives are made of: dX/dx0 = X_1 /
/// sigma^2, dX/dsigma = X_2 / sigma^3. At the pixel's centre X_k is u^k X; over the pixel, the mean
/// of that.
template <class Real>
struct AxisElement {
  Real f, uf, uuf;
};

/// A place in a pixel, px from its centre, and its weight in the mean over the pixel: Gauss and
/// Legendre's five. The mean of a Gaussian of sigma 0.4 px, the narrowest, is 3e-6 of its peak
/// wrong at most, of 0.5 px 3e-7.
struct PlaceInPixel {
  float px, weight;
};
constexpr int kPlacesInPixel = 5;
DRIFTD_HD constexpr PlaceInPixel place_in_pixel(int k) {
  constexpr PlaceInPixel kPlaces[kPlacesInPixel] = {{-0.453089923f, 0.118463443f},
                                                    {-0.269234655f, 0.239314335f},
                                                    {0.0f, 0.284444444f},
                                                    {0.269234655f, 0.239314335f},
                                                    {0.453089923f, 0.118463443f}};
  return kPlaces[k];
}

/// Adds a place's share of the mean over a pixel.
/// @param u  from the spot's centre to the pixel's
template <class Real, class Gaussian>
DRIFTD_HD void add_place(const PlaceInPixel& place, const Real& u, const Gaussian& gaussian,
                         AxisElement<Real>& mean) {
  const Real at = u + place.px;
  const Real f = place.weight * gaussian(at);
  const Real uf = at * f;
  mean.f = mean.f + f;
  mean.uf = mean.uf + uf;
  mean.uuf = mean.uuf + at * uf;
}

/// @tparam kIntegrated  whether over the pixel
/// @param u         from the spot's centre to the pixel's
/// @param gaussian  of a distance from the spot's centre
template <bool kIntegrated, class Real, class Gaussian>
DRIFTD_HD AxisElement<Real> axis_element(const Real& u, const Gaussian& gaussian) {
  if constexpr (!kIntegrated) {
    const Real f = gaussian(u);
    const Real uf = u * f;
    return {f, uf, u * uf};
  } else {
    AxisElement<Real> mean = {Real(0.0f), Real(0.0f), Real(0.0f)};
    for (int k = 0; k < kPlacesInPixel; ++k) add_place(place_in_pixel(k), u, gaussian, mean);
    return mean;
  }
}

/// Pairs, the products of two of X, X_1 and X_2, by their number in sums of them. k11 and k02
/// differ only where X is integrated over the pixel.
constexpr int k00 = 0, k01 = 1, k11 = 2, k12 = 3, k22 = 4, k02 = 5, kPairs = 6;

/// Sums over one axis: first[k] = sum X_k, second[pair] = sum X_i X_j.
template <class Real>
struct AxisMomentsOf {
  Real first[3];
  Real second[kPairs];
};

/// Moments of the profile as a model reads them: a of the columns and b of the rows.
template <class Real>
struct SeparableMoments {
  const Real* x;
  const Real* y;
  DRIFTD_HD Real operator()(int a, int b) const { return x[a] * y[b]; }
};

/// Sums over the residuals r = g - (alpha f + beta) or, with both levels 0, over the pixels g less
/// the pedestal.
template <class Real>
struct ResidualMomentsOf {
  Real f;             ///< sum r f
  Real u, v, uu, vv;  ///< sum r X_1 Y, sum r X Y_1, sum r X_2 Y, sum r X Y_2
};
using ResidualMoments = ResidualMomentsOf<float>;

/// After a back end's `set_profile`.
template <class Real>
struct ProfileMomentsOf {
  AxisMomentsOf<Real> x, y;
  ResidualMomentsOf<Real> pixels;

  DRIFTD_HD SeparableMoments<Real> first() const { return {x.first, y.first}; }
  DRIFTD_HD SeparableMoments<Real> second() const { return {x.second, y.second}; }

  DRIFTD_HD ResidualMomentsOf<Real> residuals(const Real& alpha, const Real& beta) const {
    const SeparableMoments<Real> one = first(), two = second();
    const auto rest = [&](const Real& of_pixels, const Real& of_profile, const Real& of_one) {
      return of_pixels - (alpha * of_profile + beta * of_one);
    };
    return {rest(pixels.f, two(k00, k00), one(0, 0)), rest(pixels.u, two(k01, k00), one(1, 0)),
            rest(pixels.v, two(k00, k01), one(0, 1)), rest(pixels.uu, two(k02, k00), one(2, 0)),
            rest(pixels.vv, two(k00, k02), one(0, 2))};
  }
};
using ProfileMoments = ProfileMomentsOf<float>;

/// x[pair] = sum X X_i X_j; only the variance under Poisson noise needs them.
template <class Real>
struct CubicMomentsOf {
  Real x[kPairs], y[kPairs];
};
using CubicMoments = CubicMomentsOf<float>;

/// Sums over the residuals r from which the pixels' variance is estimated, with the quotients
/// q = f / (c + f), c = kVarianceRatio. Others follow, because f q = f - c q.
template <class Real>
struct QuotientSumsOf {
  Real q, qq;        ///< sum q^k
  Real q_rr, qq_rr;  ///< sum q^k r^2
};
using QuotientSums = QuotientSumsOf<float>;
constexpr int kQuotientSums = 4;

/// The background's variance over what the peak adds. The estimate is right whatever it is; where
/// it is this, no estimate is more precise.
constexpr float kVarianceRatio = 0.1f;

/// Sums with a weight w and a weighted residual e of each pixel (see pixel_terms.hpp): ef[a][b] =
/// sum e X_a Y_b, wf likewise, second[a][b] = sum w of a pair of the columns and one of the rows.
/// Only those that a model reads are summed.
template <class Real>
struct WeightedSums {
  Real value;  ///< what is minimized
  Real e, ef[3][3];
  Real w, wf[3][3];
  Real second[kPairs][kPairs];
};
using WeightedMoments = WeightedSums<float>;

/// Whether a model reads ef[a][b] and wf[a][b].
DRIFTD_HD constexpr bool reads_first(int a, int b) {
  return a < 3 && b < 3 && a * b == 0;
}
/// Whether a model reads second[a][b].
DRIFTD_HD constexpr bool reads_pairs(int a, int b) {
  if (a == k00 || b == k00) return true;
  return (a == k01 || a == k02) && (b == k01 || b == k02);
}

/// Whether second[a][b] is another's where the Gaussian is that at the pixel's centre.
DRIFTD_HD constexpr bool repeats(int a, int b) {
  return (a == k02 && b == k00) || (a == k00 && b == k02);
}

/// Calls action(sum) for each that a model reads, kWeightedSums in all. Without kRepeated those
/// that repeat others, kRepeats of them, are left out.
constexpr int kWeightedSums = 28, kRepeats = 2;
template <bool kRepeated = true, class Real, class Action>
DRIFTD_HD void for_each_sum(WeightedSums<Real>& m, Action&& action) {
  action(m.value);
  action(m.e);
  action(m.w);
  for (int a = 0; a < kPairs; ++a) {
    for (int b = 0; b < kPairs; ++b) {
      if (reads_pairs(a, b) && (kRepeated || !repeats(a, b))) action(m.second[a][b]);
      if (!reads_first(a, b)) continue;
      action(m.ef[a][b]);
      action(m.wf[a][b]);
    }
  }
}

/// What a back end knows of a loaded ROI before the first iteration.
template <class Real>
struct PixelSummaryOf {
  Real pedestal_adu;  ///< subtracted from every pixel: near their mean
  Real sum;           ///< of the pixels less the pedestal
  Real sum_squares;
  Mask<Real> usable;  ///< finite, not all equal, below saturation
};
using PixelSummary = PixelSummaryOf<float>;

/// Extremes of the 3x3 moving average over windows that lie within the ROI; `x_px, y_px`: centre of
/// the window with the highest (of equals the first in row-major order).
template <class Real>
struct SmoothedExtremesOf {
  Real highest, lowest;
  Real x_px, y_px;
};
using SmoothedExtremes = SmoothedExtremesOf<float>;

/// Sums of products of the profile and its derivatives with some weight w:
/// ff = sum w f f, fd[j] = sum w f d_j f, dd(j, k) = sum w d_j f d_k f.
template <int n, class Real = float>
struct ProfileProducts {
  Real ff;
  Vec<n, Real> fd;
  SymmetricMatrix<n, Real> dd;
};

/// Sums over the profile (f) and its derivatives (d) themselves.
template <int n, class Real = float>
struct ProfileTotals {
  Real f;
  Vec<n, Real> d;
};

/// What the verdict on a minimum rests on, whatever its estimator.
template <int n, class Real = float>
struct PlainSums {
  ProfileProducts<n, Real> product;
  ProfileTotals<n, Real> total;
  Real squares;        ///< sum r^2
  Real count;          ///< of pixels
  std::uint8_t fixed;  ///< bit j: parameter j (shape, amplitude, background)
};

/// sum w J J^T over the shape, amplitude and background, from the sums of one weight.
template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n + 2, Real> full_matrix(const ProfileProducts<n, Real>& product,
                                                   const ProfileTotals<n, Real>& total,
                                                   const Real& weight_sum, const Real& alpha) {
  SymmetricMatrix<n + 2, Real> h;
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k <= j; ++k) h(j, k) = alpha * alpha * product.dd(j, k);
    h(n, j) = alpha * product.fd[j];
    h(n + 1, j) = alpha * total.d[j];
  }
  h(n, n) = product.ff;
  h(n + 1, n) = total.f;
  h(n + 1, n + 1) = weight_sum;
  return h;
}

/// A back end: what sums over the pixels of a loaded ROI. Its Real is a float, or a fit in every
/// lane. A count or sum is of the pixels less the pedestal; `set_profile()` is told whether the
/// moments are wanted: if not, those it returns are nothing; `moments()` is what `set_profile()`
/// gave last, wanted, if it keeps that; what follows is for the profile set last, with levels alpha
/// and beta.
template <class B, class Real = typename B::Real>
concept SumsOverPixels = requires(B& pixels, const B& loaded, const Real& level,
                                  const ProfileOf<Real>& profile, ProfileMomentsOf<Real>& moments) {
  { loaded.side() } -> std::same_as<int>;
  { loaded.summary() } -> std::same_as<const PixelSummaryOf<Real>&>;
  { pixels.smoothed_pixels() } -> std::same_as<SmoothedExtremesOf<Real>>;
  /// The moving average there: at a window's middle, once smoothed_pixels() was called.
  { pixels.smoothed_pixel(level, level) } -> std::same_as<Real>;
  { pixels.count_above(level) } -> std::same_as<Real>;
  moments = pixels.set_profile(profile, bool());
  requires !B::kKeepsMoments || requires {
    moments = pixels.moments();
  };
  /// of the residuals
  { pixels.squares(level, level) } -> std::same_as<Real>;
  /// Whether a mask is set for one of all fits that stay in step.
  { pixels.any_of(loaded.summary().usable) } -> std::same_as<bool>;
  { pixels.cubic_moments() } -> std::same_as<CubicMomentsOf<Real>>;
  { pixels.quotient_sums(level, level) } -> std::same_as<QuotientSumsOf<Real>>;
  /// 0 of pixels that are gone
  { pixels.smoothed_residuals(level, level) } -> std::same_as<SmoothedExtremesOf<Real>>;
};

/// One for FullSearch, with maps of variances or without. Values are the sum of a likelihood's
/// value(). Plain moments are weighted moments with the weight 1 of each pixel that is not gone;
/// they are asked for only where there is a map.
template <class B, class Real = typename B::Real>
concept WeightedSumsOverPixels = SumsOverPixels<B> &&
    requires(B& pixels, const PixelNoiseOf<Real>& noise, const Real& level) {
  { pixels.weighted_moments(noise, level, level) } -> std::same_as<WeightedSums<Real>>;
  { pixels.values(noise, level, level) } -> std::same_as<Real>;
  requires !B::kTakesMaps || requires {
    { pixels.plain_moments(noise, level, level) } -> std::same_as<WeightedSums<Real>>;
  };
};

/// @return moments with the profile set; not set again where it is already and the back end keeps
/// them
/// @param is_set  the profile set last
template <SumsOverPixels BackEnd>
DRIFTD_HD decltype(auto) moments_at(BackEnd& pixels,
                                    const ProfileOf<typename BackEnd::Real>& profile,
                                    const Mask<typename BackEnd::Real>& is_set) {
  if constexpr (BackEnd::kKeepsMoments) {
    if (!all(is_set)) pixels.set_profile(profile, true);
    return pixels.moments();
  } else {
    return pixels.set_profile(profile, true);
  }
}

/// sum r^2 by the moments alone: the pixels' squares less what the model explains of them.
template <class Real>
DRIFTD_HD Real unexplained_squares(const ProfileMomentsOf<Real>& m,
                                   const PixelSummaryOf<Real>& summary, float count,
                                   const Real& alpha, const Real& beta) {
  const Real twice_f = m.pixels.f + m.residuals(alpha, beta).f - beta * m.first()(0, 0);
  return summary.sum_squares - (alpha * twice_f + beta * (2.0f * summary.sum - count * beta));
}

/// The largest terms of unexplained_squares(), a measure of its rounding, which is 2e-7 of this.
/// Where the background is far from the pixels' mean, the terms with it are the largest.
template <class Real>
DRIFTD_HD Real terms_of_squares(const Real& sum_squares, float count, const Real& beta) {
  return sum_squares + count * beta * beta;
}

/// The smallest change from one unexplained_squares() to another that still tells something.
/// @param sum_squares  of the pixels
template <class Real>
DRIFTD_HD Real least_told(const Real& sum_squares, int side, const Real& from_beta,
                          const Real& to_beta) {
  constexpr float kLeast = 1e-5f;
  const float count = static_cast<float>(side * side);
  return kLeast * (terms_of_squares(sum_squares, count, from_beta) + count * to_beta * to_beta);
}

/// sum r^2 to a thousandth, from the pixels where `unexplained` is too small a difference.
template <SumsOverPixels BackEnd, class Real = typename BackEnd::Real>
DRIFTD_HD Real squares_of_residuals(BackEnd& pixels, const Real& unexplained, const Real& alpha,
                                    const Real& beta) {
  constexpr float kMostTimes = 4096;
  const float count = static_cast<float>(pixels.side() * pixels.side());
  // False of no number, which pixels would not make one.
  const Mask<Real> lost =
      terms_of_squares(pixels.summary().sum_squares, count, beta) >= kMostTimes * unexplained;
  if (!pixels.any_of(lost)) return unexplained;
  return where(lost, pixels.squares(alpha, beta), unexplained);
}

}  // namespace driftd::fitter
