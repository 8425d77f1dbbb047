// SPDX-License-Identifier: MIT
// From what was searched to what users get: errors by the rule of propagation, angles as promised.
#include "fitter/fit_details.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "support/catch.hpp"

namespace driftd {
namespace {

using fitter::AngleBounds;
using fitter::RotatedByAxes;
using fitter::SymmetricMatrix;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// Filled below the diagonal and on it, as searches do.
SymmetricMatrix<3> covariance(float last = 5) {
  SymmetricMatrix<3> c = {};
  const float of[3][3] = {{4, 0, 0}, {1.5f, 3, 0}, {-0.5f, 0.75f, last}};
  for (int j = 0; j < 3; ++j)
    for (int k = 0; k <= j; ++k) c(j, k) = of[j][k];
  return c;
}

TEST_CASE("Errors of what users get are those of what was searched, propagated") {
  fitter::Jacobian<3> jacobian = {};
  for (int a = 0; a < fitter::FitDetails::kOrder; ++a)
    for (int j = 0; j < 3; ++j) jacobian.of[a][j] = static_cast<float>((a * 5 + j * 3) % 7 - 3);
  const auto c = covariance();
  const auto users = fitter::users_covariance(c, jacobian);
  for (int a = 0; a < fitter::FitDetails::kOrder; ++a) {
    for (int b = 0; b < fitter::FitDetails::kOrder; ++b) {
      double expected = 0;
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 3; ++k)
          expected += static_cast<double>(jacobian.of[a][j] * jacobian.of[b][k]) *
                      static_cast<double>(j < k ? c(k, j) : c(j, k));
      CHECK(users.of[a][b] == Approx(expected));
    }
  }
}

TEST_CASE("What is not known spoils the errors of what depends on it, and no others") {
  fitter::Jacobian<3> jacobian = {};
  jacobian.of[0][0] = jacobian.of[1][1] = jacobian.of[2][2] = 1;
  const auto users = fitter::users_covariance(covariance(kInfinite), jacobian);
  CHECK(users.of[0][0] == 4);
  CHECK(users.of[1][0] == 1.5f);
  CHECK(users.of[1][1] == 3);
  CHECK(users.of[2][2] == kInfinite);
  CHECK(users.of[3][3] == 0);
}

TEST_CASE("An angle by half turns is the nearest to the start, unless a bound forbids it") {
  const auto angle_of = [](float searched, float start, const AngleBounds& bounds) {
    const fitter::Vec<7> p = {{3, 4, 1.5f, 1.1f, searched, 100, 10}};
    return fitter::UsersFit<RotatedByAxes>(p, start, bounds).angle_rad;
  };
  constexpr auto kPi = std::numbers::pi_v<float>;
  CHECK(angle_of(0.3f, 0.2f, {}) == 0.3f);
  CHECK(angle_of(0.3f, 3.3f, {}) == Approx(0.3f + kPi));
  CHECK(angle_of(0.3f, -6.1f, {}) == Approx(0.3f - 2 * kPi));
  CHECK(angle_of(0.3f, 3.3f, {-1, 1}) == 0.3f);
  CHECK(angle_of(0.3f, -3.3f, {-1, 1}) == 0.3f);
  CHECK(angle_of(0.3f, kInfinite, {}) == 0.3f);
}

TEST_CASE("An angle by quarters changes the axes, and their errors with them") {
  const fitter::Vec<7> p = {{3, 4, 1.6f, 1.2f, 0.3f, 100, 10}};  // sections, correlation
  using Fit = fitter::UsersFit<fitter::RotatedGaussian>;
  const Fit near_0(p, 0, {}), quarter(p, std::numbers::pi_v<float> / 2, {});
  CHECK(quarter.angle_rad ==
        Approx(near_0.angle_rad + std::copysign(std::numbers::pi_v<float> / 2,
                                                std::numbers::pi_v<float> / 2 - near_0.angle_rad)));
  CHECK(quarter.sigma_x_px == Approx(near_0.sigma_y_px));
  CHECK(quarter.sigma_y_px == Approx(near_0.sigma_x_px));
  for (int j = 2; j < 5; ++j) {
    CHECK(quarter.jacobian.of[fitter::kSigmaX][j] ==
          Approx(near_0.jacobian.of[fitter::kSigmaY][j]).margin(1e-6));
    CHECK(quarter.jacobian.of[fitter::kAngle][j] ==
          Approx(near_0.jacobian.of[fitter::kAngle][j]).margin(1e-6));
    // By differences.
    constexpr float kStep = 1e-3f;
    fitter::Vec<7> up = p, down = p;
    up[j] += kStep;
    down[j] -= kStep;
    const Fit more(up, 0, {}), less(down, 0, {});
    CHECK(near_0.jacobian.of[fitter::kSigmaX][j] ==
          Approx((more.sigma_x_px - less.sigma_x_px) / (2 * kStep)).epsilon(0.01).margin(1e-3));
    CHECK(near_0.jacobian.of[fitter::kSigmaY][j] ==
          Approx((more.sigma_y_px - less.sigma_y_px) / (2 * kStep)).epsilon(0.01).margin(1e-3));
    CHECK(near_0.jacobian.of[fitter::kAngle][j] ==
          Approx((more.angle_rad - less.angle_rad) / (2 * kStep)).epsilon(0.01).margin(1e-3));
  }
}

/// A covariance of the circular model: correlations of 0.25, and variances as rounding may leave
/// them.
SymmetricMatrix<5> of_circular() {
  SymmetricMatrix<5> c = {};
  for (int j = 0; j < 5; ++j)
    for (int k = 0; k <= j; ++k) c(j, k) = j == k ? 4.0f : 1.0f;
  return c;
}

TEST_CASE("Covariances are those of the standard deviations told, and sigma is both widths") {
  fitter::Localization fit = {};
  fit.x_sd_px = 0.5f;
  fit.y_sd_px = 4;
  fit.sigma_x_sd_px = fit.sigma_y_sd_px = 3;
  fit.amplitude_sd_adu = 20;
  fit.background_sd_adu = kInfinite;
  fitter::FitDetails details = {};
  fitter::set_details(of_circular(), fit, details);
  const float sd[] = {0.5f, 4, 3, 3, 20};
  for (int a = 0; a < fitter::kBackground; ++a) {
    for (int b = 0; b < fitter::kBackground; ++b) {
      CAPTURE(a, b);
      const bool same = a == b || (a + b == 5 && a * b == 6);
      CHECK(details.covariance[a][b] == Approx((same ? 1.0 : 0.25) * sd[a] * sd[b]));
    }
    CHECK(std::isfinite(details.covariance[a][fitter::kBackground]));
    CHECK(details.covariance[a][fitter::kAngle] == 0);
  }
  CHECK(details.covariance[fitter::kBackground][fitter::kBackground] == kInfinite);
  CHECK(details.covariance[fitter::kAngle][fitter::kAngle] == 0);
  CHECK(details.angle_rad == 0);
  CHECK(details.angle_sd_rad == 0);
}

TEST_CASE("What has a variance below 0, or no error, is told as not known, and no other") {
  fitter::FitDetails details = {};
  fitter::Localization fit = {};
  fit.x_sd_px = fit.y_sd_px = 2;
  fit.amplitude_sd_adu = NAN;
  fitter::set_details(of_circular(), fit, details);
  const auto& c = details.covariance;
  for (int a = 0; a <= fitter::kAngle; ++a) {
    for (int b = 0; b <= fitter::kAngle; ++b) {
      CAPTURE(a, b);
      const bool not_known = a == fitter::kAmplitude || b == fitter::kAmplitude;
      CHECK(std::isnan(c[a][b]) == not_known);
    }
  }
  CHECK(c[fitter::kX][fitter::kY] == 1);

  fit.status = fitter::FitStatus::BadInput;
  fitter::set_details(of_circular(), fit, details);
  CHECK(std::isnan(details.angle_rad));
  CHECK(std::isnan(c[fitter::kX][fitter::kY]));
  CHECK(std::isnan(c[fitter::kAngle][fitter::kAngle]));

  fitter::PixelwiseResult<7, float> rotated = {};
  rotated.parameters = {{3, 4, 1.5f, 1.1f, 0.3f, 100, 10}};
  for (int j = 0; j < 7; ++j) rotated.covariance(j, j) = j == 2 ? -1.0f : 1.0f;
  const fitter::Localization l =
      fitter::as_localization<RotatedByAxes>(rotated, 0.3f, AngleBounds(), &details);
  CHECK(std::isnan(l.sigma_x_sd_px));
  CHECK(l.sigma_y_sd_px == 1);
  CHECK(std::isnan(c[fitter::kSigmaX][fitter::kSigmaX]));
  CHECK(std::isnan(c[fitter::kSigmaX][fitter::kY]));
  CHECK(c[fitter::kSigmaY][fitter::kSigmaY] == 1);
}

}  // namespace
}  // namespace driftd
