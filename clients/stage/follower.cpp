// SPDX-License-Identifier: MIT
#include "clients/stage/follower.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace driftd::stage {
namespace {

/// A stage that moves is at most so far behind its target.
constexpr double kLag_s = 0.1;
/// So long after a move the place at rest is that of the move: nobody else had time to move it.
constexpr std::int64_t kJustAtRest_ns = 500'000'000;

}  // namespace

Follower::AxisRules Follower::rules_of(const AxisSettings& settings) {
  return {.scale = settings.reversed ? -settings.scale : settings.scale,
          .min_nm = settings.min_nm,
          .max_nm = settings.max_nm,
          .step_nm = settings.step_limit_nm,
          .rate_nm_per_s = settings.rate_limit_nm_per_s,
          .range_nm = settings.range_limit_nm,
          .from_nm = settings.min_nm,
          .to_nm = settings.max_nm};
}

Follower::Follower(const AxisSettings& x, const AxisSettings& y)
    : rules_{rules_of(x), rules_of(y)} {
  place_unknown_.fill(true);
}

void Follower::take_axes(std::span<const Axis> axes) {
  for (std::size_t i = 0; i < kAxes; ++i) {
    AxisRules& rules = rules_[i];
    rules.from_nm = std::max(rules.min_nm, axes[i].min_nm);
    rules.to_nm = std::min(rules.max_nm, axes[i].max_nm);
    rules.closed_loop = axes[i].closed_loop;
    if (!(rules.from_nm < rules.to_nm)) {
      throw StageError(fmt::format(
          "axis {} travels from {} to {} nm: that has nothing of {}.min_nm {} to {}.max_nm {}",
          axes[i].name, axes[i].min_nm, axes[i].max_nm, i == 0 ? 'x' : 'y', rules.min_nm,
          i == 0 ? 'x' : 'y', rules.max_nm));
    }
  }
}

void Follower::connected(std::span<const Axis> axes, const PerAxis& position_nm) {
  take_axes(axes);
  before_.reset();
  compare(position_nm, {});
  may_be_at(position_nm);
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (place_unknown_[i]) offset_nm_[i].reset();  // found elsewhere
    if (!under_way_) continue;
    // The line broke in a move: the step counts from here, the zero stays.
    base_nm_[i] = position_nm[i] - offset_nm_[i].value_or(0);
    lowest_nm_[i] = highest_nm_[i] = base_nm_[i];
  }
  under_way_ = false;
}

void Follower::resumed(std::span<const Axis> axes, const PerAxis& position_nm) {
  PerAxis slack_nm{};
  for (std::size_t i = 0; i < kAxes; ++i) {
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
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (place_unknown_[i] || !rules_[i].closed_loop) continue;
    const double here_nm = position_nm[i] - offset_nm_[i].value_or(0);
    lowest_nm_[i] = std::min(lowest_nm_[i], here_nm);
    highest_nm_[i] = std::max(highest_nm_[i], here_nm);
  }
}

void Follower::seen(const PerAxis& position_nm, std::int64_t now_ns) {
  const std::int64_t since_ns =
      last_ns_ ? now_ns - *last_ns_ : std::numeric_limits<std::int64_t>::max();
  const bool at_rest = since_ns > kAtRest_ns;
  // What the sensor says now is what it says of the last target.
  const bool tells_offset = at_rest && rest_unseen_ && since_ns < kJustAtRest_ns;
  if (at_rest) rest_unseen_ = false;
  PerAxis slack_nm{};
  for (std::size_t i = 0; i < kAxes; ++i) {
    const bool may_be_off = !at_rest || (tells_offset && (!offset_nm_[i] || offset_in_doubt_[i]));
    // Without a sensor nothing tells that the stage is elsewhere.
    slack_nm[i] = rules_[i].closed_loop ? (may_be_off ? rules_[i].rate_nm_per_s * kLag_s : 0)
                                        : std::numeric_limits<double>::infinity();
  }
  compare(position_nm, slack_nm);
  if (!tells_offset) return;
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (!rules_[i].closed_loop || place_unknown_[i]) continue;
    offset_nm_[i] = position_nm[i] - base_nm_[i];
    offset_in_doubt_[i] = false;
  }
}

void Follower::compare(const PerAxis& position_nm, const PerAxis& slack_nm) {
  position_nm_ = position_nm;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const double away_nm = std::abs(position_nm[i] - offset_nm_[i].value_or(0) - base_nm_[i]);
    if (!(away_nm <= rules_[i].step_nm + slack_nm[i])) place_unknown_[i] = true;
  }
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

Target Follower::plan(const Correction& correction, std::int64_t now_ns) {
  const bool new_lock = is_new_lock(correction);
  if (session_ && correction.session != session_) old_sessions_.insert(*session_);
  session_ = correction.session;
  lock_id_ = correction.lock_id;
  Target target;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const double total_nm = rules_[i].scale * correction.total_nm[i];
    const double delta_nm = rules_[i].scale * correction.delta_nm[i];
    if (place_unknown_[i]) {
      base_nm_[i] = position_nm_[i] - offset_nm_[i].value_or(0);
      offset_in_doubt_[i] = true;  // it may be another one there
      lowest_nm_[i] = highest_nm_[i] = base_nm_[i];
      zero_nm_[i] = base_nm_[i] - (total_nm - delta_nm);
      place_unknown_[i] = false;
    } else if (new_lock) {
      zero_nm_[i] = base_nm_[i];
    }
    target.nm[i] = limit(i, zero_nm_[i] + total_nm, now_ns, target.limited[i]);
  }
  return target;
}

double Follower::limit(std::size_t axis, double wanted_nm, std::int64_t now_ns,
                       Limited& limited) const {
  const AxisRules& rules = rules_[axis];
  const double zero_nm = zero_nm_[axis];
  const double base_nm = base_nm_[axis];
  // A stage that was found outside may stay there or come back, as the corrections say.
  const auto bounded = [&](double nm, double low_nm, double high_nm) {
    return std::clamp(nm, std::min(low_nm, base_nm), std::max(high_nm, base_nm));
  };
  double target_nm = bounded(wanted_nm, zero_nm - rules.range_nm, zero_nm + rules.range_nm);
  target_nm = bounded(target_nm, rules.from_nm, rules.to_nm);
  limited.range = target_nm != wanted_nm;
  double most_nm = rules.step_nm;
  bool by_rate = false;
  if (last_ns_) {
    const auto elapsed_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - *last_ns_));
    const double rate_nm = rules.rate_nm_per_s * elapsed_ns * 1e-9;
    by_rate = rate_nm < most_nm;
    most_nm = std::min(most_nm, rate_nm);
  }
  // Near enough to every place where it may be.
  const double middle_nm = std::midpoint(lowest_nm_[axis], highest_nm_[axis]);
  const double kept_nm = std::clamp(target_nm, std::min(highest_nm_[axis] - most_nm, middle_nm),
                                    std::max(lowest_nm_[axis] + most_nm, middle_nm));
  (by_rate ? limited.rate : limited.step) = kept_nm != target_nm;
  return kept_nm;
}

void Follower::moved(const Target& target, std::int64_t now_ns) {
  before_ = {.base_nm = base_nm_,
             .lowest_nm = lowest_nm_,
             .highest_nm = highest_nm_,
             .offset_nm = offset_nm_,
             .offset_in_doubt = offset_in_doubt_,
             .last_nm = last_nm_};
  taken_ = target;
  last_nm_ = target.nm;
  base_nm_ = target.nm;
  lowest_nm_ = highest_nm_ = target.nm;
  last_ns_ = now_ns;
  under_way_ = false;
  rest_unseen_ = true;
}

void Follower::not_taken() {
  if (!before_ || !last_ns_) return;
  base_nm_ = before_->base_nm;
  lowest_nm_ = before_->lowest_nm;
  highest_nm_ = before_->highest_nm;
  offset_nm_ = before_->offset_nm;  // what rest told since was of a target that was not taken
  offset_in_doubt_ = before_->offset_in_doubt;
  last_nm_ = before_->last_nm;
  refused(taken_, *last_ns_);
}

void Follower::refused(const Target& target, std::int64_t now_ns) {
  before_.reset();
  rest_unseen_ = false;
  for (std::size_t i = 0; i < kAxes; ++i) {
    lowest_nm_[i] = std::min(lowest_nm_[i], target.nm[i]);
    highest_nm_[i] = std::max(highest_nm_[i], target.nm[i]);
  }
  last_ns_ = now_ns;
  under_way_ = false;
}

std::optional<PerAxis> Follower::total_nm(const PerAxis& position_nm) const {
  if (!session_) return std::nullopt;
  PerAxis total{};
  for (std::size_t i = 0; i < kAxes; ++i)
    total[i] = (position_nm[i] - zero_nm_[i]) / rules_[i].scale;
  return total;
}

}  // namespace driftd::stage
