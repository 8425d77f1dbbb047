// SPDX-License-Identifier: MIT
// What each marker is worth by its past: an account, forgotten over minutes, of how often it was
// good, how its residuals scatter against what its fits promise, and how far it has moved against
// the others. The drift estimator judges a frame, or a second at most. The reputation finds a
// marker that walks a nanometre a minute, and does not trust at once one that has just come back.
// Owned by MarkerTrust. Tracking loop, once a frame is on its way; no allocation after
// construction; noexcept.
//
// A reputation is a weight. It is exactly 1 for every marker that does what was promised: it costs
// no precision where all is well.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

enum class StandingReason : std::uint8_t {
  Good,
  SeldomSeen,  ///< it is not good in too many frames
  Noisy,       ///< scatters more than its fits promise, and than the others do
  Moved,       ///< its place has moved against the others'
  Returning,   ///< nothing is wrong any more, but was
};
const char* name_of(StandingReason reason) noexcept;

struct MarkerStanding {
  double reputation = 1;  ///< 0..1
  StandingReason reason = StandingReason::Good;
  bool excluded = false;  ///< it does not count at all until it has recovered
  double good_share = 1;  ///< of the frames of the last minute
  /// Mean square of its residuals, less their mean, over what its fits promise; of the last minute.
  double chi_square = 1;
  Vec2 moved_nm =
      {};  ///< mean of the last seconds: its place against the others', since the reference
  /// Not a number: not known yet.
  Vec2 walk_nm_per_min = {std::numeric_limits<double>::quiet_NaN(),
                          std::numeric_limits<double>::quiet_NaN()};
};

class MarkerReputation {
 public:
  // Time constants, s.
  static constexpr double kMinuteS = 60;     ///< good_share, chi_square, and a first return
  static constexpr double kPlaceS = 10;      ///< moved_nm
  static constexpr double kWalkS = 300;      ///< the older place that walk_nm_per_min is against
  static constexpr double kFallS = 1;        ///< of a reputation on its way down
  static constexpr double kOffenceS = 3600;  ///< how often a marker was excluded
  /// Markers excluded again and again return more slowly: by 2 for each time, at most by so much.
  static constexpr double kSlowestReturn = 32;
  /// A marker is excluded below, and counts again above.
  static constexpr double kExcludedBelow = 0.1, kBackAbove = 0.5;
  /// No marker whose place is nearer to the others' than this share of
  /// EstimatorSettings::outlier_floor_nm has moved; up to half of its limit it counts in full.
  static constexpr double kLimitShare = 0.25, kFlatShare = 0.5;
  /// A marker loses weight from so many times the others' chi-square on.
  static constexpr double kNoisyFrom = 1.5;
  /// Good in less than this share of the frames it loses weight, all of it at the lesser one.
  static constexpr double kSeenEnough = 0.75, kSeenNever = 0.25;

  explicit MarkerReputation(std::size_t markers);

  /// A frame whose drift is valid. @param interval_s  since the frame before
  void see(const DriftEstimator& estimator, const DriftEstimate& drift,
           std::span<const MarkerObservation> observations, double interval_s) noexcept;

  const MarkerStanding& standing(std::size_t i) const noexcept { return accounts_[i].standing; }
  /// Factor on its weight.
  double weight(std::size_t i) const noexcept {
    const MarkerStanding& s = accounts_[i].standing;
    return s.excluded ? 0 : s.reputation;
  }

 private:
  struct Account {
    MarkerStanding standing;
    // The place, since the marker got its reference.
    int frames = 0;
    double age_s = 0, place_age_s = 0, old_place_age_s = 0;
    Vec2 old_place_nm;
    double limit_nm = 0;  ///< half of it is explained by noise and reference
    double offences = 0;
  };

  void forget_place(Account& account) noexcept;
  void account_for(std::size_t i, const DriftEstimator& estimator, const DriftEstimate& drift,
                   const MarkerObservation& observation, double interval_s) noexcept;
  double votes_of(const DriftEstimator& estimator) const noexcept;
  void judge(const DriftEstimator& estimator, double interval_s) noexcept;
  void decide(Account& account, double moved_limit_nm, double noisy_from,
              double interval_s) noexcept;
  void follow(MarkerStanding& standing, double& offences, double deserved,
              double interval_s) noexcept;
  template <typename Value>
  double typical(const DriftEstimator& estimator, Value value_of) noexcept;

  std::vector<Account> accounts_;
  std::vector<double> scratch_;
  double votes_ = 0;  ///< of the frame: shares of the tracking markers that are good
  std::uint32_t references_ = 0;
};

}  // namespace driftd::control
