// SPDX-License-Identifier: MIT
// Picasso's calibration of z (Schnitzbauer et al., Nature Protocols 2017): a polynomial of degree 6
// for each width against z in nm, the highest power first. Its fits integrate a Gaussian over
// pixels, driftd's take it at their centres (unless they integrate, too), so that variances differ
// by that of a pixel, 1/12 px^2. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "control/axial/width_curve.hpp"

namespace driftd::control {

struct PicassoCurve {
  static constexpr std::size_t kCoefficients = 7;
  std::array<double, kCoefficients> x = {}, y = {};  ///< px, integrated over pixels
  int frames = 0;
  double step_nm = 0;
  double magnification = 1;  ///< what Picasso multiplies z by afterwards; driftd does not

  /// Of a fit that takes the Gaussian at the pixels' centres; NaN where the polynomial is no width.
  double sigma_x_px(double z_nm) const noexcept;
  double sigma_y_px(double z_nm) const noexcept;
};

/// From one end of Picasso's stack to the other, z = 0 in its middle frame. The scatter factor is
/// not known from it, see kUnknownScatter. @throws WidthCurveError
WidthCurve curve_of(const PicassoCurve& picasso);

/// What fits scatter over what they tell where nobody measured it, with caution: calibrate-z
/// found 1.4 to 1.7 on pupil images with 0.075 waves of astigmatism, elliptical likelihood.
constexpr double kUnknownScatter = 2;

/// The polynomials nearest to the curve within its range, by least squares; of as many frames as
/// that range has.
/// @param curve  astigmatic, its crossing at 0
/// @param integrated  whether it is one of integrated fits
PicassoCurve picasso_curve_of(const WidthCurve& curve, bool integrated, double step_nm);
/// Largest distance of the polynomials from the curve within its range, as z: their error over how
/// fast sigma_x - sigma_y changes.
double error_nm(const PicassoCurve& picasso, const WidthCurve& curve, bool integrated);

std::string picasso_text(const PicassoCurve& picasso);

}  // namespace driftd::control
