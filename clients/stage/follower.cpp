// SPDX-License-Identifier: MIT
#include "clients/stage/follower.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace driftd::stage {
namespace {

/// A stage that moves is at most so far behind its target.
constexpr double kLag_s = 0.1;
/// So long after a move the place at rest is that of the move: nobody else had time to move it.
constexpr std::int64_t kJustAtRest_ns = 500'000'000;
/// A stage is at rest where two readings so far apart in time differ by no more than this.
constexpr std::int64_t kApart_ns = 40'000'000;
constexpr double kStill_nm = 5;
/// A stage that was told to go farther than this, and is where it was, did not follow.
constexpr double kFarEnough_nm = 20;
constexpr int kRestsBorne = 2;
/// So many times its resolution outside its range, an axis is brought to the end of it.
constexpr double kNearEnd = 10;

}  // namespace

Follower::AxisRules Follower::rules_of(const AxisSettings& settings, Group group) {
  return {.scale = settings.reversed ? -settings.scale : settings.scale,
          .min_nm = settings.min_nm,
          .max_nm = settings.max_nm,
          .step_nm = settings.step_limit_nm,
          .rate_nm_per_s = settings.rate_limit_nm_per_s,
          .range_nm = settings.range_limit_nm,
          .from_nm = settings.min_nm,
          .to_nm = settings.max_nm,
          .fenced = group == Group::Axial};
}

Follower::Follower(Group group, std::span<const AxisSettings> settings)
    : letters_(letters_of(group)), count_(letters_.size()) {
  for (std::size_t i = 0; i < count_; ++i) {
    rules_[i] = rules_of(settings[i], group);
    place_unknown_[i] = true;
  }
}

void Follower::take_axes(std::span<const Axis> axes) {
  for (std::size_t i = 0; i < count_; ++i) {
    AxisRules& rules = rules_[i];
    rules.from_nm = std::max(rules.min_nm, axes[i].min_nm);
    rules.to_nm = std::min(rules.max_nm, axes[i].max_nm);
    rules.closed_loop = axes[i].closed_loop;
    rules.near_nm = kNearEnd * axes[i].resolution_nm;
    if (!(rules.from_nm < rules.to_nm)) {
      throw StageError(fmt::format(
          "axis {} travels from {} to {} nm: that has nothing of {}.min_nm {} to {}.max_nm {}",
          axes[i].name, axes[i].min_nm, axes[i].max_nm, letters_[i], rules.min_nm, letters_[i],
          rules.max_nm));
    }
  }
}

void Follower::connected(std::span<const Axis> axes, const PerAxis& position_nm) {
  take_axes(axes);
  before_.reset();
  for (std::size_t i = 0; i < count_; ++i) {
    Place& place = places_[i];
    if (place.offset_nm || place_unknown_[i] || !rules_[i].closed_loop) continue;
    place.offset_nm = behind_nm_[i];  // it never rested
    place.offset_in_doubt = true;
  }
  compare(position_nm, {});
  for (std::size_t i = 0; i < count_; ++i) {
    Place& place = places_[i];
    if (place_unknown_[i]) place.offset_nm.reset();  // found elsewhere
    // The line broke in a move: the step counts from here, the zero stays.
    if (under_way_) place.is_at(place.of_sensor(position_nm[i]));
  }
  under_way_ = false;
  may_be_at(position_nm);
}

void Follower::resumed(std::span<const Axis> axes, const PerAxis& position_nm) {
  PerAxis slack_nm{};
  for (std::size_t i = 0; i < count_; ++i) {
    const bool blind = !rules_[i].closed_loop && !axes[i].closed_loop;
    const double moved_nm = std::abs(position_nm[i] - disobeyed_nm_[i]);
    if (blind && moved_nm <= rules_[i].step_nm)
      slack_nm[i] = std::numeric_limits<double>::infinity();
  }
  take_axes(axes);
  compare(position_nm, slack_nm);
  may_be_at(position_nm);
}

/// Targets that were taken may never have arrived, and be no place to learn an offset from.
void Follower::may_be_at(const PerAxis& position_nm) {
  rest_unseen_ = false;
  for (std::size_t i = 0; i < count_; ++i) {
    Place& place = places_[i];
    rest_[i] = {.position_nm = position_nm[i], .target_nm = place.base_nm};
    if (place_unknown_[i] || !rules_[i].closed_loop) continue;
    place.may_be_at(place.of_sensor(position_nm[i]));
  }
}

PerAxis Follower::slack_nm(std::int64_t now_ns) const {
  PerAxis slack_nm{};
  for (std::size_t i = 0; i < count_; ++i) {
    const bool offset_known = places_[i].offset_nm && !places_[i].offset_in_doubt;
    const bool may_be_off = !at_rest(now_ns) || (may_tell_offset(now_ns) && !offset_known);
    // Without a sensor nothing tells that the stage is elsewhere than it was sent.
    slack_nm[i] = rules_[i].closed_loop || !places_[i].was_sent
                      ? (may_be_off ? rules_[i].rate_nm_per_s * kLag_s : 0)
                      : std::numeric_limits<double>::infinity();
  }
  return slack_nm;
}

bool Follower::at_rest(std::int64_t now_ns) const {
  return !last_ns_ || now_ns - *last_ns_ > kAtRest_ns;
}

/// What the sensor says now is what it says of the last target.
bool Follower::may_tell_offset(std::int64_t now_ns) const {
  return at_rest(now_ns) && rest_unseen_ && now_ns - *last_ns_ < kJustAtRest_ns;
}

bool Follower::surprises(const PerAxis& position_nm, std::int64_t now_ns) const {
  const PerAxis slack_nm = this->slack_nm(now_ns);
  for (std::size_t i = 0; i < count_; ++i)
    if (!place_unknown_[i] && is_away(i, position_nm[i], slack_nm[i])) return true;
  return false;
}

void Follower::seen(const PerAxis& position_nm, std::int64_t now_ns) {
  const bool may_tell = may_tell_offset(now_ns);
  if (at_rest(now_ns) && !may_tell) rest_unseen_ = false;
  const std::array<bool, kAxes> unknown = place_unknown_;
  compare(position_nm, slack_nm(now_ns));
  for (std::size_t i = 0; i < count_; ++i) {
    // It was on its way when it seemed to rest.
    if (place_unknown_[i] && !unknown[i] && learnt_ns_ && now_ns - *learnt_ns_ < kJustAtRest_ns)
      places_[i].offset_nm = before_ ? before_->places[i].offset_nm : std::nullopt;
  }
  note_behind();
  if (at_rest(now_ns)) watch_without_sensor(position_nm);
  if (may_tell && is_still(position_nm, now_ns)) learn(position_nm, now_ns);
}

/// Without a sensor z is where it was told to be, but what is read changes where another program
/// told it something else: to go back there at once would be a jump.
void Follower::watch_without_sensor(const PerAxis& position_nm) {
  for (std::size_t i = 0; i < count_; ++i) {
    Place& place = places_[i];
    if (!rules_[i].fenced || rules_[i].closed_loop || !place.was_sent) continue;
    if (!place.rest_nm) place.rest_nm = position_nm[i];
    if (std::abs(position_nm[i] - *place.rest_nm) > rules_[i].step_nm) place_unknown_[i] = true;
  }
}

/// Where it never rests: what two looks in a row say is that of the sensor.
void Follower::note_behind() {
  for (std::size_t i = 0; i < count_; ++i) {
    const Place& place = places_[i];
    if (place_unknown_[i] || behind_nm_[i] || place.lowest_nm != place.highest_nm) continue;
    const double behind_nm = position_nm_[i] - place.base_nm;
    if (last_behind_nm_[i] && std::abs(behind_nm - *last_behind_nm_[i]) <= kStill_nm)
      behind_nm_[i] = behind_nm;
    last_behind_nm_[i] = behind_nm;
  }
}

/// Two readings in a row, some time apart, say the same.
bool Follower::is_still(const PerAxis& position_nm, std::int64_t now_ns) {
  if (first_ns_ && now_ns - *first_ns_ < kApart_ns) return false;
  bool still = first_ns_.has_value();
  for (std::size_t i = 0; i < count_; ++i) {
    const bool moves = !(std::abs(position_nm[i] - first_nm_[i]) <= kStill_nm);
    if (rules_[i].closed_loop && moves) still = false;
  }
  first_ns_ = now_ns;
  first_nm_ = position_nm;
  return still;
}

void Follower::learn(const PerAxis& position_nm, std::int64_t now_ns) {
  rest_unseen_ = false;
  learnt_ns_ = now_ns;
  for (std::size_t i = 0; i < count_; ++i) {
    if (!rules_[i].closed_loop || place_unknown_[i]) continue;
    Place& place = places_[i];
    Rest& rest = rest_[i];
    if (std::abs(place.base_nm - rest.target_nm) > kFarEnough_nm) {
      const bool went = std::abs(position_nm[i] - rest.position_nm) > kStill_nm;
      rest = {.position_nm = position_nm[i],
              .target_nm = place.base_nm,
              .in_vain = went ? 0 : rest.in_vain + 1};
    }
    if (rest.in_vain > 0) continue;  // what it says is not of this target
    const double off_nm = position_nm[i] - place.base_nm;
    if (!place.offset_nm || place.offset_in_doubt) place.first_offset_nm = off_nm;
    place.offset_nm = std::clamp(off_nm, place.first_offset_nm - rules_[i].step_nm,
                                 place.first_offset_nm + rules_[i].step_nm);
    place.offset_in_doubt = false;
  }
}

std::optional<std::size_t> Follower::take_in_vain() {
  for (std::size_t i = 0; i < count_; ++i) {
    if (rest_[i].in_vain >= kRestsBorne && !std::exchange(rest_[i].told, true)) return i;
  }
  return std::nullopt;
}

bool Follower::stays_in_vain() const {
  return std::ranges::any_of(rest_, [](const Rest& rest) { return rest.in_vain >= kRestsBorne; });
}

bool Follower::is_away(std::size_t axis, double position_nm, double slack_nm) const {
  const Place& place = places_[axis];
  const double away_nm = std::abs(place.of_sensor(position_nm) - place.base_nm);
  return !(away_nm <= rules_[axis].step_nm + slack_nm);
}

void Follower::compare(const PerAxis& position_nm, const PerAxis& slack_nm) {
  position_nm_ = position_nm;
  for (std::size_t i = 0; i < count_; ++i)
    if (is_away(i, position_nm[i], slack_nm[i])) place_unknown_[i] = true;
}

Verdict Follower::judge(const Correction& correction, std::int64_t now_ns) const {
  if (now_ns > correction.expires_ns) return Verdict::Expired;
  if (old_sessions_.contains(correction.session)) return Verdict::OldSession;
  if (correction.session == session_ && correction.lock_id < lock_id_) return Verdict::OldLock;
  return Verdict::Move;
}

bool Follower::is_new_lock(const Correction& correction) const {
  return correction.session != session_ || correction.lock_id != lock_id_;
}

bool Follower::takes_zero(const Correction& correction) const {
  return is_new_lock(correction) || std::ranges::count(place_unknown_, true) > 0;
}

std::optional<double> Follower::beyond_ends_nm() const {
  for (std::size_t i = 0; i < count_; ++i) {
    const AxisRules& rules = rules_[i];
    const double nm =
        place_unknown_[i] ? places_[i].of_sensor(position_nm_[i]) : places_[i].base_nm;
    const bool within = nm >= rules.from_nm - rules.near_nm && nm <= rules.to_nm + rules.near_nm;
    if (rules.fenced && !within) return nm;
  }
  return std::nullopt;
}

Target Follower::plan(const Correction& correction, std::int64_t now_ns) {
  const bool new_lock = is_new_lock(correction);
  if (session_ && correction.session != session_) old_sessions_.insert(*session_);
  session_ = correction.session;
  lock_id_ = correction.lock_id;
  Target target;
  for (std::size_t i = 0; i < count_; ++i) {
    const double total_nm = rules_[i].scale * correction.total_nm[i];
    const double delta_nm = rules_[i].scale * correction.delta_nm[i];
    Place& place = places_[i];
    const bool unknown = std::exchange(place_unknown_[i], false);
    if (unknown) {
      place.is_at(place.of_sensor(position_nm_[i]));
      place.offset_in_doubt = true;  // it may be another one there
      place.was_sent = false;
      place.rest_nm.reset();
      rest_[i].position_nm = position_nm_[i];
      rest_[i].target_nm = place.base_nm;
      behind_nm_[i] = last_behind_nm_[i] = std::nullopt;
      zero_nm_[i] = place.base_nm - (total_nm - delta_nm);
    }
    if (new_lock) {
      fence_nm_[i] = place.base_nm;
      if (!unknown) zero_nm_[i] = place.base_nm;
    }
    target.nm[i] = limit(i, zero_nm_[i] + total_nm, now_ns, target.limited[i]);
  }
  return target;
}

double Follower::limit(std::size_t axis, double wanted_nm, std::int64_t now_ns,
                       Limited& limited) const {
  const AxisRules& rules = rules_[axis];
  const double zero_nm = zero_nm_[axis];
  const Place& place = places_[axis];
  // A stage that was found outside may stay there or come back, as the corrections say.
  const auto bounded = [&](double nm, double low_nm, double high_nm) {
    if (place.base_nm < low_nm - rules.near_nm) low_nm = place.base_nm;
    if (place.base_nm > high_nm + rules.near_nm) high_nm = place.base_nm;
    return std::clamp(nm, low_nm, high_nm);
  };
  double target_nm = bounded(wanted_nm, zero_nm - rules.range_nm, zero_nm + rules.range_nm);
  if (rules.fenced)
    target_nm =
        bounded(target_nm, fence_nm_[axis] - rules.range_nm, fence_nm_[axis] + rules.range_nm);
  target_nm = bounded(target_nm, rules.from_nm, rules.to_nm);
  limited.range = std::abs(target_nm - wanted_nm) > rules.near_nm;
  double most_nm = rules.step_nm;
  bool by_rate = false;
  if (last_ns_) {
    const auto elapsed_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - *last_ns_));
    const double rate_nm = rules.rate_nm_per_s * elapsed_ns * 1e-9;
    by_rate = rate_nm < most_nm;
    most_nm = std::min(most_nm, rate_nm);
  }
  // Near enough to every place where it may be.
  const double middle_nm = std::midpoint(place.lowest_nm, place.highest_nm);
  double kept_nm = std::clamp(target_nm, std::min(place.highest_nm - most_nm, middle_nm),
                              std::max(place.lowest_nm + most_nm, middle_nm));
  // A place beyond an end that only may be is no reason to go beyond it.
  if (rules.fenced) kept_nm = bounded(kept_nm, rules.from_nm, rules.to_nm);
  (by_rate ? limited.rate : limited.step) = kept_nm != target_nm;
  return kept_nm;
}

void Follower::moved(const Target& target, std::int64_t now_ns) {
  before_ = {.places = places_, .last_nm = last_nm_};
  first_ns_.reset();
  last_nm_ = target.nm;
  for (std::size_t i = 0; i < count_; ++i) {
    places_[i].is_at(target.nm[i]);
    places_[i].was_sent = true;
    places_[i].rest_nm.reset();
  }
  last_ns_ = now_ns;
  under_way_ = false;
  rest_unseen_ = true;
}

void Follower::not_taken() {
  if (!before_) return;
  const Target target{.nm = *last_nm_};
  places_ = before_->places;  // what rest told since was of a target that was not taken
  last_nm_ = before_->last_nm;
  refused(target, *last_ns_);
}

void Follower::refused(const Target& target, std::int64_t now_ns) {
  before_.reset();
  rest_unseen_ = false;
  for (std::size_t i = 0; i < count_; ++i) places_[i].may_be_at(target.nm[i]);
  last_ns_ = now_ns;
  under_way_ = false;
}

std::optional<PerAxis> Follower::total_nm(const PerAxis& position_nm) const {
  if (!session_) return std::nullopt;
  PerAxis total{};
  for (std::size_t i = 0; i < count_; ++i)
    total[i] = (position_nm[i] - zero_nm_[i]) / rules_[i].scale;
  return total;
}

}  // namespace driftd::stage
