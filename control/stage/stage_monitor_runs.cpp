// SPDX-License-Identifier: MIT
// Finds a command that runs away unanswered: how far the sample and the modelled stage went in 64
// ms to a second.
#include <algorithm>
#include <array>
#include <cmath>

#include "control/stage/stage_monitor.hpp"

namespace driftd::control {
namespace {

/// A frame that no candidate explains to within so many standard deviations is a knock.
constexpr double kKnockSd2 = 6 * 6;
/// With so much evidence against it a candidate was seen not to be the stage: a run of its begins
/// anew.
constexpr double kRefuted = 4;
/// Where a candidate leaves more standard deviations of how far samples move it explains nothing.
constexpr double kMostLeftSd2 = 2.5 * 2.5;
/// What may be a run is not learnt as the sample's own motion from this share of an alarm on.
constexpr double kShareToLearn = 0.4;
/// A modelled stage that went less stood still.
constexpr double kAtRestNm = 0.01;
/// A false alarm is long ago when another takes no more than so many times the usual doubt.
constexpr double kBelieved = 1.5;
/// A law that a slow driver makes swing goes to and fro within the shortest lag.
constexpr std::size_t kFirstLag = 1;

}  // namespace

/// The sample jumped, whatever the stage is.
bool StageMonitor::is_knock() const noexcept {
  const auto explains = [this](const Candidate& c) {
    const Vec2 n = c.innovation_nm;
    return n.x * n.x <= kKnockSd2 * variance_nm2_.x && n.y * n.y <= kKnockSd2 * variance_nm2_.y;
  };
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(responses_.size());
  return std::none_of(candidates_.begin(), end, explains);
}

/// Innovations tell little of a command that runs away smoothly: to them that is a motion of the
/// sample's own which is just cancelled. But no sample begins to move so far.
void StageMonitor::weigh_displacements(const ObservedFrame& sample) noexcept {
  const Vec2 measured_nm2{sample.covariance_nm2.xx, sample.covariance_nm2.yy};
  const bool complete =
      displacements_.add({sample.moved_nm, sample.modelled_nm, measured_nm2, sample.taken_ns});
  Run run;
  for (std::size_t lag = 0; complete && lag < DisplacementRecord::kLags; ++lag) {
    const auto d = displacements_.over(lag);
    if (!d) break;
    if (lag >= kFirstLag) weigh_displacement(*d, run);
    if (is_sure() && run.evidence < kShareToLearn * kAlarm) learn_displacement(lag, *d);
  }
  if (!verdict_.follows || moves_at_rest_ < kMovesToJudge || run.evidence < kAlarm) return;
  accuse(responses_[run.candidate].looks, run.from_nm);
}

/// A run that is slow at first is seen over the longer lags only: by then its beginning must not
/// be known for the sample's own. A stage at rest makes none; and where an alarm was found to be
/// false the sample did run.
void StageMonitor::learn_displacement(std::size_t lag, const Displacement& newest) noexcept {
  const Vec2 way = newest.modelled_nm;
  const bool at_rest = std::max(std::abs(way.x), std::abs(way.y)) < kAtRestNm;
  if (at_rest || (was_false_ && alarm_ > kBelieved * kAlarm))
    displacements_.learn(lag, newest);
  else if (const auto older = displacements_.over(lag, DisplacementRecord::kLearntLater))
    displacements_.learn(lag, *older);
}

/// The log-likelihood ratio of each candidate against the model.
void StageMonitor::weigh_displacement(const Displacement& d, Run& best) noexcept {
  const auto left_by = [&d](const Response& r) {
    const Vec2 left{d.moved_nm.x - (r.a * d.modelled_nm.x + r.b * d.modelled_nm.y),
                    d.moved_nm.y - (r.c * d.modelled_nm.x + r.d * d.modelled_nm.y)};
    return Vec2{left.x * left.x / d.variance_nm2.x, left.y * left.y / d.variance_nm2.y};
  };
  const Vec2 by_model = left_by(responses_[0]);
  for (std::size_t i = 1; i < responses_.size(); ++i) {
    Candidate& c = candidates_[i];
    const Vec2 left = left_by(responses_[i]);
    const double evidence = 0.5 * (by_model.x + by_model.y - left.x - left.y);
    if (evidence <= -kRefuted) c.refuted_block = displacements_.last_block();
    const bool explains = std::max(left.x, left.y) <= kMostLeftSd2;
    if (explains && d.first_block >= c.refuted_block && evidence > best.evidence)
      best = {evidence, i, d.from_nm};
  }
}

}  // namespace driftd::control
