// SPDX-License-Identifier: MIT
#include "control/drift/witness_rotation.hpp"

#include <algorithm>
#include <optional>

namespace driftd::control {
namespace {

/// A frame that comes after a pause counts as so much time, at most.
constexpr double kLongestIntervalS = 0.5;
/// So many more than drift.min_markers have to be left: any marker is an outlier now and then.
constexpr int kSpare = 1;

}  // namespace

WitnessRotation::WitnessRotation(std::span<const Marker> markers) {
  for (const Marker& marker : markers) parts_.push_back({.role = marker.role});
}

void WitnessRotation::turn(const DriftEstimator& estimator, const MarkerReputation& reputation,
                           const Frame& frame) noexcept {
  const double step_s = std::clamp(frame.interval_s, 0.0, kLongestIntervalS);
  for (Part& part : parts_) part.served_s += step_s;
  if (phase_ != Phase::Resting) {
    if (trackers(estimator, reputation) < estimator.settings().min_markers)
      give_up();
    else
      fade(step_s / kFadeS);
    return;
  }
  if (!frame.locked || !(frame.period_s > 0)) return;
  rested_s_ += step_s;
  if (rested_s_ >= frame.period_s) begin(estimator, reputation);
}

/// Those that bear the drift now.
int WitnessRotation::trackers(const DriftEstimator& estimator,
                              const MarkerReputation& reputation) const noexcept {
  int count = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const bool bears = parts_[i].role == MarkerRole::Tracking && parts_[i].share >= 0.5 &&
                       reputation.weight(i) > 0 &&
                       estimator.results()[i].health == MarkerHealth::Good;
    count += bears ? 1 : 0;
  }
  return count;
}

/// The witness and the tracking marker that have served longest, of those that are trusted; of
/// equals the first.
void WitnessRotation::begin(const DriftEstimator& estimator,
                            const MarkerReputation& reputation) noexcept {
  if (trackers(estimator, reputation) - 1 < estimator.settings().min_markers + kSpare) return;
  std::optional<std::size_t> leaves, enters;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (reputation.weight(i) < kTrusted) continue;
    if (estimator.results()[i].health != MarkerHealth::Good) continue;
    auto& oldest = parts_[i].role == MarkerRole::Tracking ? leaves : enters;
    if (!oldest || parts_[i].served_s > parts_[*oldest].served_s) oldest = i;
  }
  if (!leaves || !enters) return;
  leaves_ = *leaves;
  enters_ = *enters;
  phase_ = Phase::Leaving;
  progress_ = 0;
  rested_s_ = 0;
}

void WitnessRotation::fade(double step) noexcept {
  progress_ = std::min(1.0, progress_ + step);
  const bool over = progress_ >= 1;
  Part& leaves = parts_[leaves_];
  Part& enters = parts_[enters_];
  switch (phase_) {
    case Phase::Resting:
      return;
    case Phase::Leaving:
      leaves.share = 1 - progress_;
      if (over) leaves = {.role = MarkerRole::Witness, .share = 0};
      break;
    case Phase::Exchanging:
      leaves.share = progress_;
      enters.share = 1 - progress_;
      if (over) enters = {.role = MarkerRole::Tracking, .share = 0};
      break;
    case Phase::Entering:
      enters.share = progress_;
      break;
  }
  if (!over) return;
  progress_ = 0;
  phase_ = phase_ == Phase::Leaving      ? Phase::Exchanging
           : phase_ == Phase::Exchanging ? Phase::Entering
                                         : Phase::Resting;
}

/// Markers were lost meanwhile: a marker that tracks, or is about to, does so in full at once.
void WitnessRotation::give_up() noexcept {
  Part& leaves = parts_[leaves_];
  Part& enters = parts_[enters_];
  if (phase_ != Phase::Entering) leaves.role = MarkerRole::Tracking;
  leaves.share = enters.share = 1;
  phase_ = Phase::Resting;
  progress_ = 0;
}

}  // namespace driftd::control
