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
  Real angle_rad = 0.0f;
  AngleBoundsOf<Real> angle_bounds = {};
  const BoundsOf<Real>* bounds = nullptr;
  const float* variances = nullptr;  ///< of the pixels, adu^2; not with lanes, which load their own
};
using FitInput = FitInputOf<float>;

/// A FitStatus as a number.
DRIFTD_HD constexpr float code_of(FitStatus status) {
  return static_cast<float>(static_cast<std::uint8_t>(status));
}

/// Whether a status, given as a number, is converged().
template <class Real>
DRIFTD_HD Mask<Real> is_converged(const Real& status) {
  return status < 0.5f + code_of(FitStatus::ConvergedStep);
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

  DRIFTD_HD Mask<Real> converged() const { return is_converged(status); }
};

/// Calls action(number...) for each number of localizations side by side.
template <class Action, class... Localizations>
DRIFTD_HD void for_each_number(Action&& action, Localizations&... l) {
  action(l.x_px...);
  action(l.y_px...);
  action(l.sigma_x_px...);
  action(l.sigma_y_px...);
  action(l.amplitude_adu...);
  action(l.background_adu...);
  action(l.chi_square...);
  action(l.x_sd_px...);
  action(l.y_sd_px...);
  action(l.sigma_x_sd_px...);
  action(l.sigma_y_sd_px...);
  action(l.amplitude_sd_adu...);
  action(l.background_sd_adu...);
  action(l.status...);
  action(l.iterations...);
}
constexpr int kLocalizationNumbers = 15;

template <class Real>
DRIFTD_HD LocalizationOf<Real> where(const Mask<Real>& mask, const LocalizationOf<Real>& yes,
                                     const LocalizationOf<Real>& no) {
  LocalizationOf<Real> r;
  for_each_number([&](Real& to, const Real& a, const Real& b) { to = where(mask, a, b); }, r, yes,
                  no);
  return r;
}

/// @tparam Result  with a status and iterations, and for_each_number()
template <class Result>
DRIFTD_HD Result bad_input() {
  Result r;
  for_each_number([](auto& number) { number = NAN; }, r);
  r.status = code_of(FitStatus::BadInput);
  r.iterations = 0.0f;
  return r;
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

DRIFTD_HD LocalizationOf<float> numbers_of(const Localization& l) {
  LocalizationOf<float> r;
  for_each_number([](float& to, const auto& from) { to = static_cast<float>(from); }, r, l);
  return r;
}

}  // namespace driftd::fitter
