// SPDX-License-Identifier: MIT
// The value types of the fitting library: what goes into a fit and what comes out of it.
// Plain data, the same bytes on host and device.
#pragma once

#include <cstdint>

namespace driftd::fitter {

/// How a fit ended. The first three are the stop criteria of Leutenegger & Weber 2021.
enum class FitStatus : std::uint8_t {
  ConvergedResiduum,  ///< chi-square fell below the given residuum
  ConvergedDecrease,  ///< chi-square decreased by less than the given relative amount
  ConvergedStep,      ///< every parameter changed by less than the given relative amount
  IterationLimit,     ///< still improving when the iterations ran out
  NotConverged,  ///< damping passed its limit, or the minimum found is no spot (see fitter.hpp)
  BadInput,      ///< non-finite, constant or saturated pixels: nothing was fitted
};

constexpr bool converged(FitStatus status) noexcept {
  return status <= FitStatus::ConvergedStep;
}
const char* name_of(FitStatus status) noexcept;

/// Start values of a fit, ROI coordinates: the centre of the ROI's first pixel is (0, 0).
/// sigma_x_px <= 0 asks for a cold start: the fitter estimates its own start values.
/// @tparam Real  as in fitter/real.hpp, of this and the other templates
template <class Real>
struct StartOf {
  Real x_px = 0.0f;
  Real y_px = 0.0f;
  Real sigma_x_px = 0.0f;
  Real sigma_y_px = 0.0f;
};
using Start = StartOf<float>;

/// One fitted spot in ROI coordinates. Uncertainties are standard deviations (1 sigma).
/// With a status that is not converged() the numbers are the last iterate, for diagnosis only; with
/// BadInput they are NaN.
struct Localization {
  float x_px, y_px;
  float sigma_x_px, sigma_y_px;  ///< equal in the circular model
  float amplitude_adu;           ///< peak of the Gaussian above background
  float background_adu;
  float chi_square;  ///< sum of squared residuals, adu^2 (deviance for likelihood fits)
  float x_sd_px, y_sd_px;
  float sigma_x_sd_px, sigma_y_sd_px;
  float amplitude_sd_adu, background_sd_adu;
  FitStatus status;
  std::uint8_t iterations;
  std::uint8_t reserved[2];
};

}  // namespace driftd::fitter
