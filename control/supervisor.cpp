// SPDX-License-Identifier: MIT
#include "control/supervisor.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

// In frame periods: how long a slow camera is given where the settings' times are too short for it.
constexpr double kPeriodsToNoFrame = 3;
constexpr double kPeriodsAtRange = 5;
constexpr double kPeriodsOfReference = 2;  ///< per frame of the reference
constexpr double kPeriodsToResume = 3;     ///< per frame that it takes to resume

/// The way back to the anchor and the probe's square, by the modelled stage and as much again.
constexpr double kProbeRoomNm = 40;

/// Of a reference: with the first there is no move to compare, with the last a new zero.
constexpr int kFramesWithoutMove = 2;

bool is_finite(Vec2 v) noexcept {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

bool is_measured(const FrameFacts& facts) noexcept {
  return !facts.stale && facts.drift != nullptr && facts.drift->valid &&
         is_finite(facts.drift->drift_nm) && is_finite(facts.drift->frame_drift_nm);
}

bool is_farther(Vec2 a, Vec2 b, double allowed_nm) noexcept {
  return std::abs(a.x - b.x) > allowed_nm || std::abs(a.y - b.y) > allowed_nm;
}

double seconds_between(std::int64_t earlier_ns, std::int64_t later_ns) noexcept {
  return std::max(0.0, 1e-9 * static_cast<double>(later_ns - earlier_ns));
}

}  // namespace

Supervisor::Supervisor(const SupervisorSettings& settings, FramePeriod period)
    : settings_(settings), period_(period), controller_(settings.controller) {}

void Supervisor::change_settings(const SupervisorSettings& settings) noexcept {
  settings_ = settings;
  controller_.change_settings(settings.controller);
}

/// The lock's settings, with the time that a slow camera needs.
LockSettings Supervisor::time_outs() const noexcept {
  LockSettings lock = settings_.lock;
  const int frames =
      std::max(settings_.reference_frames, settings_.rest_moves_to_lock + kFramesWithoutMove);
  lock.reference_timeout_ns =
      period_.timeout_ns(lock.reference_timeout_ns, kPeriodsOfReference * frames);
  lock.hold_timeout_ns =
      period_.timeout_ns(lock.hold_timeout_ns, kPeriodsToResume * lock.good_frames_to_resume);
  return lock;
}

int Supervisor::rest_moves_missing() const noexcept {
  return std::max(0, settings_.rest_moves_to_lock - monitor_.moves_at_rest());
}

int Supervisor::reference_frames() const noexcept {
  return std::max(settings_.reference_frames, frames_to_know_rest());
}

int Supervisor::frames_to_know_rest() const noexcept {
  const int missing = rest_moves_missing();
  return missing == 0 ? 1 : missing + kFramesWithoutMove;
}

void Supervisor::feed(LockEvent event, std::int64_t now_ns) noexcept {
  const LockState before = lock_.state;
  lock_ = next(lock_, event, now_ns, time_outs());
  if (lock_.state == before) return;
  at_range_since_ns_ = 0;
  if (lock_.state == LockState::Idle || lock_.state == LockState::Referencing) {
    monitor_.begin_reference();
    stage_verdict_ = {};
  }
  const bool engages = before == LockState::Referencing && lock_.state == LockState::Locked;
  if (engages || lock_.state == LockState::Calibrating)
    controller_.reset(engages ? carried_nm_ : Vec2{});
  if (event != LockEvent::StageNotFollowing) return;
  probe_.begin(stage_verdict_.anchor_nm);
  probed_from_nm_ = last_drift_nm_;
}

void Supervisor::command(LockEvent command, std::int64_t now_ns) noexcept {
  feed(command, now_ns);
}

void Supervisor::take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept {
  controller_.take_back(sent_total_nm, sent_ns);
  monitor_.skip_move();
}

bool Supervisor::without_frame(std::int64_t last_arrival_ns, std::int64_t now_ns,
                               bool away) noexcept {
  const std::int64_t timeout_ns = period_.timeout_ns(settings_.stall_timeout_ns, kPeriodsToNoFrame);
  if (!away && now_ns - last_arrival_ns <= timeout_ns) return false;
  if (away) period_.restart();
  blind_ = true;
  feed(LockEvent::NoFrame, now_ns);
  return true;
}

Decision Supervisor::decide(const FrameFacts& facts) noexcept {
  watch_stage(facts);
  Decision decision{.verdict = verdict_of(facts)};
  feed(decision.verdict, facts.now_ns);
  const bool jumped = has_jumped(facts, decision.verdict);
  remember(facts, jumped);
  decision.restart_average = jumped || decision.verdict == LockEvent::StaleFrame;
  if (decision.verdict == LockEvent::GoodFrame && may_correct(lock_)) correct(facts, decision);
  if (decision.verdict == LockEvent::GoodFrame && may_probe(lock_)) probe(facts, decision);
  if (may_excite(lock_) && facts.excitation_nm) excite(facts, decision);
  return decision;
}

/// Every frame with a drift shows how the sample and the stage moved, whatever the lock does.
void Supervisor::watch_stage(const FrameFacts& facts) noexcept {
  if (!is_measured(facts)) return;
  if (lock_.state == LockState::Calibrating) {  // it is found out only now how the stage answers
    monitor_.skip_move();
    return;
  }
  if (facts.new_reference) {
    monitor_.restart();
    stage_verdict_ = {};
    return;
  }
  if (blind_) monitor_.skip_move();  // how the sample moved meanwhile says nothing of the stage
  const ImageToStage& m = controller_.stage().image_to_stage();
  stage_verdict_ = monitor_.update({.moved_nm = m.apply(facts.drift->frame_drift_nm),
                                    .covariance_nm2 = m.spread(facts.drift->frame_covariance_nm2),
                                    .modelled_nm = controller_.stage_at(facts.taken_ns),
                                    .taken_ns = facts.taken_ns});
}

/// A stage that its controller left elsewhere is told of before the jump that it makes is looked
/// at.
bool Supervisor::has_jumped(const FrameFacts& facts, LockEvent verdict) const noexcept {
  return verdict == LockEvent::Jump ||
         (is_measured(facts) && report_of(facts.stage).has_value() && is_jump(facts));
}

void Supervisor::remember(const FrameFacts& facts, bool jumped) noexcept {
  if (!is_measured(facts)) {
    blind_ = true;
    return;
  }
  controller_.observe(facts.taken_ns);
  if (blind_) blind_s_ += seconds_between(last_measured_ns_, facts.taken_ns);
  blind_ = false;
  last_measured_ns_ = facts.taken_ns;
  if (jumped) return;  // the last plausible place stays
  last_drift_nm_ = facts.drift->frame_drift_nm;
  has_last_drift_ = true;
  blind_s_ = 0;
}

void Supervisor::correct(const FrameFacts& facts, Decision& decision) noexcept {
  decision.correction = controller_.update(facts.drift->drift_nm, facts.taken_ns, facts.now_ns,
                                           facts.drift->frames_averaged);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  if ((decision.correction.limited & kLimitRange) == 0)
    at_range_since_ns_ = 0;
  else if (at_range_since_ns_ == 0)
    at_range_since_ns_ = facts.now_ns;
}

/// Held because the stage does not follow: small moves around the place where it last did. None
/// while the sample is farther off than it may have drifted: they may be what drives it.
void Supervisor::probe(const FrameFacts& facts, Decision& decision) noexcept {
  const double held_s = seconds_between(lock_.since_ns, facts.now_ns);
  const double allowed_nm = kProbeRoomNm + settings_.max_drift_nm_per_s * held_s;
  if (is_farther(facts.drift->frame_drift_nm, probed_from_nm_, allowed_nm)) return;
  const Vec2 wanted_nm = probe_.wanted_nm(
      controller_.total_nm(), controller_.stage_at(facts.now_ns), monitor_.sd_nm(), facts.now_ns);
  decision.correction = controller_.go_to(wanted_nm, facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  decision.probe = true;
}

/// Whatever the markers show, as long as it can leave: the way back must not depend on them.
void Supervisor::excite(const FrameFacts& facts, Decision& decision) noexcept {
  const bool can_leave = !facts.stale && !facts.not_sent && !facts.refused;
  if (!can_leave) return;
  decision.correction = controller_.go_to(*facts.excitation_nm, facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  decision.probe = true;
}

/// What the driver says, where it matters that the stage obeys.
std::optional<LockEvent> Supervisor::report_of(StageSays stage) const noexcept {
  const bool depends = lock_.state == LockState::Locked || lock_.state == LockState::Holding ||
                       lock_.state == LockState::Calibrating;
  if (!depends) return std::nullopt;
  switch (stage) {
    case StageSays::Nothing:
    case StageSays::Ready:
      return std::nullopt;
    case StageSays::Limit:
      return LockEvent::StageLimit;
    case StageSays::Error:
      return LockEvent::StageError;
    case StageSays::Silent:
      return LockEvent::StageSilent;
  }
  return std::nullopt;
}

/// One verdict a frame: the first of these that holds.
LockEvent Supervisor::verdict_of(const FrameFacts& facts) noexcept {
  if (facts.refused) return LockEvent::InternalFault;
  if (facts.stale) return LockEvent::StaleFrame;
  if (!is_measured(facts)) return LockEvent::FewMarkers;
  if (facts.new_reference)
    return rest_moves_missing() == 0 ? LockEvent::ReferenceDone : LockEvent::GoodFrame;
  if (const auto event = report_of(facts.stage)) return *event;
  if (is_jump(facts)) return LockEvent::Jump;
  if (facts.not_sent) return LockEvent::NotSent;
  if (at_range_since_ns_ != 0 &&
      facts.now_ns - at_range_since_ns_ >
          period_.timeout_ns(settings_.range_timeout_ns, kPeriodsAtRange))
    return LockEvent::RangeExceeded;
  const bool held_for_the_stage =
      lock_.state == LockState::Holding && lock_.reason == LockReason::StageNotFollowing;
  if (lock_.state == LockState::Locked && !stage_verdict_.follows)
    return LockEvent::StageNotFollowing;
  if (held_for_the_stage && stage_verdict_.follows) return LockEvent::StageFollows;
  return LockEvent::GoodFrame;
}

/// Only while a correction depends on it is a jump held against the last plausible place; idle, the
/// sample may be moved about freely. While no drift was measured the sample may have drifted.
bool Supervisor::is_jump(const FrameFacts& facts) const noexcept {
  const bool guarded = lock_.state == LockState::Locked || lock_.state == LockState::Holding;
  if (!guarded || !has_last_drift_) return false;
  const double blind_s =
      blind_s_ + (blind_ ? seconds_between(last_measured_ns_, facts.taken_ns) : 0.0);
  const double allowed_nm = settings_.max_jump_nm + settings_.max_drift_nm_per_s * blind_s;
  return is_farther(facts.drift->frame_drift_nm, last_drift_nm_, allowed_nm);
}

}  // namespace driftd::control
