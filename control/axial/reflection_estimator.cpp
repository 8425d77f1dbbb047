// SPDX-License-Identifier: MIT
#include "control/axial/reflection_estimator.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {

/// Adds a frame to the reference under way. @param frames  0: it goes on; else it is complete if it
/// has half of so many
void ReflectionEstimator::take(const Place& place, int frames) noexcept {
  ++taken_;
  sum_px_ += place.along_px;
  variance_sum_px2_ += place.variance_px2;
  if (frames == 0) return;
  referenced_ = 2 * taken_ >= frames;
  left_ = referenced_ ? 0 : frames;
  if (referenced_) {
    reference_px_ = sum_px_ / taken_;
    reference_variance_px2_ = variance_sum_px2_ / taken_ / taken_;
    reference_sigma_px_ = sigma_sum_px_ / taken_;
  }
  taken_ = averaged_ = 0;
  sum_px_ = variance_sum_px2_ = sigma_sum_px_ = 0;
}

void ReflectionEstimator::begin_reference(int frames) noexcept {
  own_ = true;
  referenced_ = false;
  left_ = std::max(1, frames);
  taken_ = averaged_ = 0;
  sum_px_ = variance_sum_px2_ = sigma_sum_px_ = 0;
}

const AxialEstimate& ReflectionEstimator::update(const ReflectionSettings& settings,
                                                 const ReflectedSpot& spot,
                                                 const DriftEstimator* lateral) noexcept {
  using Change = ReferenceFollower::Change;
  const Change seen = lateral != nullptr ? follower_.follow(*lateral) : Change::None;
  const Change change = kept_ ? Change::None : seen;
  if (change == Change::NewZero) {
    referenced_ = own_ = false;
    left_ = taken_ = averaged_ = 0;
    sum_px_ = variance_sum_px2_ = sigma_sum_px_ = 0;
  }
  estimate_ = {};
  estimate_.reason = spot.reason;
  const double width_change = std::abs(spot.sigma_px - reference_sigma_px_);
  if (spot.reason == AxialReason::Measured && referenced_ && reference_sigma_px_ > 0 &&
      width_change > settings.max_width_change * reference_sigma_px_)
    estimate_.reason = AxialReason::Implausible;
  const bool complete = change == Change::Complete;
  if (estimate_.reason != AxialReason::Measured) {
    averaged_ = 0;
    if (complete && 2 * taken_ < follower_.frames()) {
      referenced_ = false;
      left_ = follower_.frames();
      taken_ = 0;
      sum_px_ = variance_sum_px2_ = sigma_sum_px_ = 0;
    }
    return estimate_;
  }
  const double cosine = std::cos(settings.angle_rad), sine = std::sin(settings.angle_rad);
  const Place place = {
      .along_px = cosine * spot.x_px + sine * spot.y_px,
      .variance_px2 = std::pow(cosine * spot.x_sd_px, 2) + std::pow(sine * spot.y_sd_px, 2)};
  if (!referenced_ && (left_ == 0 || own_)) {  // for now
    referenced_ = true;
    reference_px_ = place.along_px;
    reference_variance_px2_ = place.variance_px2;
    reference_sigma_px_ = spot.sigma_px;
  }
  const bool alone = left_ > 0;
  if (alone || (!kept_ && follower_.taking()) || complete) {
    sigma_sum_px_ += spot.sigma_px;
    const bool last = alone ? --left_ == 0 : complete;
    take(place, !last ? 0 : alone ? taken_ + 1 : follower_.frames());
    if (last) own_ = false;
  }
  if (!referenced_) {
    estimate_.reason = AxialReason::NoReference;
    return estimate_;
  }
  averaged_ = std::min(averaged_ + 1, std::max(1, settings.average_frames));
  mean_px_ += (place.along_px - mean_px_) / averaged_;
  const double nm2 = settings.nm_per_px * settings.nm_per_px;
  estimate_.valid = true;
  estimate_.frame_z_nm = settings.nm_per_px * (place.along_px - reference_px_);
  estimate_.frame_noise_nm2 = estimate_.frame_fit_noise_nm2 = nm2 * place.variance_px2;
  estimate_.frame_variance_nm2 = nm2 * (place.variance_px2 + reference_variance_px2_);
  estimate_.z_nm = settings.nm_per_px * (mean_px_ - reference_px_);
  estimate_.variance_nm2 = nm2 * (place.variance_px2 / averaged_ + reference_variance_px2_);
  estimate_.frames_averaged = averaged_;
  estimate_.in_range = 1;
  return estimate_;
}

}  // namespace driftd::control
