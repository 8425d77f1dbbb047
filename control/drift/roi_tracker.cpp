// SPDX-License-Identifier: MIT
#include "control/drift/roi_tracker.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// After centring a marker is up to half a pixel off: a smaller hysteresis would flip at each step.
constexpr double kMinHysteresisPx = 0.75;
/// Far outside any sensor, well inside int.
constexpr double kFarthestPx = 1e6;

int moved(int origin_px, double position_px, int roi_px, double hysteresis_px) noexcept {
  const double half_px = 0.5 * (roi_px - 1);
  if (!(std::abs(position_px - (origin_px + half_px)) > hysteresis_px)) return origin_px;
  const double place = std::clamp(position_px, -kFarthestPx, kFarthestPx) - half_px;
  return static_cast<int>(std::floor(place + 0.5));
}

}  // namespace

RoiTracker::RoiTracker(int roi_px, double hysteresis_px)
    : roi_px_(roi_px), hysteresis_px_(std::max(hysteresis_px, kMinHysteresisPx)) {
  origins_.reserve(kMaxMarkers);
}

void RoiTracker::set_markers(std::span<const Marker> markers) {
  origins_.assign(markers.size(), {});
  for (std::size_t i = 0; i < markers.size(); ++i) {
    const double half_px = 0.5 * (roi_px_ - 1);
    origins_[i] = {static_cast<int>(std::floor(markers[i].x_px - half_px + 0.5)),
                   static_cast<int>(std::floor(markers[i].y_px - half_px + 0.5))};
  }
}

void RoiTracker::place(std::size_t i, double x_px, double y_px) noexcept {
  if (!std::isfinite(x_px) || !std::isfinite(y_px)) return;
  origins_[i].x_px = moved(origins_[i].x_px, x_px, roi_px_, hysteresis_px_);
  origins_[i].y_px = moved(origins_[i].y_px, y_px, roi_px_, hysteresis_px_);
}

void RoiTracker::follow(std::span<const MarkerObservation> observations,
                        std::span<const MarkerResult> results, std::span<const Vec2> reference_px,
                        Vec2 displacement_px) noexcept {
  const std::size_t count =
      std::min({origins_.size(), observations.size(), results.size(), reference_px.size()});
  for (std::size_t i = 0; i < count; ++i) {
    if (results[i].health == MarkerHealth::Good)
      place(i, observations[i].x_px, observations[i].y_px);
    else
      place(i, reference_px[i].x + displacement_px.x, reference_px[i].y + displacement_px.y);
  }
}

void RoiTracker::move_all(std::span<const Vec2> reference_px, Vec2 displacement_px) noexcept {
  for (std::size_t i = 0; i < std::min(origins_.size(), reference_px.size()); ++i)
    place(i, reference_px[i].x + displacement_px.x, reference_px[i].y + displacement_px.y);
}

}  // namespace driftd::control
