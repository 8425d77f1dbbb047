// SPDX-License-Identifier: MIT
#include "fitter/spots/photons.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::fitter {

Photons photons_of(const Localization& fit, const PhotonUnits& units) {
  const NoiseModel& noise = units.noise;
  const double gain = noise.gain_e_per_adu > 0 ? static_cast<double>(noise.gain_e_per_adu) : 1.0;
  Photons photons;
  photons.signal = 2 * std::numbers::pi * static_cast<double>(fit.sigma_x_px) *
                   static_cast<double>(fit.sigma_y_px) * static_cast<double>(fit.amplitude_adu) *
                   gain;
  photons.background =
      (static_cast<double>(fit.background_adu) - static_cast<double>(noise.offset_adu)) * gain;
  const bool squares = units.estimator == Estimator::ImplicitLeastSquares ||
                       units.estimator == Estimator::LeastSquares;
  if (squares) {
    const int degrees = std::max(1, units.roi_px * units.roi_px - 5);
    photons.background_sd = std::sqrt(static_cast<double>(fit.chi_square) / degrees) * gain;
  } else {
    const auto read_noise = static_cast<double>(noise.read_noise_e);
    photons.background_sd =
        std::sqrt(static_cast<double>(units.excess_noise) * std::max(0.0, photons.background) +
                  read_noise * read_noise);
  }
  return photons;
}

}  // namespace driftd::fitter
