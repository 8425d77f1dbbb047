// SPDX-License-Identifier: MIT
#include "control/lock/supervisor.hpp"

#include <algorithm>
#include <cmath>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

// In frame periods: how long a slow camera is given where the settings' times are too short for it.
constexpr double kPeriodsToNoFrame = 3;
constexpr double kPeriodsAtRange = 5;
constexpr double kPeriodsOfReference = 2;  ///< per frame of the reference
constexpr double kPeriodsToResume = 3;     ///< per frame that it takes to resume

/// How far a probe may move the sample: back to the anchor and round the probe's square, by the
/// modelled stage, and as much again.
constexpr double kProbeRoomNm = 40;

/// A path goes on for at most so long at once: two and a half frames, or where their period is not
/// known yet.
constexpr double kPeriodsOfPath = 2.5;
constexpr std::int64_t kPathStepNs = 20'000'000;
/// The sample has arrived when the modelled stage is so near.
constexpr double kArrivedNm = 0.2;
/// A path that finds no room for so long is over.
constexpr std::int64_t kPathStallNs = 1'000'000'000;
constexpr double kLeastShare = 1e-3;

/// For these reasons the stage may have been commanded in vain for a while before the lock was
/// held.
bool is_of_stage(LockReason reason) noexcept {
  return reason == LockReason::StageNotFollowing || reason == LockReason::StageError ||
         reason == LockReason::StageLimit || reason == LockReason::StageSilent;
}

/// Frames of a reference without a move: before the first there is nothing to compare with, and the
/// last sets a new zero.
constexpr int kFramesWithoutMove = 2;

/// The monitor foretells the sample's motion from its last 48 moves: of frames that come faster
/// than this they are too short a time for slow vibrations, so some are passed over.
constexpr std::int64_t kWatchedNs = 1'600'000;

bool is_same_description(const ControllerSettings& a, const ControllerSettings& b) noexcept {
  return a.image_to_stage == b.image_to_stage && a.stage_delay_us == b.stage_delay_us &&
         a.stage_time_constant_us == b.stage_time_constant_us &&
         a.stage_resonance_hz == b.stage_resonance_hz && a.stage_damping == b.stage_damping;
}

/// The controller has as many axes as the lock.
SupervisorSettings with_axes(SupervisorSettings settings) noexcept {
  settings.controller.axes = settings.axes;
  return settings;
}

bool is_farther(Vec2 a, Vec2 b, double allowed_nm) noexcept {
  return std::abs(a.x - b.x) > allowed_nm || std::abs(a.y - b.y) > allowed_nm;
}

}  // namespace

bool is_measured(const FrameFacts& facts) noexcept {
  return !facts.stale && facts.drift != nullptr && facts.drift->valid &&
         is_finite(facts.drift->drift_nm) && is_finite(facts.drift->frame_drift_nm);
}

Supervisor::Supervisor(const SupervisorSettings& settings, FramePeriod period)
    : settings_(with_axes(settings)),
      period_(period),
      controller_(settings_.controller),
      monitor_(settings.axes),
      probe_(settings.axes) {}

void Supervisor::change_settings(const SupervisorSettings& settings) noexcept {
  const bool same_stage = is_same_description(settings.controller, settings_.controller);
  settings_ = with_axes(settings);
  if (!same_stage || settings_.acquaintance.when == AcquaintWhen::Never) forget_stage();
  controller_.change_settings(controller_settings());
}

/// The lock's settings, with the time that a slow camera needs.
LockSettings Supervisor::time_outs() const noexcept {
  LockSettings lock = settings_.lock;
  const int frames =
      std::max(settings_.reference_frames,
               frames_per_watch() * settings_.rest_moves_to_lock + kFramesWithoutMove);
  lock.reference_timeout_ns =
      period_.timeout_ns(lock.reference_timeout_ns, kPeriodsOfReference * frames);
  lock.hold_timeout_ns =
      period_.timeout_ns(lock.hold_timeout_ns, kPeriodsToResume * lock.good_frames_to_resume);
  return lock;
}

int Supervisor::frames_per_watch() const noexcept {
  const double frames = period_.ns() > 0 ? std::ceil(kWatchedNs / period_.ns()) : 1;
  return static_cast<int>(std::clamp(frames, 1.0, 16.0));
}

int Supervisor::rest_moves_missing() const noexcept {
  return std::max(0, settings_.rest_moves_to_lock - monitor_.moves_at_rest());
}

int Supervisor::reference_frames() const noexcept {
  return std::max(settings_.reference_frames, frames_to_know_rest());
}

int Supervisor::frames_to_know_rest() const noexcept {
  const int missing = rest_moves_missing();
  return missing == 0 ? 1 : frames_per_watch() * missing + kFramesWithoutMove;
}

void Supervisor::feed(LockEvent event, std::int64_t now_ns) noexcept {
  const LockState before = lock_.state;
  lock_ = next(lock_, event, now_ns, time_outs());
  if (lock_.state == before) return;
  at_range_since_ns_ = 0;
  set_ns_ = progress_ns_ = 0;
  acquaintance_.stop();
  if (lock_.state == LockState::Holding && is_of_stage(lock_.reason))
    controller_.law().doubt_stage();
  // Held, the stage stood still: the path goes on from there, and begins to move anew.
  set_point_.go_on_from(set_point_.place_nm());
  if (!is_engaged()) {
    if (set_point_.phase() != SetPointPhase::Resting) end_move(MoveEnd::Unlocked);
    set_point_.reset();
  }
  if (lock_.state == LockState::Idle || lock_.state == LockState::Referencing) {
    monitor_.begin_reference();
    stage_verdict_ = {};
  }
  const bool engages = before == LockState::Referencing && lock_.state == LockState::Locked;
  if (engages || lock_.state == LockState::Calibrating) {
    controller_.reset(engages ? carried_nm_ : Vec2{});
    last_corrected_nm_ = {};
  }
  if (engages) {
    move_end_ = MoveEnd::None;
    set_point_.reset(first_set_nm_);
    controller_.begin_moved(controller_.stage().image_to_stage().apply(first_set_nm_));
    engage_acquaintance();
  }
  if (!is_engaged()) to_acquaint_ = false;
  if (event != LockEvent::StageNotFollowing) return;
  probe_.begin(stage_verdict_.anchor_nm);
  probed_from_nm_ = last_frame_nm_;
  doubt_knowledge(now_ns);
}

void Supervisor::command(LockEvent command, std::int64_t now_ns) noexcept {
  feed(command, now_ns);
}

void Supervisor::take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept {
  controller_.take_back(sent_total_nm, sent_ns);
  monitor_.skip_move();
  acquaintance_.begin_anew(sent_ns);
  // A set-point at rest stays where it is: what is missing of its way is made up for.
  if (set_point_.phase() != SetPointPhase::Resting)
    set_point_.go_on_from(to_image(controller_.move_nm()));
}

bool Supervisor::is_engaged() const noexcept {
  return lock_.state == LockState::Locked || lock_.state == LockState::Holding;
}

bool Supervisor::begin_move(const MovePath& path) noexcept {
  if (lock_.state != LockState::Locked || to_acquaint_) return false;
  move_end_ = MoveEnd::None;
  set_point_.begin(path);
  progress_ns_ = 0;
  return true;
}

void Supervisor::stop_move() noexcept {
  if (set_point_.phase() != SetPointPhase::Resting) end_move(MoveEnd::Stopped);
}

void Supervisor::end_move(MoveEnd end) noexcept {
  set_point_.stop();
  move_end_ = end;
}

Vec2 Supervisor::to_image(Vec2 stage_nm) const noexcept {
  const bool is_rest = stage_nm.x == 0 && stage_nm.y == 0;
  return is_rest ? Vec2{} : controller_.stage().image_to_stage().invert(stage_nm);
}

/// Where moves have the sample is no drift, and going there no jump.
Vec2 Supervisor::residual_nm(const FrameFacts& facts) const noexcept {
  return difference(facts.drift->frame_drift_nm, moved_nm_);
}

Vec2 Supervisor::mean_moved_nm(int frames) const noexcept {
  return is_engaged() ? to_image(controller_.mean_moved(frames)) : Vec2{};
}

void Supervisor::see_move(std::int64_t taken_ns) noexcept {
  if (!is_engaged()) {
    moved_nm_ = {};
    moving_ = false;
    return;
  }
  const Vec2 there_nm = controller_.moved_at(taken_ns);
  const Vec2 wanted_nm = controller_.stage().image_to_stage().apply(set_point_.place_nm());
  moved_nm_ = to_image(there_nm);
  moving_ =
      set_point_.phase() == SetPointPhase::Moving || is_farther(there_nm, wanted_nm, kArrivedNm);
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
  if (facts.unsent) unsent_ns_ = facts.now_ns;
  end_acquaintance(facts.now_ns);
  see_move(facts.taken_ns);
  see_driver(facts.driver_hz);
  update_law(facts);
  watch_stage(facts);
  Decision decision{.verdict = verdict_of(facts)};
  feed(decision.verdict, facts.now_ns);
  see_move(facts.taken_ns);
  const bool jumped = has_jumped(facts, decision.verdict);
  learnt_ = false;
  remember(facts, jumped);
  decision.restart_average = jumped || decision.verdict == LockEvent::StaleFrame;
  learn_anew_when_due(facts.now_ns);
  if (decision.verdict == LockEvent::GoodFrame && may_correct(lock_))
    is_acquainting() ? acquaint(facts, decision) : correct(facts, decision);
  if (decision.verdict == LockEvent::Coasting && may_correct(lock_)) coast(facts, decision);
  if (decision.verdict == LockEvent::GoodFrame && may_probe(lock_)) probe(facts, decision);
  if (may_excite(lock_) && facts.excitation_nm) excite(facts, decision);
  see_acquaintance(facts, decision);
  return decision;
}

/// A stage that could not know of its command, or has not had time to follow it. Of a computer that
/// is late with each frame it is watched all the same: one in nine of the watched frames is left
/// out, and 32 in a row after 256 that were in time.
bool Supervisor::is_excused(const FrameFacts& facts) noexcept {
  constexpr int kPrice = 8, kMost = 256;
  constexpr double kFollowsS = 0.01;
  const double waits_s = 1e-6 * controller_.stage().settings().delay_us + kFollowsS;
  const bool waits = unsent_ns_ != 0 && seconds_between(unsent_ns_, facts.taken_ns) < waits_s;
  if (!waits || excuses_ < kPrice) {
    excuses_ = std::min(excuses_ + 1, kMost);
    return false;
  }
  excuses_ -= kPrice;
  return true;
}

/// Every frame with a drift shows how the sample and the stage moved, whatever the lock does.
void Supervisor::watch_stage(const FrameFacts& facts) noexcept {
  if (!is_measured(facts)) return;
  const bool at_rest = acquaintance_.is_under_way() && acquaintance_.is_at_rest();
  if (lock_.state == LockState::Calibrating || (is_acquainting() && !at_rest)) {
    monitor_.skip_move();  // it is found out only now how the stage answers
    return;
  }
  if (facts.new_reference) {
    monitor_.restart();
    stage_verdict_ = {};
    return;
  }
  // How the sample moved meanwhile says nothing of the stage, nor where that is said to be while a
  // command has not left.
  if (blind_) monitor_.skip_move();
  if (facts.taken_ns - watched_ns_ < kWatchedNs) return;
  watched_ns_ = facts.taken_ns;
  if (is_excused(facts)) monitor_.skip_frame();
  const ImageToStage& m = controller_.stage().image_to_stage();
  const ObservedFrame sample = {.moved_nm = m.apply(facts.drift->frame_drift_nm),
                                .covariance_nm2 = m.spread(facts.drift->frame_covariance_nm2),
                                .modelled_nm = controller_.stage_at(facts.taken_ns),
                                .move_nm = controller_.moved_at(facts.taken_ns),
                                .taken_ns = facts.taken_ns,
                                .expectation = expectation_};
  stage_verdict_ = monitor_.update(sample);
}

/// Keeps from the law a place that may be another marker's, and all places while the stage is not
/// as its model says.
void Supervisor::update_law(const FrameFacts& facts) noexcept {
  expectation_.reset();
  if (!is_engaged() || !is_measured(facts) || facts.new_reference || is_held_for_stage() ||
      is_acquainting() || is_jump(facts))
    return;
  controller_.feed_law(*facts.drift, facts.taken_ns, facts.now_ns);
  expectation_ = controller_.law().expectation();
}

/// A jump counts, too, where the stage's driver reports why: its controller may have left it
/// elsewhere, and the report is the verdict.
bool Supervisor::has_jumped(const FrameFacts& facts, LockEvent verdict) const noexcept {
  return verdict == LockEvent::Jump ||
         (is_measured(facts) && report_of(facts.stage).has_value() && is_jump(facts));
}

void Supervisor::remember(const FrameFacts& facts, bool jumped) noexcept {
  if (!is_measured(facts)) {
    blind_ = true;
    return;
  }
  controller_.remember_stage(facts.taken_ns);
  if (blind_) blind_s_ += seconds_between(last_measured_ns_, facts.taken_ns);
  blind_ = false;
  last_measured_ns_ = facts.taken_ns;
  if (jumped) return;  // the last plausible place stays
  last_drift_nm_ = residual_nm(facts);
  last_corrected_nm_ = corrected_nm(facts.taken_ns);
  last_frame_nm_ = facts.drift->frame_drift_nm;
  has_last_drift_ = true;
  blind_s_ = 0;
}

bool Supervisor::is_held_for_stage() const noexcept {
  return lock_.state == LockState::Holding && lock_.at_first == LockReason::StageNotFollowing;
}

/// The set-point's next step, which the controller makes as far as there is room.
void Supervisor::plan_path_step(std::int64_t now_ns) noexcept {
  const std::int64_t most_ns =
      period_.ns() > 0 ? static_cast<std::int64_t>(kPeriodsOfPath * period_.ns()) : kPathStepNs;
  step_s_ = set_ns_ == 0 ? 0.0 : 1e-9 * static_cast<double>(std::min(now_ns - set_ns_, most_ns));
  set_ns_ = now_ns;
  const ImageToStage& m = controller_.stage().image_to_stage();
  controller_.set_move(m.apply(set_point_.ahead_nm(step_s_)));
}

void Supervisor::advance_path(std::int64_t now_ns) noexcept {
  if (set_point_.phase() == SetPointPhase::Resting) return;
  const double share = controller_.move_share();
  if (progress_ns_ == 0 || share > kLeastShare) progress_ns_ = now_ns;
  set_point_.advance(step_s_, share);
  if (set_point_.phase() == SetPointPhase::Resting)
    end_move(MoveEnd::Done);
  else if (now_ns - progress_ns_ > kPathStallNs)
    end_move(MoveEnd::Limits);
}

void Supervisor::correct(const FrameFacts& facts, Decision& decision) noexcept {
  plan_path_step(facts.now_ns);
  decision.correction = controller_.update(facts.drift->drift_nm, facts.taken_ns, facts.now_ns,
                                           facts.drift->frames_averaged);
  advance_path(facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  learnt_ = !controller_.sees_move();
  note_range(facts, decision.correction);
}

/// The frame shows no drift: what frames before have shown goes on.
void Supervisor::coast(const FrameFacts& facts, Decision& decision) noexcept {
  decision.correction = controller_.coast(facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  decision.coasting = true;
  note_range(facts, decision.correction);
}

void Supervisor::note_range(const FrameFacts& facts, const Correction& correction) noexcept {
  if ((correction.limited & kLimitRange) == 0)
    at_range_since_ns_ = 0;
  else if (at_range_since_ns_ == 0)
    at_range_since_ns_ = facts.now_ns;
}

/// Moves the stage a little around the place where it was last seen to follow, while the lock is
/// held because it does not. Stops while the sample is farther off than it may have drifted: the
/// moves may be what drives it away.
void Supervisor::probe(const FrameFacts& facts, Decision& decision) noexcept {
  const double held_s = seconds_between(lock_.since_ns, facts.now_ns);
  const double allowed_nm = kProbeRoomNm + settings_.max_drift_nm_per_s * held_s;
  if (is_farther(facts.drift->frame_drift_nm, probed_from_nm_, allowed_nm)) return;
  if (acquaints_while_held(facts)) return acquaint(facts, decision);
  const Vec2 wanted_nm = probe_.wanted_nm(
      controller_.total_nm(), controller_.stage_at(facts.now_ns), monitor_.sd_nm(), facts.now_ns);
  decision.correction = controller_.go_to(wanted_nm, facts.now_ns);
  decision.limits = controller_.limits();
  decision.has_correction = true;
  decision.probe = true;
}

/// Moves the stage whatever the markers show, as long as a command can leave: the way back must not
/// depend on markers. Of several that wait, only the last one's time of leaving would be known.
void Supervisor::excite(const FrameFacts& facts, Decision& decision) noexcept {
  const bool can_leave = !facts.stale && !facts.not_sent && !facts.refused && !facts.unsent;
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

/// Only while everything else is well.
bool Supervisor::may_coast(const FrameFacts& facts) const noexcept {
  return lock_.state == LockState::Locked && lock_.bad_frames == 0 && facts.drift != nullptr &&
         !facts.not_sent && !report_of(facts.stage) && controller_.may_coast(facts.now_ns);
}

/// One verdict a frame: the first of these that holds.
LockEvent Supervisor::verdict_of(const FrameFacts& facts) noexcept {
  if (facts.refused) return LockEvent::InternalFault;
  if (facts.stale) return LockEvent::StaleFrame;
  if (!is_measured(facts)) return may_coast(facts) ? LockEvent::Coasting : LockEvent::FewMarkers;
  if (facts.new_reference)
    return rest_moves_missing() == 0 ? LockEvent::ReferenceDone : LockEvent::GoodFrame;
  if (const auto event = report_of(facts.stage)) return *event;
  if (is_jump(facts)) {
    jumped_nm_ = difference(residual_nm(facts), last_drift_nm_);
    return LockEvent::Jump;
  }
  if (facts.not_sent) return LockEvent::NotSent;
  if (at_range_since_ns_ != 0 &&
      facts.now_ns - at_range_since_ns_ >
          period_.timeout_ns(settings_.range_timeout_ns, kPeriodsAtRange))
    return LockEvent::RangeExceeded;
  if (lock_.state == LockState::Locked && !stage_verdict_.follows)
    return LockEvent::StageNotFollowing;
  if (is_held_for_stage() && stage_verdict_.follows) return LockEvent::StageFollows;
  return LockEvent::GoodFrame;
}

/// Where the modelled stage was, less what moves did; stage axes.
Vec2 Supervisor::corrected_nm(std::int64_t taken_ns) const noexcept {
  return difference(controller_.stage_at(taken_ns), controller_.moved_at(taken_ns));
}

/// Compares with the last plausible place only while a correction depends on it: idle, the sample
/// may be moved about freely. While no drift was measured the sample may have drifted.
bool Supervisor::is_jump(const FrameFacts& facts) const noexcept {
  if (!is_engaged() || !has_last_drift_) return false;
  const double blind_s =
      blind_s_ + (blind_ ? seconds_between(last_measured_ns_, facts.taken_ns) : 0.0);
  const double allowed_nm = settings_.max_jump_nm + settings_.max_drift_nm_per_s * blind_s;
  // The lock itself has moved the sample meanwhile; with large steps, farther than allowed_nm.
  const Vec2 by_lock = to_image(difference(corrected_nm(facts.taken_ns), last_corrected_nm_));
  const Vec2 way = difference(residual_nm(facts), last_drift_nm_);
  const auto is_beyond = [allowed_nm](double nm, double by_lock_nm) {
    return nm > std::max(0.0, by_lock_nm) + allowed_nm ||
           nm < std::min(0.0, by_lock_nm) - allowed_nm;
  };
  return is_beyond(way.x, by_lock.x) || is_beyond(way.y, by_lock.y);
}

}  // namespace driftd::control
