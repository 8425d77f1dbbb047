// SPDX-License-Identifier: MIT
#include "control/axial/picasso_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/dense_solver.hpp"
#include "base/yaml/scalar.hpp"

namespace driftd::control {
namespace {

/// Variance of a pixel's area along an axis.
constexpr double kPixelVariancePx2 = 1.0 / 12;
constexpr double kKnotNm = 20;

double polynomial(const std::array<double, PicassoCurve::kCoefficients>& c, double z) noexcept {
  double sum = 0;
  for (const double coefficient : c) sum = sum * z + coefficient;
  return sum;
}

/// As PyYAML knows numbers: 1.0e-07, where 1e-07 is a text to it.
std::string with_point(double value) {
  std::string text = yaml::format_real(value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

double at_centres(double integrated_px) noexcept {
  return integrated_px > 0 ? std::sqrt(integrated_px * integrated_px + kPixelVariancePx2)
                           : std::numeric_limits<double>::quiet_NaN();
}

double over_pixels(double sigma_px, bool integrated) {
  const double squared = sigma_px * sigma_px - (integrated ? 0 : kPixelVariancePx2);
  return std::sqrt(std::max(squared, 0.0));
}

/// Within which Picasso's polynomials are fitted: as far to both sides as the range goes to one,
/// since they are even about z = 0, and no further than the knots.
WidthCurve::Range fitted_range(const WidthCurve& curve) {
  const double reach = std::max(std::abs(curve.lower_nm()), std::abs(curve.upper_nm()));
  return {std::max(-reach, curve.knots().front().z_nm), std::min(reach, curve.knots().back().z_nm)};
}

/// In z over the reach, so that the equations keep their digits; then by powers of nm.
std::array<double, PicassoCurve::kCoefficients> nearest_polynomial(
    const WidthCurve& curve, double (WidthCurve::*width)(double) const noexcept, bool integrated) {
  constexpr std::size_t kCount = PicassoCurve::kCoefficients;
  constexpr int kPoints = 400;
  const auto [low, high] = fitted_range(curve);
  const double reach = std::max(std::abs(low), std::abs(high));
  NormalEquations equations(kCount);
  for (int i = 0; i <= kPoints; ++i) {
    const double z = low + (high - low) * i / kPoints;
    std::array<double, kCount> row = {};
    double power = 1;
    for (std::size_t j = kCount; j-- > 0; power *= z / reach) row[j] = power;
    equations.add(row, over_pixels((curve.*width)(z), integrated));
  }
  std::vector<double> solution;
  std::array<double, kCount> coefficients = {};
  if (!equations.solve(0, solution)) return coefficients;
  double power = 1;
  for (std::size_t j = kCount; j-- > 0; power *= reach) coefficients[j] = solution[j] / power;
  return coefficients;
}

}  // namespace

double PicassoCurve::sigma_x_px(double z_nm) const noexcept {
  return at_centres(polynomial(x, z_nm));
}

double PicassoCurve::sigma_y_px(double z_nm) const noexcept {
  return at_centres(polynomial(y, z_nm));
}

WidthCurve curve_of(const PicassoCurve& picasso) {
  const double reach = 0.5 * std::abs(picasso.step_nm) * (picasso.frames - 1);
  const int knots = std::clamp(static_cast<int>(std::ceil(2 * reach / kKnotNm)), 8,
                               static_cast<int>(WidthCurve::kMostKnots) - 1);
  std::vector<WidthCurve::Knot> points;
  for (int i = 0; i <= knots; ++i) {
    const double z = reach * (2.0 * i / knots - 1);
    const WidthCurve::Knot knot{z, picasso.sigma_x_px(z), picasso.sigma_y_px(z)};
    if (std::isfinite(knot.sigma_x_px) && std::isfinite(knot.sigma_y_px)) {
      points.push_back(knot);
    } else if (z < 0) {
      points.clear();
    } else {
      break;
    }
  }
  return {std::move(points), kUnknownScatter, AxialMethod::Astigmatic};
}

PicassoCurve picasso_curve_of(const WidthCurve& curve, bool integrated, double step_nm) {
  PicassoCurve picasso;
  picasso.x = nearest_polynomial(curve, &WidthCurve::sigma_x_px, integrated);
  picasso.y = nearest_polynomial(curve, &WidthCurve::sigma_y_px, integrated);
  const auto [low, high] = fitted_range(curve);
  picasso.step_nm = std::abs(step_nm);
  picasso.frames =
      1 +
      2 * static_cast<int>(std::lround(std::max(std::abs(low), std::abs(high)) / picasso.step_nm));
  return picasso;
}

double error_nm(const PicassoCurve& picasso, const WidthCurve& curve, bool integrated) {
  constexpr int kPoints = 400;
  double most = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const double z = curve.lower_nm() + (curve.upper_nm() - curve.lower_nm()) * i / kPoints;
    const double apart = (polynomial(picasso.x, z) - over_pixels(curve.sigma_x_px(z), integrated)) -
                         (polynomial(picasso.y, z) - over_pixels(curve.sigma_y_px(z), integrated));
    const double slope = curve.sigma_x_px_per_nm(z) - curve.sigma_y_px_per_nm(z);
    if (slope != 0) most = std::max(most, std::abs(apart / slope));
  }
  return most;
}

std::string picasso_text(const PicassoCurve& picasso) {
  std::string text;
  const auto list = [&](const char* key, const auto& values) {
    text.append(key).append(":\n");
    for (const double value : values) text += "- " + with_point(value) + "\n";
  };
  text += "Magnification factor: " + with_point(picasso.magnification) + "\n";
  text += "Number of frames: " + std::to_string(picasso.frames) + "\n";
  text += "Step size in nm: " + with_point(picasso.step_nm) + "\n";
  list("X Coefficients", picasso.x);
  list("Y Coefficients", picasso.y);
  return text;
}

}  // namespace driftd::control
