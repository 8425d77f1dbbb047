// SPDX-License-Identifier: MIT
#include "daemon/loop/reflection_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace driftd::daemon {
namespace {

/// What is so far from the spot is none of it: its top is held against the scatter of the pixels
/// there, and the spot's own top.
constexpr double kOutsideSigmas = 4, kCompanySd = 8, kCompanyShare = 0.05;

/// Tells of the brightest pixel beside the spot, where it is more than noise.
void look_beside(std::span<const std::uint16_t> pixels, int side_px,
                 const fitter::Localization& fit, control::ReflectedSpot& spot) noexcept {
  const double x_px = fit.x_px, y_px = fit.y_px;
  const double near_px2 = std::pow(kOutsideSigmas * static_cast<double>(fit.sigma_x_px), 2);
  double count = 0, sum = 0, squares = 0, most = 0;
  int most_x = 0, most_y = 0;
  for (int y = 0; y < side_px; ++y) {
    for (int x = 0; x < side_px; ++x) {
      const double dx = x - x_px, dy = y - y_px;
      if (dx * dx + dy * dy < near_px2) continue;
      const double value = pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(side_px) +
                                  static_cast<std::size_t>(x)];
      count += 1, sum += value, squares += value * value;
      if (value <= most) continue;
      most = value, most_x = x, most_y = y;
    }
  }
  if (count < 2) return;
  const double mean = sum / count;
  const double sd = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const double top = static_cast<double>(fit.amplitude_adu);
  spot.has_company = most - mean > std::max(kCompanySd * sd, kCompanyShare * top);
  spot.company_px = {static_cast<double>(most_x), static_cast<double>(most_y)};
}

}  // namespace

control::ReflectedSpot ReflectionReader::read(const camera::Frame& frame) noexcept {
  using control::AxialReason;
  const int side_px = fitter_->roi_px();
  std::uint16_t* const pixels = fitter_->staging(0);
  if (!camera::cut_roi(frame, x_px_ - frame.offset_x_px, y_px_ - frame.offset_y_px, side_px,
                       pixels))
    return {.reason = AxialReason::OutOfRange};
  const auto fits = fitter_->fit(std::span(&start_, 1));
  start_ = {};
  if (fits.empty()) return {};
  const fitter::Localization& fit = fits[0];
  if (fit.status == fitter::FitStatus::BadInput) {
    const auto count = static_cast<std::ptrdiff_t>(side_px) * side_px;
    const bool all_equal = std::all_of(pixels, pixels + count,
                                       [first = *pixels](auto pixel) { return pixel == first; });
    return {.reason = all_equal ? AxialReason::Dark : AxialReason::Saturated};
  }
  if (!fitter::converged(fit.status)) return {};
  start_ = {fit.x_px, fit.y_px, fit.sigma_x_px, fit.sigma_y_px};
  const double x_px = fit.x_px, y_px = fit.y_px, sigma_px = fit.sigma_x_px;
  const double clearance_px =
      std::min(std::min(x_px, side_px - 1 - x_px), std::min(y_px, side_px - 1 - y_px));
  if (!(clearance_px >= kClearanceSigmas * sigma_px)) return {.reason = AxialReason::OutOfRange};
  control::ReflectedSpot spot = {
      .reason = AxialReason::Measured,
      .x_px = x_px_ + x_px,
      .y_px = y_px_ + y_px,
      .x_sd_px = fit.x_sd_px,
      .y_sd_px = fit.y_sd_px,
      .sigma_px = sigma_px,
      .light = sigma_px * sigma_px * static_cast<double>(fit.amplitude_adu)};
  look_beside({pixels, static_cast<std::size_t>(side_px) * static_cast<std::size_t>(side_px)},
              side_px, fit, spot);
  spot.company_px.x += x_px_;
  spot.company_px.y += y_px_;
  return spot;
}

}  // namespace driftd::daemon
