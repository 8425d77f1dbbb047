// SPDX-License-Identifier: MIT
// The circular Gaussian, parameters (x, y, sigma): Leutenegger & Weber 2021, equations 10 and 11,
// with its sums written as products of one-dimensional moments. spot_model.hpp says which members a
// model has, docs/internals/adding-a-fit.md how one is added. Host and device.
#pragma once

#include "fitter/fit_values.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

struct CircularGaussian {
  static constexpr int kShape = 3;  ///< x, y, sigma
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& s) {
    return {{s.x_px, s.y_px, s.sigma_x_px}};
  }

  template <class Real>
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters<Real>& p) {
    return {p[0], p[1], p[2], p[2]};
  }

  /// The ROI's area from pixel edge to pixel edge, and the widths that a spot may have.
  DRIFTD_HD static Parameters<float> lowest(int) { return {{-0.5f, -0.5f, kMinSigmaPx}}; }
  DRIFTD_HD static Parameters<float> highest(int side) {
    const float last = static_cast<float>(side) - 0.5f;
    return {{last, last, max_sigma_px(side)}};
  }

  /// What a parameter's change is compared with in stop criterion (iii). The paper takes the
  /// parameter itself. A position's own size says only where the ROI was cut, so positions count in
  /// units of sigma, which is stricter wherever x > sigma.
  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    return {{p[2], p[2], p[2]}};
  }

  /// @param m  sums of X_a Y_b (AxisElement), by a and b
  template <class Real, class Moments>
  DRIFTD_HD static ProfileTotals<kShape, Real> totals(const Moments& m, const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    return {m(0, 0), {{s * s * m(1, 0), s * s * m(0, 1), s * s * s * (m(2, 0) + m(0, 2))}}};
  }

  /// @param q  sums of products of two of each, by pair
  template <class Real, class Moments>
  DRIFTD_HD static ProfileProducts<kShape, Real> products(const Moments& q,
                                                          const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    const Real s2 = s * s;
    const Real s3 = s2 * s;
    ProfileProducts<kShape, Real> r;
    r.ff = q(k00, k00);
    r.fd[0] = s2 * q(k01, k00);
    r.fd[1] = s2 * q(k00, k01);
    r.fd[2] = s3 * (q(k02, k00) + q(k00, k02));
    r.dd(0, 0) = s2 * s2 * q(k11, k00);
    r.dd(1, 0) = s2 * s2 * q(k01, k01);
    r.dd(1, 1) = s2 * s2 * q(k00, k11);
    r.dd(2, 0) = s2 * s3 * (q(k12, k00) + q(k01, k02));
    r.dd(2, 1) = s2 * s3 * (q(k02, k01) + q(k00, k12));
    r.dd(2, 2) = s3 * s3 * (q(k22, k00) + 2.0f * q(k02, k02) + q(k00, k22));
    return r;
  }

  /// sum r d_j f.
  template <class Real>
  DRIFTD_HD static Parameters<Real> residual_products(const ResidualMomentsOf<Real>& r,
                                                      const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    return {{s * s * r.u, s * s * r.v, s * s * s * (r.uu + r.vv)}};
  }

  template <class Real>
  DRIFTD_HD static void store(const Parameters<Real>& p, LocalizationOf<Real>& l) {
    l.x_px = p[0];
    l.y_px = p[1];
    l.sigma_x_px = l.sigma_y_px = p[2];
  }

  /// @param sd  of the shape, and maybe more
  template <int n, class Real>
  DRIFTD_HD static void store_sd(const Vec<n, Real>& sd, const Parameters<Real>&,
                                 LocalizationOf<Real>& l) {
    l.x_sd_px = sd[0];
    l.y_sd_px = sd[1];
    l.sigma_x_sd_px = l.sigma_y_sd_px = sd[2];
  }
};

}  // namespace driftd::fitter
