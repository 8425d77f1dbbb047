// SPDX-License-Identifier: MIT
// The elliptical Gaussian with its axes along rows and columns, parameters (x, y, sigma_x,
// sigma_y): a spot whose widths tell its height (astigmatism), and the model of PSFIT. A model is
// this file; see circular_gaussian.hpp. Host and device.
#pragma once

#include "fitter/fit_values.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

struct EllipticalGaussian {
  static constexpr int kShape = 4;  ///< x, y, sigma_x, sigma_y
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& s) {
    return {{s.x_px, s.y_px, s.sigma_x_px, where(s.sigma_y_px > 0.0f, s.sigma_y_px, s.sigma_x_px)}};
  }

  template <class Real>
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters<Real>& p) {
    return {p[0], p[1], p[2], p[3]};
  }

  DRIFTD_HD static Parameters<float> lowest(int) {
    return {{-0.5f, -0.5f, kMinSigmaPx, kMinSigmaPx}};
  }
  DRIFTD_HD static Parameters<float> highest(int side) {
    const float last = static_cast<float>(side) - 0.5f;
    return {{last, last, max_sigma_px(side), max_sigma_px(side)}};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    return {{p[2], p[3], p[2], p[3]}};
  }

  template <class Real, class Moments>
  DRIFTD_HD static ProfileTotals<kShape, Real> totals(const Moments& m, const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    const Real t = reciprocal_of(p[3]);
    return {m(0, 0),
            {{s * s * m(1, 0), t * t * m(0, 1), s * s * s * m(2, 0), t * t * t * m(0, 2)}}};
  }

  template <class Real, class Moments>
  DRIFTD_HD static ProfileProducts<kShape, Real> products(const Moments& q,
                                                          const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    const Real t = reciprocal_of(p[3]);
    const Real s2 = s * s, s3 = s2 * s;
    const Real t2 = t * t, t3 = t2 * t;
    ProfileProducts<kShape, Real> r;
    r.ff = q(k00, k00);
    r.fd[0] = s2 * q(k01, k00);
    r.fd[1] = t2 * q(k00, k01);
    r.fd[2] = s3 * q(k02, k00);
    r.fd[3] = t3 * q(k00, k02);
    r.dd(0, 0) = s2 * s2 * q(k11, k00);
    r.dd(1, 0) = s2 * t2 * q(k01, k01);
    r.dd(1, 1) = t2 * t2 * q(k00, k11);
    r.dd(2, 0) = s2 * s3 * q(k12, k00);
    r.dd(2, 1) = s3 * t2 * q(k02, k01);
    r.dd(2, 2) = s3 * s3 * q(k22, k00);
    r.dd(3, 0) = s2 * t3 * q(k01, k02);
    r.dd(3, 1) = t2 * t3 * q(k00, k12);
    r.dd(3, 2) = s3 * t3 * q(k02, k02);
    r.dd(3, 3) = t3 * t3 * q(k00, k22);
    return r;
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> residual_products(const ResidualMomentsOf<Real>& r,
                                                      const Parameters<Real>& p) {
    const Real s = reciprocal_of(p[2]);
    const Real t = reciprocal_of(p[3]);
    return {{s * s * r.u, t * t * r.v, s * s * s * r.uu, t * t * t * r.vv}};
  }

  template <class Real>
  DRIFTD_HD static void store(const Parameters<Real>& p, LocalizationOf<Real>& l) {
    l.x_px = p[0];
    l.y_px = p[1];
    l.sigma_x_px = p[2];
    l.sigma_y_px = p[3];
  }

  template <int n, class Real>
  DRIFTD_HD static void store_sd(const Vec<n, Real>& sd, const Parameters<Real>&,
                                 LocalizationOf<Real>& l) {
    l.x_sd_px = sd[0];
    l.y_sd_px = sd[1];
    l.sigma_x_sd_px = sd[2];
    l.sigma_y_sd_px = sd[3];
  }
};

}  // namespace driftd::fitter
