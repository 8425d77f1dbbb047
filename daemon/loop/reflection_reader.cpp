// SPDX-License-Identifier: MIT
#include "daemon/loop/reflection_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace driftd::daemon {
namespace {

/// A spot nearer to the region's edge is cut off, and the fit's place is not its own.
constexpr double kClearanceSigmas = 2;

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
  return {.reason = AxialReason::Measured,
          .x_px = x_px_ + x_px,
          .y_px = y_px_ + y_px,
          .x_sd_px = fit.x_sd_px,
          .y_sd_px = fit.y_sd_px,
          .sigma_px = sigma_px};
}

}  // namespace driftd::daemon
