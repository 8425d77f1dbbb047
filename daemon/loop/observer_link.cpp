// SPDX-License-Identifier: MIT
#include "daemon/loop/observer_link.hpp"

namespace driftd::daemon {

void ObserverLink::take(std::int64_t now_ns) noexcept {
  control::AcquaintanceAnswer answer;
  while (ports_.acquaintance_answers.pop(answer)) supervisor_.hear(answer, now_ns);
  control::ObserverPlan plan;
  while (ports_.plans.pop(plan)) supervisor_.law().offer(plan);
  control::Tuning tuning;
  while (ports_.tunings.pop(tuning)) supervisor_.law().offer(tuning);
  const std::uint32_t epoch = supervisor_.law().observer().epoch();
  if (epoch != foretold_epoch_) forecast_ = {};
  foretold_epoch_ = epoch;
  Foretold foretold;
  while (ports_.forecasts.pop(foretold))
    if (foretold.epoch == epoch) forecast_[foretold.axis] = foretold.residual;
}

/// A rate that is measured wobbles on a busy computer; another one lasts, and all that was learnt
/// goes with the old one.
bool ObserverLink::is_meant(const control::ObserverSettings& wish, std::int64_t taken_ns) noexcept {
  constexpr std::int64_t kLastsNs = 3'000'000'000;
  constexpr double kLastsFrames = 64;
  if (!wished_ || !(wished_->period_s > 0) || !(wish.period_s > 0) ||
      !control::is_same_stage(wished_->stage, wish.stage) || control::is_same_rate(*wished_, wish))
    return true;
  if (wished_otherwise_ns_ == 0) wished_otherwise_ns_ = taken_ns;
  return taken_ns - wished_otherwise_ns_ > supervisor_.period().timeout_ns(kLastsNs, kLastsFrames);
}

bool ObserverLink::wants_slower_frames() const noexcept {
  return supervisor_.lock().state == control::LockState::Locked &&
         ports_.slower_in_epoch.load(std::memory_order_relaxed) ==
             supervisor_.law().observer().epoch();
}

void ObserverLink::give(std::int64_t taken_ns) noexcept {
  const control::ObserverSettings wish = supervisor_.observer_wish();
  if (wished_ && !control::needs_other_plan(*wished_, wish)) {
    wished_otherwise_ns_ = 0;
  } else if (is_meant(wish, taken_ns)) {
    wished_ = wished_ ? control::next_wish(*wished_, wish) : wish;
    ports_.wish.writing() = *wished_;
    ports_.wish.publish();
  }
  if (const control::AcquaintanceFrame* seen = supervisor_.to_get_acquainted())
    ports_.acquaintance.push(*seen);  // one that has no room is a frame that is missing
  const control::ObserverFrame* frame = supervisor_.to_learn_from();
  if (frame != nullptr && !ports_.frames.push(*frame))
    ports_.not_learnt.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace driftd::daemon
