// SPDX-License-Identifier: MIT
// Every pixel-by-pixel search there is, from what the options ask for to the type that does it.
// Host and device.
#pragma once

#include "fitter/dispatch.hpp"
#include "fitter/elliptical_cauchy.hpp"
#include "fitter/line_gaussian.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/rotated_gaussian.hpp"

namespace driftd::fitter {

/// Whether a width or the angle of the rotated model has limits of its own.
/// @param bounds_axes  Batch::bounds_axes()
DRIFTD_HD bool searches_axes(const FitOptions& options, bool bounds_axes) {
  constexpr unsigned kAxes = bit(Parameter::SigmaX) | bit(Parameter::SigmaY) | kAngleBit;
  const int sigma_x = static_cast<int>(Parameter::SigmaX);
  bool bounded = bounds_axes || (options.fixed & kAxes) != 0;
  for (int j = sigma_x; j < sigma_x + 2; ++j)
    bounded = bounded || options.bounds.lower[j] > -Bounds::kUnbounded ||
              options.bounds.upper[j] < Bounds::kUnbounded;
  return bounded;
}

/// action.operator()<Search>() with the search of a model that is not separable.
/// @param bounds_axes  as above
template <class Real, class Action>
DRIFTD_HD auto with_pixelwise_search(const FitOptions& options, bool bounds_axes,
                                     const Action& action) {
  if (options.model == Model::LineGaussian)
    return action.template operator()<PixelwiseSearch<LineGaussian, Real>>();
  if (options.model == Model::EllipticalCauchy)
    return action.template operator()<PixelwiseSearch<EllipticalCauchy, Real>>();
  if (searches_axes(options, bounds_axes))
    return action.template operator()<PixelwiseSearch<RotatedByAxes, Real>>();
  return action.template operator()<PixelwiseSearch<RotatedGaussian, Real>>();
}

}  // namespace driftd::fitter
