// SPDX-License-Identifier: MIT
#include "control/axial/reflection_estimator.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// The spot's light at its reference follows a laser that ages.
constexpr double kLightFrames = 4096;

}  // namespace

/// A reference of its own, of so many frames; 0: none.
void ReflectionEstimator::restart(int frames) noexcept {
  left_ = frames;
  taken_ = 0;
  sum_ = {};
}

/// Adds a frame to the reference under way. @param frames  0: it goes on; else it is complete if it
/// has half of so many
void ReflectionEstimator::take(const Look& look, int frames) noexcept {
  ++taken_;
  sum_.along_px += look.along_px;
  sum_.across_px += look.across_px;
  sum_.variance_px2 += look.variance_px2;
  sum_.sigma_px += look.sigma_px;
  sum_.light += look.light;
  if (frames == 0) return;
  referenced_ = 2 * taken_ >= frames;
  if (referenced_) {
    const double n = taken_;
    reference_ = {.along_px = sum_.along_px / n,
                  .across_px = sum_.across_px / n,
                  .variance_px2 = sum_.variance_px2 / n / n,
                  .sigma_px = sum_.sigma_px / n,
                  .light = sum_.light / n};
    ++zeros_;
  }
  averaged_ = 0;
  restart(referenced_ ? 0 : frames);
}

/// By width, light and place: a bead or dust that the fit took for the spot.
bool ReflectionEstimator::is_another(const ReflectionSettings& settings,
                                     const Look& look) const noexcept {
  const Look& known = reference_;
  const double most_off_px = kMostOffLineSigmas * known.sigma_px +
                             kMostOffLineShare * std::abs(look.along_px - known.along_px);
  return !(std::abs(look.sigma_px - known.sigma_px) <= settings.max_width_change * known.sigma_px &&
           look.light <= kMostLight * known.light && known.light <= kMostLight * look.light &&
           std::abs(look.across_px - known.across_px) <= most_off_px);
}

void ReflectionEstimator::begin_reference(int frames) noexcept {
  own_ = true;
  referenced_ = false;
  averaged_ = 0;
  restart(std::max(1, frames));
}

const AxialEstimate& ReflectionEstimator::update(const ReflectionSettings& settings,
                                                 const ReflectedSpot& spot,
                                                 const DriftEstimator* lateral) noexcept {
  using Change = ReferenceFollower::Change;
  const Change seen = lateral != nullptr ? follower_.follow(*lateral) : Change::None;
  const Change change = kept_ ? Change::None : seen;
  if (change == Change::NewZero) {
    referenced_ = own_ = false;
    averaged_ = 0;
    restart(0);
  }
  if (wanted_) {
    reference_ = *wanted_;
    wanted_.reset();
    referenced_ = true;
    own_ = false;
    averaged_ = 0;
    restart(0);
    ++zeros_;
  }
  estimate_ = {};
  estimate_.reason = spot.reason;
  estimate_.has_company = spot.has_company;
  estimate_.company_px = spot.company_px;
  const double cosine = std::cos(settings.angle_rad), sine = std::sin(settings.angle_rad);
  const Look look = {
      .along_px = cosine * spot.x_px + sine * spot.y_px,
      .across_px = cosine * spot.y_px - sine * spot.x_px,
      .variance_px2 = std::pow(cosine * spot.x_sd_px, 2) + std::pow(sine * spot.y_sd_px, 2),
      .sigma_px = spot.sigma_px,
      .light = spot.light};
  if (spot.reason == AxialReason::Measured && referenced_ && is_another(settings, look))
    estimate_.reason = AxialReason::Implausible;
  const bool complete = change == Change::Complete;
  if (estimate_.reason != AxialReason::Measured) {
    averaged_ = 0;
    if (complete && 2 * taken_ < follower_.frames()) {
      referenced_ = false;
      restart(follower_.frames());
    }
    return estimate_;
  }
  if (!referenced_ && (left_ == 0 || own_)) {  // for now
    referenced_ = true;
    reference_ = look;
    ++zeros_;
  }
  const bool alone = left_ > 0;
  if (alone || (!kept_ && follower_.taking()) || complete) {
    const bool last = alone ? --left_ == 0 : complete;
    take(look, !last ? 0 : alone ? taken_ + 1 : follower_.frames());
    if (last) own_ = false;
  }
  if (!referenced_) {
    estimate_.reason = AxialReason::NoReference;
    return estimate_;
  }
  reference_.light += (look.light - reference_.light) / kLightFrames;
  averaged_ = std::min(averaged_ + 1, std::max(1, settings.average_frames));
  mean_px_ += (look.along_px - mean_px_) / averaged_;
  const double nm2 = settings.nm_per_px * settings.nm_per_px;
  estimate_.valid = true;
  estimate_.frame_z_nm = settings.nm_per_px * (look.along_px - reference_.along_px);
  estimate_.frame_noise_nm2 = estimate_.frame_fit_noise_nm2 = nm2 * look.variance_px2;
  estimate_.frame_variance_nm2 = nm2 * (look.variance_px2 + reference_.variance_px2);
  estimate_.z_nm = settings.nm_per_px * (mean_px_ - reference_.along_px);
  estimate_.variance_nm2 = nm2 * (look.variance_px2 / averaged_ + reference_.variance_px2);
  estimate_.frames_averaged = averaged_;
  estimate_.in_range = 1;
  return estimate_;
}

}  // namespace driftd::control
