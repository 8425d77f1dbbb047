// SPDX-License-Identifier: MIT
// What the mathematics takes and gives, of one fit or of a fit in every lane. Plain values, host
// and device.
#pragma once

#include "fitter/fitter.hpp"
#include "fitter/real.hpp"

namespace driftd::fitter {

/// What a fit is given beside the pixels.
template <class Real>
struct FitInputOf {
  StartOf<Real> start = {};
  StartLevelsOf<Real> levels = {Real(NAN), Real(NAN)};
  const BoundsOf<Real>* bounds = nullptr;
  const float* variances = nullptr;  ///< of the pixels, adu^2; not with lanes, which load their own
};
using FitInput = FitInputOf<float>;

/// A FitStatus as a number.
DRIFTD_HD constexpr float code_of(FitStatus status) {
  return static_cast<float>(static_cast<std::uint8_t>(status));
}

/// A Localization, its status and iterations as numbers.
template <class Real>
struct LocalizationOf {
  Real x_px, y_px;
  Real sigma_x_px, sigma_y_px;
  Real amplitude_adu, background_adu;
  Real chi_square;
  Real x_sd_px, y_sd_px;
  Real sigma_x_sd_px, sigma_y_sd_px;
  Real amplitude_sd_adu, background_sd_adu;
  Real status, iterations;

  DRIFTD_HD Mask<Real> converged() const {
    return status < 0.5f + code_of(FitStatus::ConvergedStep);
  }
};

template <class Real>
DRIFTD_HD LocalizationOf<Real> where(const Mask<Real>& mask, const LocalizationOf<Real>& yes,
                                     const LocalizationOf<Real>& no) {
  return {where(mask, yes.x_px, no.x_px),
          where(mask, yes.y_px, no.y_px),
          where(mask, yes.sigma_x_px, no.sigma_x_px),
          where(mask, yes.sigma_y_px, no.sigma_y_px),
          where(mask, yes.amplitude_adu, no.amplitude_adu),
          where(mask, yes.background_adu, no.background_adu),
          where(mask, yes.chi_square, no.chi_square),
          where(mask, yes.x_sd_px, no.x_sd_px),
          where(mask, yes.y_sd_px, no.y_sd_px),
          where(mask, yes.sigma_x_sd_px, no.sigma_x_sd_px),
          where(mask, yes.sigma_y_sd_px, no.sigma_y_sd_px),
          where(mask, yes.amplitude_sd_adu, no.amplitude_sd_adu),
          where(mask, yes.background_sd_adu, no.background_sd_adu),
          where(mask, yes.status, no.status),
          where(mask, yes.iterations, no.iterations)};
}

template <class Real>
DRIFTD_HD LocalizationOf<Real> bad_input() {
  const Real nan = NAN;
  return {nan,       nan, nan, nan, nan, nan, nan,
          nan,       nan, nan, nan, nan, nan, Real(code_of(FitStatus::BadInput)),
          Real(0.0f)};
}

DRIFTD_HD Localization as_localization(const LocalizationOf<float>& l) {
  return {l.x_px,
          l.y_px,
          l.sigma_x_px,
          l.sigma_y_px,
          l.amplitude_adu,
          l.background_adu,
          l.chi_square,
          l.x_sd_px,
          l.y_sd_px,
          l.sigma_x_sd_px,
          l.sigma_y_sd_px,
          l.amplitude_sd_adu,
          l.background_sd_adu,
          static_cast<FitStatus>(static_cast<std::uint8_t>(l.status)),
          static_cast<std::uint8_t>(l.iterations),
          {}};
}

}  // namespace driftd::fitter
