// SPDX-License-Identifier: MIT
// The Gaussian of one dimension, A exp(-(i - x0)^2 / 2 sigma^2) + B, of pixel i of the ROI, counted
// row after row: a model that has no y, see pixelwise.hpp. Host and device.
#pragma once

#include "fitter/fit_values.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

struct LineGaussian {
  static constexpr int kShape = 2;  ///< x, sigma
  static constexpr bool kIsLine = true;
  template <class Real>
  using Parameters = Vec<kShape, Real>;

  template <class Real>
  struct Shape {
    Real x_px, in_sigma;
    float side;

    DRIFTD_HD ShapeAt<kShape, Real> at(const Real& column, const Real& row) const {
      const Real u = (row * side + column - x_px) * in_sigma;
      const Real f = gaussian_of(u * u);
      const Real by_x = u * f * in_sigma;
      return {f, {{by_x, u * by_x}}};
    }
  };

  template <class Real>
  DRIFTD_HD static Shape<Real> shape(const Parameters<Real>& p, int side) {
    return {p[0], 1.0f / p[1], static_cast<float>(side)};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> from_start(const StartOf<Real>& start) {
    return {{start.x_px, start.sigma_x_px}};
  }

  /// The line from end to end, and widths from a spot's narrowest to half a line.
  DRIFTD_HD static Parameters<float> lowest(int) { return {{-0.5f, kMinSigmaPx}}; }
  DRIFTD_HD static Parameters<float> highest(int side) {
    const float length = static_cast<float>(side * side);
    return {{length - 0.5f, 0.5f * length}};
  }

  template <class Real>
  DRIFTD_HD static Parameters<Real> step_scale(const Parameters<Real>& p) {
    return {{p[1], p[1]}};
  }
};

}  // namespace driftd::fitter
