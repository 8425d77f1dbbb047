// SPDX-License-Identifier: MIT
// A / ((1 + (x - x0)^2 / sigma_x^2) (1 + (y - y0)^2 / sigma_y^2)) + B, Gpufit's elliptical Cauchy:
// its widths are half widths at half maximum. Searched pixel by pixel, see pixelwise.hpp: the back
// ends' products of profiles are Gaussians. Host and device.
#pragma once

#include "fitter/elliptical_gaussian.hpp"
#include "fitter/fit_values.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

struct EllipticalCauchy {
  static constexpr int kShape = EllipticalGaussian::kShape;  ///< x, y, sigma_x, sigma_y
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  struct Shape {
    Real x_px, y_px, in_x, in_y;

    DRIFTD_HD ShapeAt<kShape, Real> at(const Real& x, const Real& y) const {
      const Real u = (x - x_px) * in_x, v = (y - y_px) * in_y;
      const Real along = 1.0f / (1.0f + u * u), across = 1.0f / (1.0f + v * v);
      const Real f = along * across;
      const Real by_x = 2.0f * u * f * along * in_x, by_y = 2.0f * v * f * across * in_y;
      return {f, {{by_x, by_y, u * by_x, v * by_y}}};
    }
  };

  template <class Real>
  DRIFTD_HD static Shape<Real> shape(const Parameters<Real>& p, int) {
    return {p[0], p[1], 1.0f / p[2], 1.0f / p[3]};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& start) {
    return EllipticalGaussian::from_start(start);
  }
  template <class Real>
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters<Real>& p) {
    return EllipticalGaussian::profile(p);
  }
  DRIFTD_HD static Parameters<float> lowest(int side) { return EllipticalGaussian::lowest(side); }
  DRIFTD_HD static Parameters<float> highest(int side) { return EllipticalGaussian::highest(side); }
  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    return EllipticalGaussian::step_scale(p);
  }
};

}  // namespace driftd::fitter
