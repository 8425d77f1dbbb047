// SPDX-License-Identifier: MIT
// Which markers are witnesses: the role goes round, one marker at a time, so that each one is
// checked by the others in its turn. Owned by MarkerTrust. Tracking loop; no allocation after
// construction; noexcept.
//
// References stay those of the lock, and weights are faded. Where a marker's reference is wrong by
// e_i, it shows d_i = D + e_i, and the drift measured is D + sum w_i e_i. Whichever markers track,
// that error is a mean of the same few constants: it is bounded by the largest of them and does not
// add up. (If a marker that comes in got a new reference from the consensus, the error of each one
// would stay in the mean for ever, and the place would walk at random.) The fade turns a step of
// (e_in - e_out) / n into a ramp of kFadeS.
#pragma once

#include <cstdint>
#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "control/drift/marker_reputation.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

class WitnessRotation {
 public:
  static constexpr double kFadeS = 10;  ///< of each of the three fades of an exchange
  /// A marker changes its role only with such a reputation.
  static constexpr double kTrusted = 0.9;

  struct Frame {
    double interval_s = 0;
    bool locked = false;
    double period_s = 0;  ///< from one exchange to the next; 0: none
  };

  explicit WitnessRotation(std::span<const Marker> markers);
  void turn(const DriftEstimator& estimator, const MarkerReputation& reputation,
            const Frame& frame) noexcept;
  MarkerRole role(std::size_t i) const noexcept { return parts_[i].role; }
  /// In the mean of its role, 0..1.
  double share(std::size_t i) const noexcept { return parts_[i].share; }

 private:
  enum class Phase : std::uint8_t {
    Resting,
    Leaving,     ///< `leaves` fades out of the drift, then is a witness
    Exchanging,  ///< among the witnesses it fades in, and `enters` out
    Entering,    ///< which then tracks, and fades into the drift
  };
  struct Part {
    MarkerRole role = MarkerRole::Tracking;
    double share = 1;
    double served_s = 0;  ///< in this role
  };

  void begin(const DriftEstimator& estimator, const MarkerReputation& reputation) noexcept;
  void fade(double step) noexcept;
  void give_up() noexcept;
  int trackers(const DriftEstimator& estimator, const MarkerReputation& reputation) const noexcept;

  std::vector<Part> parts_;
  Phase phase_ = Phase::Resting;
  double progress_ = 0;  ///< of the phase
  double rested_s_ = 0;
  std::size_t leaves_ = 0, enters_ = 0;
};

}  // namespace driftd::control
