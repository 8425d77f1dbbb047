// SPDX-License-Identifier: MIT
// The elliptical Gaussian in any direction, A exp(-q / 2) + B with q = a u^2 + 2 b u v + c v^2,
// u = x - x0, v = y - y0; see pixelwise.hpp. Searched in one of two ways:
//
//  - RotatedGaussian: (x, y, s, t, rho), s and t the widths of its sections along x and y through
//    the centre, a = 1 / s^2, c = 1 / t^2, b = -rho / (s t). Its equations have a solution for a
//    round spot, too, which has no angle.
//  - RotatedByAxes: (x, y, sigma_x, sigma_y, angle), for fits with a width or the angle fixed or
//    bounded.
//
// Both give users the parameters of the second. Host and device.
#pragma once

#include <limits>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// The form q at one centre, and the derivatives of a, b and c by the model's last three
/// parameters.
template <class Real>
struct QuadraticForm {
  Real x_px, y_px;
  Real a, b, c;
  Real da[3], db[3], dc[3];

  DRIFTD_HD ShapeAt<5, Real> at(const Real& x, const Real& y) const {
    const Real u = x - x_px, v = y - y_px;
    const Real by_u = a * u + b * v, by_v = b * u + c * v;
    const Real f = gaussian_of(u * by_u + v * by_v);
    const Real uu = -0.5f * f * u * u, uv = -f * u * v, vv = -0.5f * f * v * v;
    ShapeAt<5, Real> at = {f, {{f * by_u, f * by_v}}};
    for (int j = 0; j < 3; ++j) at.d[2 + j] = da[j] * uu + db[j] * uv + dc[j] * vv;
    return at;
  }

  /// The narrowest and the widest, and their derivatives by the model's last three parameters; of a
  /// round spot those of its sections along x and y.
  struct Widths {
    Real px[2];
    Real by[2][3];
  };
  DRIFTD_HD Widths widths() const {
    // 1 / sigma^2 are the form's eigenvalues, mean +- from_mean.
    const Real mean = 0.5f * (a + c), half = 0.5f * (a - c);
    const Real from_mean = sqrt_of(half * half + b * b);
    const Mask<Real> is_round = !(from_mean > 1e-6f * mean);
    const Real cosine = where(is_round, Real(1.0f), half / from_mean);  // of twice the angle
    const Real sine = where(is_round, Real(0.0f), b / from_mean);
    Widths w;
    for (int k = 0; k < 2; ++k) {
      const float sign = k == 0 ? 1.0f : -1.0f;
      w.px[k] = 1.0f / sqrt_of(mean + sign * from_mean);
      const Real factor = -0.25f * w.px[k] * w.px[k] * w.px[k];
      for (int j = 0; j < 3; ++j)
        w.by[k][j] =
            factor * (da[j] + dc[j] + sign * (cosine * (da[j] - dc[j]) + 2.0f * sine * db[j]));
    }
    return w;
  }

  /// Centre, narrowest and widest.
  DRIFTD_HD ProfileOf<Real> profile() const {
    const Real mean = 0.5f * (a + c), half = 0.5f * (a - c);
    const Real from_mean = sqrt_of(half * half + b * b);
    return {x_px, y_px, 1.0f / sqrt_of(mean + from_mean), 1.0f / sqrt_of(mean - from_mean)};
  }
};

struct RotatedGaussian {
  static constexpr int kShape = 5;  ///< x, y, s, t, rho
  static constexpr bool kHasAngle = false;
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& start, const Real& angle_rad) {
    const Real low = kMinSigmaPx, high = max_sigma_px(kMaxRoiPx);
    const Real sigma_x = clamped(start.sigma_x_px, low, high);
    const Real sigma_y =
        where(start.sigma_y_px > 0.0f, clamped(start.sigma_y_px, low, high), sigma_x);
    const Real cosine = cos_of(angle_rad), sine = sin_of(angle_rad);
    const Real in_x = 1.0f / (sigma_x * sigma_x), in_y = 1.0f / (sigma_y * sigma_y);
    const Real a = cosine * cosine * in_x + sine * sine * in_y;
    const Real c = sine * sine * in_x + cosine * cosine * in_y;
    const Real b = cosine * sine * (in_x - in_y);
    const Real s = 1.0f / sqrt_of(a), t = 1.0f / sqrt_of(c);
    return {{start.x_px, start.y_px, s, t, -b * s * t}};
  }

  /// Limits of the sections' widths; along a diagonal the widest may be 60 times as wide as the
  /// narrowest.
  DRIFTD_HD static Parameters<float> lowest(int) {
    return {{-0.5f, -0.5f, kMinSigmaPx, kMinSigmaPx, -kMostRho}};
  }
  DRIFTD_HD static Parameters<float> highest(int side) {
    const float last = static_cast<float>(side) - 0.5f;
    return {{last, last, max_sigma_px(side), max_sigma_px(side), kMostRho}};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    return {{p[2], p[3], p[2], p[3], Real(1.0f)}};
  }

  template <class Real>
  DRIFTD_HD static QuadraticForm<Real> shape(const Parameters<Real>& p, int) {
    const Real zero = 0.0f;
    const Real in_s = 1.0f / p[2], in_t = 1.0f / p[3], rho = p[4];
    const Real both = in_s * in_t;
    return {p[0],
            p[1],
            in_s * in_s,
            -rho * both,
            in_t * in_t,
            {-2.0f * in_s * in_s * in_s, zero, zero},
            {rho * both * in_s, rho * both * in_t, -both},
            {zero, -2.0f * in_t * in_t * in_t, zero}};
  }

  template <class Real>
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters<Real>& p) {
    return shape(p, 0).profile();
  }

  template <class Real>
  DRIFTD_HD static typename QuadraticForm<Real>::Widths widths(const Parameters<Real>& p) {
    return shape(p, 0).widths();
  }

  /// Whether none of the limits that the profile does not tell of is reached.
  template <class Real>
  DRIFTD_HD static Mask<Real> inside(const Parameters<Real>& p) {
    constexpr float kMargin = 1e-5f;
    return abs_of(p[4]) < kMostRho - kMargin;
  }

 private:
  static constexpr float kMostRho = 0.9995f;
};

struct RotatedByAxes {
  static constexpr int kShape = 5;  ///< x, y, sigma_x, sigma_y, angle
  static constexpr bool kHasAngle = true;
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& start, const Real& angle_rad) {
    return {{start.x_px, start.y_px, start.sigma_x_px,
             where(start.sigma_y_px > 0.0f, start.sigma_y_px, start.sigma_x_px), angle_rad}};
  }

  /// Widths that are nearly equal tell nothing of the angle, and the search would not move it.
  template <class Real>
  DRIFTD_HD static Parameters<Real> told_apart(Parameters<Real> p) {
    constexpr float kAlike = 0.02f, kApart = 1.1f;
    const Mask<Real> alike = abs_of(p[3] - p[2]) < kAlike * p[2];
    p[2] = where(alike, kApart * p[2], p[2]);
    return p;
  }

  DRIFTD_HD static Parameters<float> lowest(int) {
    return {{-0.5f, -0.5f, kMinSigmaPx, kMinSigmaPx, -std::numeric_limits<float>::infinity()}};
  }
  DRIFTD_HD static Parameters<float> highest(int side) {
    const float last = static_cast<float>(side) - 0.5f;
    return {{last, last, max_sigma_px(side), max_sigma_px(side),
             std::numeric_limits<float>::infinity()}};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    const Real narrower = smaller(p[2], p[3]);
    return {{narrower, narrower, p[2], p[3], Real(1.0f)}};
  }

  template <class Real>
  DRIFTD_HD static QuadraticForm<Real> shape(const Parameters<Real>& p, int) {
    const Real cosine = cos_of(p[4]), sine = sin_of(p[4]);
    const Real in_x = 1.0f / p[2], in_y = 1.0f / p[3];
    const Real la = in_x * in_x, mu = in_y * in_y;
    const Real dla = -2.0f * la * in_x, dmu = -2.0f * mu * in_y;
    const Real cc = cosine * cosine, ss = sine * sine, cs = cosine * sine;
    const Real turn = 2.0f * cs * (la - mu);
    return {p[0],
            p[1],
            cc * la + ss * mu,
            cs * (la - mu),
            ss * la + cc * mu,
            {cc * dla, ss * dmu, -turn},
            {cs * dla, -cs * dmu, (cc - ss) * (la - mu)},
            {ss * dla, cc * dmu, turn}};
  }

  template <class Real>
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters<Real>& p) {
    return {p[0], p[1], smaller(p[2], p[3]), larger(p[2], p[3])};
  }
};

}  // namespace driftd::fitter
