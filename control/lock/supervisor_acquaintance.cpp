// SPDX-License-Identifier: MIT
// How a lock gets to know its stage, and goes by what it found.
#include <algorithm>
#include <cmath>

#include "control/lock/supervisor.hpp"
#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

/// After it was adopted the way back to the reference, and what the new description has wrong of
/// it, are not the sample's own motion.
constexpr std::int64_t kWayBackNs = 400'000'000;
/// Held for its stage the lock tries the monitor's square first. A stage that was just found out is
/// not at fault, most likely.
constexpr std::int64_t kFirstPauseNs = 800'000'000, kShortPauseNs = 100'000'000;
constexpr std::int64_t kLongestPauseNs = 60'000'000'000;
constexpr std::int64_t kJustAdoptedNs = 20'000'000'000;
constexpr double kSameRate = 0.1;
/// Begun so often and for so long, it is not begun again in this lock.
constexpr int kOftenBegun = 3;
constexpr std::int64_t kLongestBeginningNs = 20'000'000'000;
/// The probe has come back to the place where the stage did follow.
constexpr double kAtAnchorNm = 4;

double largest(Vec2 v) noexcept {
  return std::max(std::abs(v.x), std::abs(v.y));
}

}  // namespace

const char* name_of(StageAcquaintance acquaintance) noexcept {
  switch (acquaintance) {
    case StageAcquaintance::Told:
      return "told";
    case StageAcquaintance::UnderWay:
      return "under_way";
    case StageAcquaintance::Known:
      return "known";
    case StageAcquaintance::Doubted:
      return "doubted";
    case StageAcquaintance::NotFound:
      return "not_found";
  }
  return "unknown";
}

ControllerSettings Supervisor::controller_settings() const noexcept {
  ControllerSettings settings = settings_.controller;
  if (!knowledge_) return settings;
  const StageModelSettings& stage = knowledge_->stage;
  settings.image_to_stage = stage.image_to_stage;
  settings.stage_delay_us = stage.delay_us;
  // At the same rate commands waited then as they do now, whether that was known or not.
  if (std::abs(1e-9 * period_.ns() - knowledge_->period_s) <= kSameRate * knowledge_->period_s)
    settings.stage_delay_us += knowledge_->waiting_us - controller_.waiting_us();
  settings.stage_time_constant_us = stage.time_constant_us;
  settings.stage_resonance_hz = stage.resonance_hz;
  settings.stage_damping = stage.damping;
  return settings;
}

void Supervisor::set_stage_waiting_us(double waiting_us) noexcept {
  controller_.set_waiting_us(waiting_us);
  if (knowledge_) controller_.change_settings(controller_settings());
}

StageAcquaintance Supervisor::acquaintance() const noexcept {
  if (acquaintance_.is_under_way() || is_acquainting()) return StageAcquaintance::UnderWay;
  if (knowledge_) return doubted_ ? StageAcquaintance::Doubted : StageAcquaintance::Known;
  return not_found_ ? StageAcquaintance::NotFound : StageAcquaintance::Told;
}

void Supervisor::know_stage(const StageKnowledge& knowledge) noexcept {
  if (is_engaged() || lock_.state == LockState::Calibrating) return;
  knowledge_ = knowledge;
  doubted_ = false;
  controller_.change_settings(controller_settings());
}

void Supervisor::forget_found_stage() noexcept {
  if (is_engaged() || lock_.state == LockState::Calibrating) return;
  forget_stage();
  controller_.change_settings(controller_settings());
}

/// The caller sets the controller.
void Supervisor::forget_stage() noexcept {
  if (knowledge_) ++findings_;
  knowledge_.reset();
  doubted_ = not_found_ = false;
}

/// What the driver tells of itself goes before what was found.
void Supervisor::see_driver(double told_hz) noexcept {
  const bool told = told_hz > 0;
  const double found_hz = knowledge_ ? knowledge_->driver_hz : 0;
  controller_.law().set_driver_hz(told ? told_hz : found_hz, told);
}

/// A lock begins.
void Supervisor::engage_acquaintance() noexcept {
  // A driver that was slow may have been busy, or be another one.
  const bool was_slow = knowledge_ && knowledge_->driver_hz > 0;
  to_acquaint_ = settings_.acquaintance.when == AcquaintWhen::First
                     ? !knowledge_ || doubted_ || was_slow
                     : settings_.acquaintance.when == AcquaintWhen::Held && was_slow;
  slow_in_this_lock_hz_ = 0;
  not_found_ = false;
  begun_ = 0;
  learns_anew_ns_ = adopted_ns_ = 0;
}

bool Supervisor::begin_acquaintance(Vec2 centre_nm, std::int64_t now_ns) noexcept {
  const double period_s = 1e-9 * period_.ns();
  const CorrectionLimits limits = controller_.limits();
  usual_sd_nm_ = largest(monitor_.sd_nm());
  return acquaintance_.begin(
      {.centre_nm = centre_nm,
       .sd_nm = usual_sd_nm_,
       .period_s = period_s,
       .largest_step_nm = std::min(settings_.controller.step_limit_nm,
                                   settings_.controller.rate_limit_nm_per_s * period_s),
       .low_nm = limits.low_nm,
       .high_nm = limits.high_nm,
       .described = controller_.stage().settings(),
       .now_ns = now_ns,
       .axes = settings_.axes});
}

/// A lock that is held again and again before it knows its stage would never correct.
bool Supervisor::was_begun_enough(std::int64_t now_ns) noexcept {
  if (begun_++ == 0) first_begun_ns_ = now_ns;
  return begun_ > kOftenBegun && now_ns - first_begun_ns_ > kLongestBeginningNs;
}

/// Moves the stage as the acquaintance asks; a lock that cannot make it corrects at once. While the
/// move before waits to leave there is none: of several only the last one's time would be known.
void Supervisor::acquaint(const FrameFacts& facts, Decision& decision) noexcept {
  if (!acquaintance_.is_under_way() &&
      (was_begun_enough(facts.now_ns) ||
       !begin_acquaintance(controller_.total_nm(), facts.now_ns))) {
    to_acquaint_ = false;
    not_found_ = true;
    return;
  }
  if (facts.unsent) return;
  const Vec2 moved_nm = controller_.stage().image_to_stage().apply(residual_nm(facts));
  decision.correction =
      controller_.go_to(acquaintance_.wanted_nm(moved_nm, facts.now_ns), facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  decision.probe = true;
  end_acquaintance(facts.now_ns);
}

/// Held for the stage: whether it is moved that way now, in place of the monitor's square.
bool Supervisor::acquaints_while_held(const FrameFacts& facts) noexcept {
  if (settings_.acquaintance.when == AcquaintWhen::Never) return false;
  if (acquaintance_.is_under_way()) return true;
  const Vec2 total_nm = controller_.total_nm();
  if (facts.now_ns - held_since_ns_ < pause_ns_ ||
      largest(difference(total_nm, stage_verdict_.anchor_nm)) > kAtAnchorNm)
    return false;
  if (begin_acquaintance(total_nm, facts.now_ns)) return true;
  try_again_later(facts.now_ns);
  return false;
}

/// Every frame of it goes to the desk, also one that showed nothing.
void Supervisor::see_acquaintance(const FrameFacts& facts, const Decision& decision) noexcept {
  shown_ = acquaintance_.is_under_way();
  if (!shown_) return;
  std::optional<StageFrame> sample;
  if (is_measured(facts))
    sample = {facts.taken_ns, facts.drift->frame_drift_nm, facts.drift->frame_covariance_nm2};
  std::optional<StageMove> told;
  if (decision.has_correction) told = {facts.now_ns, decision.correction.total_nm};
  acquaintance_.saw(sample, told, settings_.acquaintance.exposure_ns, facts.now_ns);
}

void Supervisor::hear(const AcquaintanceAnswer& answer, std::int64_t now_ns) noexcept {
  acquaintance_.hear(answer, usual_sd_nm_, now_ns);
  end_acquaintance(now_ns);
}

void Supervisor::end_acquaintance(std::int64_t now_ns) noexcept {
  switch (acquaintance_.take_end()) {
    case AcquaintanceEnd::None:
      return;
    case AcquaintanceEnd::Found:
      return adopt(acquaintance_.finding(), now_ns);
    case AcquaintanceEnd::Fault:
      stage_verdict_ = monitor_.accuse(acquaintance_.looks(), acquaintance_.centre_nm());
      break;
    case AcquaintanceEnd::GaveUp:
      to_acquaint_ = false;
      not_found_ = true;
      break;
  }
  try_again_later(now_ns);
}

void Supervisor::try_again_later(std::int64_t now_ns) noexcept {
  held_since_ns_ = now_ns;
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
}

void Supervisor::adopt(const StageFinding& finding, std::int64_t now_ns) noexcept {
  StageKnowledge knowledge{.stage = finding.stage};
  knowledge.period_s = 1e-9 * period_.ns();
  knowledge.waiting_us = std::min(controller_.waiting_us(), knowledge.stage.delay_us);
  knowledge.stage.delay_us -= knowledge.waiting_us;
  const ControllerSettings& told = settings_.controller;
  knowledge.other_matrix = knowledge.stage.image_to_stage != told.image_to_stage;
  if (finding.driver_hz > 0) slow_in_this_lock_hz_ = finding.driver_hz;
  knowledge.driver_hz = slow_in_this_lock_hz_;
  knowledge.other_response = finding.other_response || (knowledge_ && knowledge_->other_response);
  knowledge_ = knowledge;
  ++findings_;
  to_acquaint_ = doubted_ = not_found_ = false;
  controller_.change_settings(controller_settings());
  // The sample is where moves have it: that is so much by the other matrix.
  controller_.count_moved_as(controller_.stage().image_to_stage().apply(set_point_.place_nm()));
  adopted_ns_ = now_ns;
  learns_anew_ns_ = now_ns + kWayBackNs;
  stage_verdict_ = monitor_.reassure();
}

/// The stage was found not to follow.
void Supervisor::doubt_knowledge(std::int64_t now_ns) noexcept {
  if (knowledge_ && !doubted_) ++findings_;
  doubted_ = knowledge_.has_value();
  const bool just_adopted = adopted_ns_ != 0 && now_ns - adopted_ns_ < kJustAdoptedNs;
  held_since_ns_ = now_ns;
  pause_ns_ = just_adopted ? kShortPauseNs : kFirstPauseNs;
}

void Supervisor::learn_anew_when_due(std::int64_t now_ns) noexcept {
  if (learns_anew_ns_ == 0 || now_ns < learns_anew_ns_) return;
  learns_anew_ns_ = 0;
  controller_.law().learn_afresh();
}

}  // namespace driftd::control
