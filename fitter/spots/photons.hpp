// SPDX-License-Identifier: MIT
// What a fit found, in electrons. Pure.
#pragma once

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// What turns counts into electrons.
struct PhotonUnits {
  int roi_px = 0;
  Estimator estimator = Estimator::ImplicitLeastSquares;
  NoiseModel noise;        ///< an unknown gain counts as 1: "photons" are then counts
  float excess_noise = 1;  ///< variance of the signal over that of its photons
};

struct Photons {
  double signal = 0;         ///< 2 pi sigma_x sigma_y amplitude: the whole of the Gaussian
  double background = 0;     ///< a pixel's, above the camera's offset
  double background_sd = 0;  ///< a pixel's: of the residuals, or by the noise model (likelihood,
                             ///< weights)
};

Photons photons_of(const Localization& fit, const PhotonUnits& units);

}  // namespace driftd::fitter
