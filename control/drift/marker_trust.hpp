// SPDX-License-Identifier: MIT
// How much each marker counts in the drift by what is known of it beyond one frame: its reputation,
// and whether it is its turn to be a witness. Belongs to a set of markers. Tracking loop, once a
// frame's correction is on its way; no allocation after construction; noexcept.
#pragma once

#include <span>

#include "control/drift/drift_estimator.hpp"
#include "control/drift/marker_reputation.hpp"
#include "control/drift/witness_rotation.hpp"

namespace driftd::control {

class MarkerTrust {
 public:
  explicit MarkerTrust(std::span<const Marker> markers)
      : reputation_(markers.size()), rotation_(markers) {}

  /// What `estimator` made of a frame; tells it how much each marker counts from the next one on.
  void after_frame(DriftEstimator& estimator, const DriftEstimate& drift,
                   std::span<const MarkerObservation> observations,
                   const WitnessRotation::Frame& frame) noexcept {
    if (drift.valid) reputation_.see(estimator, drift, observations, frame.interval_s);
    rotation_.turn(estimator, reputation_, frame);
    for (std::size_t i = 0; i < estimator.markers().size(); ++i)
      estimator.set_part(i, rotation_.role(i), rotation_.share(i) * reputation_.weight(i));
  }
  const MarkerStanding& standing(std::size_t i) const noexcept { return reputation_.standing(i); }

 private:
  MarkerReputation reputation_;
  WitnessRotation rotation_;
};

}  // namespace driftd::control
