// SPDX-License-Identifier: MIT
#include "control/axial/brightness_curves.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

namespace driftd::control {
namespace {

/// Misfit up to which widths are trusted as their fits tell.
constexpr double kTrustedSd = 2;
/// Excess over that of a single marker from which on a fit is not one of a single marker: as a
/// share of it, which differs over the field, and in
/// standard deviations.
constexpr double kExcessShare = 0.7, kExcessSd = 5;

/// The two curves about a dimness, and how far it is from the one to the other.
struct Neighbours {
  const WidthCurve& bright;
  const WidthCurve& dim;
  double share = 0;

  double mix(double (WidthCurve::*value)(double) const noexcept, double z_nm) const noexcept {
    const double of_bright = (bright.*value)(z_nm);
    return share > 0 ? of_bright + share * ((dim.*value)(z_nm)-of_bright) : of_bright;
  }
  double sigma_x_px(double z_nm) const noexcept { return mix(&WidthCurve::sigma_x_px, z_nm); }
  double sigma_y_px(double z_nm) const noexcept { return mix(&WidthCurve::sigma_y_px, z_nm); }
  /// How far widths lie off the curve between both at a height, in standard deviations.
  double misfit(const SpotFit& fit, double z_nm) const noexcept {
    const double x = fit.sigma_x_px - sigma_x_px(z_nm);
    const double x2 = x * x, vx = fit.variance.x_px2;
    if (bright.method() == AxialMethod::Defocus) return std::sqrt(x2 / vx);
    const double y = fit.sigma_y_px - sigma_y_px(z_nm);
    const double vy = fit.variance.y_px2, vxy = fit.variance.xy_px2;
    return std::sqrt((x2 * vy - 2 * x * y * vxy + y * y * vx) / (vx * vy - vxy * vxy));
  }
  bool is_single(const SpotFit& fit, double z_nm) const noexcept {
    if (fit.pixels <= 0) return true;
    const double single = mix(&WidthCurve::excess, z_nm) * fit.electrons();
    if (!std::isfinite(single)) return true;  // not known
    const double over = fit.chi_square / fit.pixels - 1 - single;
    return !(over >
             std::max(kExcessShare * std::abs(single), kExcessSd * std::sqrt(2.0 / fit.pixels)));
  }
};

}  // namespace

double SpotFit::electrons() const noexcept {
  return 2 * std::numbers::pi * sigma_x_px * sigma_y_px * amplitude_e;
}

double SpotFit::dimness() const noexcept {
  return (background_e + read_noise_e * read_noise_e) / electrons();
}

BrightnessCurves::BrightnessCurves(std::vector<WidthCurve> curves) : curves_(std::move(curves)) {
  if (curves_.empty()) throw WidthCurveError("there is no curve");
  for (const WidthCurve& curve : curves_) {
    if (curve.method() != curves_.front().method())
      throw WidthCurveError("the curves are of two methods");
  }
  for (std::size_t i = 0; curves_.size() > 1 && i < curves_.size(); ++i) {
    for (const WidthCurve::Knot& knot : curves_[i].knots()) {
      const double brighter = i > 0 ? curves_[i - 1].dimness(knot.z_nm) : 0;
      if (!(knot.dimness > brighter) || !std::isfinite(knot.dimness))
        throw WidthCurveError("the dimness does not grow from curve " + std::to_string(i) +
                              " to the next at " + std::to_string(std::lround(knot.z_nm)) + " nm");
    }
  }
}

/// The last curve of brighter fits at a height; the first, where none is.
std::size_t BrightnessCurves::brighter_than(double dimness, double z_nm) const noexcept {
  std::size_t i = 0;
  while (i + 1 < curves_.size() && curves_[i + 1].dimness(z_nm) <= dimness) ++i;
  return i;
}

AxialReading BrightnessCurves::read(const SpotFit& fit) const noexcept {
  const auto read_by = [&](std::size_t i) {
    return curves_[i].read(fit.sigma_x_px, fit.sigma_y_px, fit.variance);
  };
  const double dimness = fit.dimness();
  if (curves_.size() > 1 && !std::isfinite(dimness)) return {};
  const std::size_t guess = brighter_than(dimness, curves_[0].crossing_nm());
  AxialReading reading = read_by(guess);
  if (!reading.measured) return reading;
  const std::size_t i = brighter_than(dimness, reading.z_nm);
  const double least = curves_[i].dimness(reading.z_nm);
  if (i != guess) reading = read_by(i);
  if (!reading.measured) return reading;
  std::size_t next = i;
  double share = 0;
  if (i + 1 < curves_.size() && dimness > least) {
    next = i + 1;
    const double most = curves_[next].dimness(reading.z_nm);
    share = std::min(1.0, std::log(dimness / least) / std::log(most / least));
    const AxialReading dim = read_by(next);
    if (!dim.measured) return dim;
    reading.z_nm += share * (dim.z_nm - reading.z_nm);
    reading.sd_nm += share * (dim.sd_nm - reading.sd_nm);
  }
  const Neighbours pair{curves_[i], curves_[next], share};
  if (!pair.is_single(fit, reading.z_nm)) return {};
  reading.off_x = fit.sigma_x_px / pair.sigma_x_px(reading.z_nm) - 1;
  if (by_likelihood()) reading.off_y = fit.sigma_y_px / pair.sigma_y_px(reading.z_nm) - 1;
  reading.sd_nm *= std::max(1.0, pair.misfit(fit, reading.z_nm) / kTrustedSd);
  return reading;
}

}  // namespace driftd::control
