// SPDX-License-Identifier: MIT
#include "control/law/law_choice.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kFirstRestNs = 60 * kSecondNs, kLongestRestNs = 3600 * kSecondNs;
/// So long without trouble: the next time counts as the first again.
constexpr std::int64_t kForgivenNs = 600 * kSecondNs;
constexpr std::int64_t kLongestCoastNs = 2 * kSecondNs, kLongestCoastTrackingNs = kSecondNs / 2;
/// Frames to a correction that the driver takes: with more PI holds the lock, until they are less
/// than the other. Measured: docs/internals/observer.md, "Slow drivers".
constexpr double kMostFramesACorrection = 5.5, kFewEnoughFrames = 4.5;
/// Small moves show fewer than there are: of ten about seven.
constexpr double kShareOfFoundFrames = 0.65;
/// Innovations so many times as large as expected: the model is not right now.
constexpr double kSurprised = 2;

JudgeSettings judged(const LawSettings& s) noexcept {
  return {.stage = s.stage,
          .pi = s.pi,
          .step_limit_nm = s.step_limit_nm,
          .rate_limit_nm_per_s = s.rate_limit_nm_per_s,
          .axes = s.axes};
}

}  // namespace

const char* name_of(LawReason reason) noexcept {
  switch (reason) {
    case LawReason::Configured:
      return "configured";
    case LawReason::NotReady:
      return "not_ready";
    case LawReason::WorseThanPi:
      return "worse_than_pi";
    case LawReason::TriedAgain:
      return "tried_again";
    case LawReason::LearnsAnew:
      return "learns_anew";
    case LawReason::DriverTooSlow:
      return "driver_too_slow";
  }
  return "unknown";
}

LawChoice::LawChoice(const LawSettings& settings)
    : settings_(settings),
      pi_(settings.pi),
      observer_(ObserverSettings{}),
      judge_(judged(settings)) {
  act(false, settings.law == ControlLaw::Pi ? LawReason::Configured : LawReason::NotReady);
}

void LawChoice::change_settings(const LawSettings& settings) noexcept {
  const bool other_law = settings.law != settings_.law;
  const bool other_axes = settings.stage.image_to_stage != settings_.stage.image_to_stage;
  settings_ = settings;
  pi_.change_settings(settings.pi);
  judge_.change_settings(judged(settings));
  if (has_plan_ && !is_same_stage(observer_.settings().stage, settings.stage)) has_plan_ = false;
  if (settings.law == ControlLaw::Pi)
    act(false, LawReason::Configured);
  else if (!has_plan_)
    act(false, LawReason::NotReady);
  else if (other_law)
    take_observer(LawReason::Configured);
  if (has_plan_ && other_axes) learn_anew();
}

/// By plan_.
void LawChoice::learn_anew() noexcept {
  const bool knew = observer_.is_tuned(0) || observer_.is_tuned(1);
  observer_.adopt(plan_);
  judge_.set_period(plan_.settings.period_s);
  seen_ns_ = 0;
  if (state_.observer && knew) act(true, LawReason::LearnsAnew);
}

/// From the next frame on.
void LawChoice::act(bool observer, LawReason reason) noexcept {
  if (state_.observer == observer && state_.reason == reason && state_.changes > 0) return;
  if (state_.observer != observer) {
    pi_.reset(total_nm_);
    judge_.restart();
    acts_since_ns_ = 0;
  }
  if (observer) rest_until_ns_ = 0;
  state_.observer = observer;
  state_.reason = reason;
  ++state_.changes;
}

bool LawChoice::is_driver_too_slow() const noexcept {
  const bool was = state_.reason == LawReason::DriverTooSlow;
  const double most =
      (was ? kFewEnoughFrames : kMostFramesACorrection) * (driver_told_ ? 1 : kShareOfFoundFrames);
  return settings_.law == ControlLaw::Auto && driver_hz_ > 0 &&
         driver_hz_ * plan_.settings.period_s * most < 1;
}

/// If the driver lets it.
void LawChoice::take_observer(LawReason reason) noexcept {
  const bool slow = is_driver_too_slow();
  act(!slow, slow ? LawReason::DriverTooSlow : reason);
}

void LawChoice::reset(Vec2 total_nm) noexcept {
  total_nm_ = total_nm;
  pi_.reset(total_nm);
  observer_.reset();
  judge_.restart();
  seen_ns_ = 0;
}

void LawChoice::take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  total_nm_ = total_nm;
  pi_.reset(total_nm);
  observer_.take_back(total_nm, sent_ns);
  judge_.pause();
}

void LawChoice::shift(Vec2 by_nm) noexcept {
  total_nm_ = {total_nm_.x + by_nm.x, total_nm_.y + by_nm.y};
  pi_.reset(total_nm_);
  observer_.shift(by_nm);
  judge_.pause();
}

void LawChoice::offer(const ObserverPlan& plan) noexcept {
  if (!is_same_stage(plan.settings.stage, settings_.stage)) return;
  plan_ = plan;
  if (has_plan_ && keeps_learnt(observer_.settings(), plan.settings))
    return observer_.set_change_limit(plan.settings.change_limit_nm);
  has_plan_ = true;
  learn_anew();
  if (settings_.law != ControlLaw::Pi && state_.reason == LawReason::NotReady)
    take_observer(LawReason::Configured);
}

ObserverSettings LawChoice::wish(double period_s, double change_limit_nm) const noexcept {
  ObserverSettings wish;
  wish.period_s = settings_.law == ControlLaw::Pi ? 0 : period_s;
  wish.stage = settings_.stage;
  wish.stage.image_to_stage = {};
  wish.change_limit_nm = change_limit_nm;
  wish.axes = settings_.axes;
  wish.verifies_lines = settings_.verifies_lines;
  return wish;
}

void LawChoice::see(const Sight& sight, Vec2 stage_nm) noexcept {
  if (!has_plan_) return;
  if (!seen_.commanded) judge_.pause();
  observer_wants_nm_ = observer_.see(sight);
  seen_ns_ = sight.taken_ns;
  const Vec2 noise_nm = unfollowed_nm(seen_ns_);
  seen_ = {{sight.moved_nm.x + noise_nm.x, sight.moved_nm.y + noise_nm.y},
           stage_nm,
           sight.now_ns,
           false};
  choose(sight.now_ns);
}

void LawChoice::choose(std::int64_t now_ns) noexcept {
  if (acts_since_ns_ == 0) acts_since_ns_ = now_ns;
  const std::int64_t acts_ns = now_ns - acts_since_ns_;
  if (settings_.law != ControlLaw::Auto) return;
  if (knows() && !judged_learnt_) judge_.restart();  // what it did before it had learnt is past
  judged_learnt_ = knows();
  if (is_driver_too_slow()) return act(false, LawReason::DriverTooSlow);
  const bool rests = now_ns <= rest_until_ns_;
  if (state_.reason == LawReason::DriverTooSlow)
    return rests ? act(false, LawReason::WorseThanPi) : act(true, LawReason::Configured);
  if (state_.observer) {
    if (acts_ns > kForgivenNs) rest_ns_ = 0;
    if (!judge_.pi_is_better()) return;
    state_.left_nm = judge_.left_nm();
    state_.pi_left_nm = judge_.pi_left_nm();
    rest_ns_ = std::clamp(2 * rest_ns_, kFirstRestNs, kLongestRestNs);
    rest_until_ns_ = now_ns + rest_ns_;
    knew_ = knows();
    act(false, LawReason::WorseThanPi);
  } else if (state_.reason == LawReason::WorseThanPi && !knew_ && knows()) {
    rest_ns_ = 0;  // PI was better than an observer that had not learnt yet
    act(true, LawReason::TriedAgain);
  } else if (state_.reason == LawReason::WorseThanPi && !rests) {
    act(true, LawReason::TriedAgain);
  }
}

Vec2 LawChoice::wanted_nm(Vec2 target_nm, Vec2 total_nm, std::int64_t taken_ns) noexcept {
  const Vec2 pi_nm = pi_.wanted_nm(target_nm, total_nm);
  // Only where the law has a command may PI have one beside it.
  if (seen_ns_ == taken_ns && !seen_.commanded) {
    judge_.see(seen_.moved_nm, seen_.stage_nm, taken_ns, seen_.now_ns);
    seen_.commanded = true;
  }
  return state_.observer && seen_ns_ == taken_ns ? observer_wants_nm_ : pi_nm;
}

void LawChoice::told(Vec2 total_nm, bool x_held_back, bool y_held_back, bool at_range,
                     std::int64_t now_ns) noexcept {
  total_nm_ = total_nm;
  if (at_range) judge_.restart();
  if (state_.observer)
    pi_.reset(total_nm);
  else
    pi_.told(total_nm, x_held_back, y_held_back);
  observer_.told(total_nm, now_ns);
}

void LawChoice::interrupted(Vec2 total_nm) noexcept {
  pi_.reset(total_nm);
  judge_.restart();
}

bool LawChoice::may_coast(std::int64_t now_ns, double within_nm) const noexcept {
  const std::int64_t last_ns = observer_.frame().taken_ns;
  if (!state_.observer || !has_plan_ || last_ns == 0 || !(within_nm > 0)) return false;
  bool tracks = false;
  for (std::size_t i = 0; i < settings_.axes; ++i) {
    const DisturbanceFilter& filter = observer_.filter(i);
    if (!observer_.is_tuned(i) || filter.surprise() > kSurprised) return false;
    tracks = tracks || filter.model().tracks;
  }
  if (now_ns - last_ns > (tracks ? kLongestCoastTrackingNs : kLongestCoastNs)) return false;
  return observer_.coasting_sd_nm(now_ns) <= within_nm;
}

LawState LawChoice::state() const noexcept {
  LawState state = state_;
  if (state.reason == LawReason::WorseThanPi) return state;  // as it was when that was decided
  if (state.reason == LawReason::DriverTooSlow) {
    state.left_nm = state.pi_left_nm = 0;  // PI is not judged against itself
    const double taken = driver_hz_ * plan_.settings.period_s;
    state.frames_a_correction = taken > 0 ? 1 / taken : 0;
    return state;
  }
  state.left_nm = judge_.left_nm();
  state.pi_left_nm = judge_.pi_left_nm();
  return state;
}

}  // namespace driftd::control
