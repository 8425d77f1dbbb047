// SPDX-License-Identifier: MIT
// From what a fit found to what users get, one fit at a time. For separable models these are the
// FitDetails; for a pixel-by-pixel fit also the parameters, which are not those that were searched.
// Host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "fitter/elliptical_cauchy.hpp"
#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/line_gaussian.hpp"
#include "fitter/pixelwise.hpp"
#include "fitter/rotated_gaussian.hpp"

namespace driftd::fitter {

/// Places in the order of users.
constexpr int kX = 0, kY = 1, kSigmaX = 2, kSigmaY = 3, kAmplitude = 4, kBackground = 5;
static_assert(kSigmaY == static_cast<int>(Parameter::SigmaY) &&
              kBackground == static_cast<int>(Parameter::Background) && kAngle == kBackground + 1);

/// A covariance in the order of users.
struct UsersCovariance {
  static constexpr int kOrder = FitDetails::kOrder;
  float of[kOrder][kOrder];

  DRIFTD_HD float sd(int j) const { return std::sqrt(of[j][j]); }
};

/// How users' numbers change with those that were searched: row i, of parameter i.
template <int n>
struct Jacobian {
  float of[FitDetails::kOrder][std::size_t{n}];
};

/// A product with an element of a Jacobian; 0 where nothing changes, even if the other factor is
/// infinite.
DRIFTD_HD float times(float element, float value) {
  return element != 0 ? element * value : 0.0f;
}

/// Sets the row and column of a variance below 0 to NaN. A matrix that is not of a minimum can have
/// one.
DRIFTD_HD void tell_what_is_not_known(FitDetails& details) {
  constexpr int kOrder = FitDetails::kOrder;
  for (int a = 0; a < kOrder; ++a) {
    if (details.covariance[a][a] >= 0) continue;
    for (int b = 0; b < kOrder; ++b) details.covariance[a][b] = details.covariance[b][a] = NAN;
  }
}

/// J C J^T.
template <int n>
DRIFTD_HD UsersCovariance users_covariance(const SymmetricMatrix<n>& covariance,
                                           const Jacobian<n>& jacobian) {
  UsersCovariance users;
  for (int a = 0; a < FitDetails::kOrder; ++a) {
    float row[std::size_t{n}];
    for (int j = 0; j < n; ++j) {
      row[j] = 0;
      for (int k = 0; k < n; ++k)
        row[j] += times(jacobian.of[a][k], j < k ? covariance(k, j) : covariance(j, k));
    }
    for (int b = 0; b <= a; ++b) {
      float sum = 0;
      for (int j = 0; j < n; ++j) sum += times(jacobian.of[b][j], row[j]);
      users.of[a][b] = users.of[b][a] = sum;
    }
  }
  return users;
}

/// The axes of a form. @param angle_rad  of the first axis: of all its angles the nearest to this
struct Axes {
  float sigma_x_px, sigma_y_px, angle_rad;
  float cosine, sine;

  DRIFTD_HD Axes(const QuadraticForm<float>& form, float near_rad) {
    constexpr float kQuarterTurn = 1.57079633f;
    // The narrower axis; the others lie quarters of a turn from it, wide and narrow in turn.
    const float narrower = 0.5f * std::atan2(2.0f * form.b, form.a - form.c);
    const float quarters = std::round((near_rad - narrower) / kQuarterTurn);
    angle_rad = narrower + quarters * kQuarterTurn;
    const ProfileOf<float> widths = form.profile();
    const bool change = std::fmod(quarters, 2.0f) != 0;
    sigma_x_px = change ? widths.sigma_y_px : widths.sigma_x_px;
    sigma_y_px = change ? widths.sigma_x_px : widths.sigma_y_px;
    cosine = std::cos(angle_rad);
    sine = std::sin(angle_rad);
  }
};

/// A fit as users get it: of the rotated model, in one way or the other.
template <class Model>
struct UsersFit {
  static constexpr int kShape = Model::kShape, n = kShape + 2;
  float y_px, sigma_x_px, sigma_y_px, angle_rad;
  Jacobian<n> jacobian = {};

  /// @param start_rad  what the angle began with
  DRIFTD_HD UsersFit(const Vec<n>& p, float start_rad, const AngleBounds& bounds) : y_px(p[1]) {
    const float near_rad = is_finite(start_rad) ? start_rad : 0.0f;
    jacobian.of[kX][0] = jacobian.of[kY][1] = 1;
    jacobian.of[kAmplitude][kShape] = jacobian.of[kBackground][kShape + 1] = 1;
    if constexpr (Model::kHasAngle) {
      constexpr float kHalfTurn = 3.14159265f;
      sigma_x_px = p[2];
      sigma_y_px = p[3];
      const float nearest = p[4] + kHalfTurn * std::round((near_rad - p[4]) / kHalfTurn);
      const bool allowed = nearest >= bounds.lower_rad && nearest <= bounds.upper_rad;
      angle_rad = allowed ? nearest : p[4];
      jacobian.of[kSigmaX][2] = jacobian.of[kSigmaY][3] = jacobian.of[kAngle][4] = 1;
    } else {
      const QuadraticForm<float> form =
          Model::shape(Vec<kShape>{{p[0], p[1], p[2], p[3], p[4]}}, 0);
      const Axes axes(form, near_rad);
      sigma_x_px = axes.sigma_x_px;
      sigma_y_px = axes.sigma_y_px;
      angle_rad = axes.angle_rad;
      // Derivatives of 1 / sigma^2, which are the form's values along its axes, give those of the
      // widths; that of the angle follows.
      const float cc = axes.cosine * axes.cosine, ss = axes.sine * axes.sine;
      const float cs = axes.cosine * axes.sine;
      const float x3 = sigma_x_px * sigma_x_px * sigma_x_px;
      const float y3 = sigma_y_px * sigma_y_px * sigma_y_px;
      const float apart = 1 / (sigma_x_px * sigma_x_px) - 1 / (sigma_y_px * sigma_y_px);
      for (int j = 0; j < 3; ++j) {
        const float da = form.da[j], db = form.db[j], dc = form.dc[j];
        jacobian.of[kSigmaX][2 + j] = -0.5f * x3 * (cc * da + 2 * cs * db + ss * dc);
        jacobian.of[kSigmaY][2 + j] = -0.5f * y3 * (ss * da - 2 * cs * db + cc * dc);
        jacobian.of[kAngle][2 + j] = ((cc - ss) * db - cs * (da - dc)) / apart;
      }
    }
  }
};

/// The fit of one dimension.
template <>
struct UsersFit<LineGaussian> {
  static constexpr int n = LineGaussian::kShape + 2;
  float y_px = 0, sigma_x_px, sigma_y_px, angle_rad = 0;
  Jacobian<n> jacobian = {};

  DRIFTD_HD UsersFit(const Vec<n>& p, float, const AngleBounds&)
      : sigma_x_px(p[1]), sigma_y_px(p[1]) {
    jacobian.of[kX][0] = jacobian.of[kSigmaX][1] = jacobian.of[kSigmaY][1] = 1;
    jacobian.of[kAmplitude][2] = jacobian.of[kBackground][3] = 1;
  }
};

/// What is searched is what users get.
template <>
struct UsersFit<EllipticalCauchy> {
  static constexpr int kShape = EllipticalCauchy::kShape, n = kShape + 2;
  float y_px, sigma_x_px, sigma_y_px, angle_rad = 0;
  Jacobian<n> jacobian = {};

  DRIFTD_HD UsersFit(const Vec<n>& p, float, const AngleBounds&)
      : y_px(p[1]), sigma_x_px(p[2]), sigma_y_px(p[3]) {
    for (int j = 0; j < n; ++j) jacobian.of[j][j] = 1;
  }
};

/// @param details  receives them; or null
template <class Model, int n>
DRIFTD_HD Localization as_localization(const PixelwiseResult<n, float>& r, float start_rad,
                                       const AngleBounds& bounds, FitDetails* details) {
  const UsersFit<Model> fit(r.parameters, start_rad, bounds);
  const UsersCovariance covariance = users_covariance(r.covariance, fit.jacobian);
  if (details != nullptr) {
    details->angle_rad = fit.angle_rad;
    details->angle_sd_rad = covariance.sd(kAngle);
    for (int a = 0; a < FitDetails::kOrder; ++a)
      for (int b = 0; b < FitDetails::kOrder; ++b) details->covariance[a][b] = covariance.of[a][b];
    tell_what_is_not_known(*details);
  }
  return {r.parameters[0],
          fit.y_px,
          fit.sigma_x_px,
          fit.sigma_y_px,
          r.parameters[n - 2],
          r.parameters[n - 1],
          r.chi_square,
          covariance.sd(kX),
          covariance.sd(kY),
          covariance.sd(kSigmaX),
          covariance.sd(kSigmaY),
          covariance.sd(kAmplitude),
          covariance.sd(kBackground),
          static_cast<FitStatus>(static_cast<std::uint8_t>(r.status)),
          static_cast<std::uint8_t>(r.iterations),
          {}};
}

/// Sets the details of a separable model, whose shape is the first of users' parameters.
/// @param covariance  of conclude(). Its correlations count, because its variances are those told
///                    but for rounding, which is much where two parameters hardly differ in what
///                    they change.
template <int n>
DRIFTD_HD void set_details(const SymmetricMatrix<n>& covariance, const Localization& fit,
                           FitDetails& details) {
  constexpr int kShape = n - 2;
  const auto searched = [](int users) {  // which of n; the circular sigma is both widths
    if (users < kAmplitude) return users < kShape ? users : kShape - 1;
    return kShape + users - kAmplitude;
  };
  const float sd[] = {fit.x_sd_px,       fit.y_sd_px,          fit.sigma_x_sd_px,
                      fit.sigma_y_sd_px, fit.amplitude_sd_adu, fit.background_sd_adu};
  float scale[std::size_t{n}];
  for (int a = 0; a <= kBackground; ++a) {
    const float told = sd[a] / std::sqrt(covariance(searched(a), searched(a)));
    scale[searched(a)] = is_finite(told) ? told : 1.0f;
  }
  const bool fitted = fit.status != FitStatus::BadInput;
  const float of_no_angle = fitted ? 0.0f : NAN;
  details.angle_rad = details.angle_sd_rad = of_no_angle;
  for (int a = 0; a <= kAngle; ++a)
    details.covariance[a][kAngle] = details.covariance[kAngle][a] = of_no_angle;
  for (int a = 0; a <= kBackground; ++a) {
    for (int b = 0; b <= a; ++b) {
      const int j = searched(a), k = searched(b);
      const float known = j == k ? sd[a] * sd[a] : scale[j] * scale[k] * covariance(j, k);
      details.covariance[a][b] = details.covariance[b][a] = fitted ? known : NAN;
    }
  }
  tell_what_is_not_known(details);
}

}  // namespace driftd::fitter
