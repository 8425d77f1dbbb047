// SPDX-License-Identifier: MIT
#include "control/drift/marker_reputation.hpp"

#include <algorithm>
#include <cmath>

#include "control/drift/consensus.hpp"

namespace driftd::control {
namespace {

constexpr int kEnoughFrames = 1'000'000'000;  // counted no further
/// One frame alone says no more than five standard deviations.
constexpr double kLargestChiSquare = 25;
/// A residual counts in the mean at most as so many limits: who was far away may come back.
constexpr double kLargestResidual = 4;
/// A walk is known once the two places that it is between are so far apart in time.
constexpr double kWalkKnownS = 10;
/// After a pause of the camera a marker is not worth more or less.
constexpr double kLongestIntervalS = 0.5;
/// Almost 1: the reputation is back.
constexpr double kRecovered = 0.99;

double length(Vec2 v) noexcept {
  return std::hypot(v.x, v.y);
}

double mean_of(Vec2 v) noexcept {
  return 0.5 * (v.x + v.y);
}

void approach(Vec2& mean, Vec2 value, double share) noexcept {
  mean.x += share * (value.x - mean.x);
  mean.y += share * (value.y - mean.y);
}

/// 1 up to `flat`, smoothly down to 0 at `limit`.
double trapezium(double value, double flat, double limit) noexcept {
  return value <= flat ? 1 : biweight(value - flat, limit - flat);
}

}  // namespace

MarkerReputation::MarkerReputation(std::size_t markers) : accounts_(markers), scratch_(markers) {}

void MarkerReputation::forget_place(Account& account) noexcept {
  account.frames = 0;
  account.age_s = account.place_age_s = account.old_place_age_s = 0;
  account.standing.moved_nm = account.old_place_nm = {};
  account.standing.walk_nm_per_min = MarkerStanding{}.walk_nm_per_min;
}

void MarkerReputation::see(const DriftEstimator& estimator, const DriftEstimate& drift,
                           std::span<const MarkerObservation> observations,
                           double interval_s) noexcept {
  const double step_s = std::clamp(interval_s, 0.0, kLongestIntervalS);
  if (references_ != estimator.references()) {
    references_ = estimator.references();
    for (Account& account : accounts_) forget_place(account);
  }
  votes_ = votes_of(estimator);
  const std::size_t count =
      std::min({accounts_.size(), observations.size(), estimator.markers().size()});
  for (std::size_t i = 0; i < count; ++i) account_for(i, estimator, drift, observations[i], step_s);
  judge(estimator, step_s);
}

double MarkerReputation::votes_of(const DriftEstimator& estimator) const noexcept {
  double votes = 0;
  for (std::size_t i = 0; i < std::min(accounts_.size(), estimator.markers().size()); ++i)
    if (estimator.markers()[i].role == MarkerRole::Tracking &&
        estimator.results()[i].health == MarkerHealth::Good)
      votes += estimator.share(i);
  return votes;
}

/// The residual is against a mean in which the marker itself has a share w: against the mean of
/// the others it is 1 / (1 - w) of that.
void MarkerReputation::account_for(std::size_t i, const DriftEstimator& estimator,
                                   const DriftEstimate& drift, const MarkerObservation& observation,
                                   double interval_s) noexcept {
  Account& a = accounts_[i];
  MarkerStanding& s = a.standing;
  const MarkerResult& result = estimator.results()[i];
  const bool good = result.health == MarkerHealth::Good;
  const double minute_share = std::min(1.0, interval_s / kMinuteS);
  s.good_share += minute_share * ((good ? 1 : 0) - s.good_share);
  if (result.health == MarkerHealth::Unreferenced) forget_place(a);
  if (!good && result.health != MarkerHealth::Outlier) return;

  const bool votes = good && estimator.markers()[i].role == MarkerRole::Tracking && votes_ > 0;
  const double own = votes ? std::min(0.5, estimator.share(i) / votes_) : 0;
  const double noise_nm2 =
      mean_of(estimator.noise_nm2(i, observation)) + mean_of(drift.frame_noise_nm2) / (1 - own);
  const double reference_nm2 = estimator.reference(i).variance_nm2 * (1 + own);
  const EstimatorSettings& settings = estimator.settings();
  a.frames = std::min(a.frames + 1, kEnoughFrames);
  const double place_share = std::max(1.0 / a.frames, std::min(1.0, interval_s / kPlaceS));
  const double mean_nm2 = noise_nm2 * place_share + reference_nm2;
  a.limit_nm = std::max(kLimitShare * settings.outlier_floor_nm,
                        settings.outlier_sigma * std::sqrt(mean_nm2) / kFlatShare);

  Vec2 residual = {result.residual_nm.x / (1 - own), result.residual_nm.y / (1 - own)};
  const double largest_nm =
      kLargestResidual * std::max(a.limit_nm, settings.outlier_sigma * std::sqrt(noise_nm2));
  const double far = length(residual) / largest_nm;
  if (far > 1) residual = {residual.x / far, residual.y / far};
  const Vec2 off = {residual.x - s.moved_nm.x, residual.y - s.moved_nm.y};
  if (a.frames > 1)
    s.chi_square += minute_share * (std::min(kLargestChiSquare,
                                             (off.x * off.x + off.y * off.y) / (2 * noise_nm2)) -
                                    s.chi_square);

  const double old_share = std::max(1.0 / a.frames, std::min(1.0, interval_s / kWalkS));
  a.age_s += interval_s;
  approach(s.moved_nm, residual, place_share);
  approach(a.old_place_nm, residual, old_share);
  a.place_age_s += place_share * (a.age_s - a.place_age_s);
  a.old_place_age_s += old_share * (a.age_s - a.old_place_age_s);
  const double between_s = a.place_age_s - a.old_place_age_s;
  if (between_s < kWalkKnownS) return;
  s.walk_nm_per_min = {60 * (s.moved_nm.x - a.old_place_nm.x) / between_s,
                       60 * (s.moved_nm.y - a.old_place_nm.y) / between_s};
}

/// The lower median over the tracking markers that are trusted; 0: there is none.
template <typename Value>
double MarkerReputation::typical(const DriftEstimator& estimator, Value value_of) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < std::min(accounts_.size(), estimator.markers().size()); ++i) {
    const Account& a = accounts_[i];
    if (estimator.markers()[i].role != MarkerRole::Tracking || a.standing.excluded) continue;
    if (a.frames > 0) scratch_[count++] = value_of(a);
  }
  return count == 0 ? 0 : lower_median(std::span(scratch_).first(count));
}

/// The markers themselves say how steady (expansion, tilt) and how noisy (a fitter that promises
/// too much) they are to one another: most of them can never be bad.
void MarkerReputation::judge(const DriftEstimator& estimator, double interval_s) noexcept {
  const double common_nm =
      estimator.settings().outlier_sigma / kRayleighMedian *
      typical(estimator, [](const Account& a) { return length(a.standing.moved_nm); });
  const double noisy_from =
      kNoisyFrom *
      std::max(1.0, typical(estimator, [](const Account& a) { return a.standing.chi_square; }));
  for (Account& account : accounts_)
    decide(account, std::max(account.limit_nm, common_nm), noisy_from, interval_s);
}

void MarkerReputation::decide(Account& account, double moved_limit_nm, double noisy_from,
                              double interval_s) noexcept {
  MarkerStanding& s = account.standing;
  const double seen =
      std::clamp((s.good_share - kSeenNever) / (kSeenEnough - kSeenNever), 0.0, 1.0);
  const double quiet = s.chi_square > noisy_from ? noisy_from / s.chi_square : 1;
  const double place = account.frames > 0 ? trapezium(length(s.moved_nm),
                                                      kFlatShare * moved_limit_nm, moved_limit_nm)
                                          : 1;
  follow(s, account.offences, seen * quiet * place, interval_s);
  if (seen * quiet * place >= 1)
    s.reason = s.reputation < kRecovered ? StandingReason::Returning : StandingReason::Good;
  else if (place <= quiet && place <= seen)
    s.reason = StandingReason::Moved;
  else
    s.reason = quiet <= seen ? StandingReason::Noisy : StandingReason::SeldomSeen;
}

/// Down within a second, up within minutes, more slowly after each time that it was excluded.
void MarkerReputation::follow(MarkerStanding& s, double& offences, double deserved,
                              double interval_s) noexcept {
  offences -= std::min(1.0, interval_s / kOffenceS) * offences;
  const double slower = std::min(kSlowestReturn, std::exp2(std::max(0.0, offences - 1)));
  const double time_s = deserved < s.reputation ? kFallS : kMinuteS * slower;
  s.reputation += std::min(1.0, interval_s / time_s) * (deserved - s.reputation);
  if (deserved >= 1 && s.reputation >= kRecovered) s.reputation = 1;
  if (!s.excluded && s.reputation < kExcludedBelow) {
    s.excluded = true;
    ++offences;
  } else if (s.excluded && s.reputation > kBackAbove) {
    s.excluded = false;
  }
}

const char* name_of(StandingReason reason) noexcept {
  switch (reason) {
    case StandingReason::Good:
      return "good";
    case StandingReason::SeldomSeen:
      return "seldom_seen";
    case StandingReason::Noisy:
      return "noisy";
    case StandingReason::Moved:
      return "moved";
    case StandingReason::Returning:
      return "returning";
  }
  return "unknown";
}

}  // namespace driftd::control
