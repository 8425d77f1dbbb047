// SPDX-License-Identifier: MIT
#include "daemon/loop/held_group.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "control/values/arithmetic.hpp"

namespace driftd::daemon {
namespace {

constexpr double kRmsTimeConstantNs = 5e9;  // "the last seconds" of status.drift.rms

}  // namespace

HeldGroup::HeldGroup(AxisGroup group, const control::SupervisorSettings& settings,
                     const control::GateSettings& gate, std::int64_t frame_period_ns,
                     const Ways& ways)
    : reference_(ways.reference),
      ports_(ways.ports),
      own_ports_(ways.ports.of(group)),
      outlet_(ways.outlet),
      report_(ways.report),
      bad_frames_to_hold_(settings.lock.bad_frames_to_hold),
      supervisor_(settings, control::FramePeriod(frame_period_ns)),
      session_(group, supervisor_, ways.reference, ways.set, ways.ports),
      observer_(supervisor_, own_ports_.observer),
      gate_(gate) {}

void HeldGroup::obey(LoopCommand& command) noexcept {
  switch (command.kind) {
    case LoopCommand::Kind::Lock:
      session_.lock(command);
      break;
    case LoopCommand::Kind::Unlock:
      session_.order(control::LockEvent::CommandUnlock);
      break;
    case LoopCommand::Kind::Reset:
      session_.order(control::LockEvent::CommandReset);
      break;
    case LoopCommand::Kind::Calibrate:
      session_.calibrate(command);
      break;
    case LoopCommand::Kind::StopCalibration:
      if (session_.calibration()) session_.calibration()->stop(CalibrationEnd::Stopped);
      break;
    case LoopCommand::Kind::Travelled:
      if (session_.id() == 0) supervisor_.set_travelled(command.travelled_nm);
      break;
    case LoopCommand::Kind::KnowStage:
      if (session_.id() == 0) supervisor_.know_stage(command.knowledge);
      break;
    case LoopCommand::Kind::ForgetStage:
      supervisor_.forget_found_stage();
      break;
    case LoopCommand::Kind::Move:
      supervisor_.begin_move(*command.move);
      ports_.retired_moves.push(std::move(command.move));
      break;
    case LoopCommand::Kind::StopMove:
      supervisor_.stop_move();
      break;
    case LoopCommand::Kind::None:
    case LoopCommand::Kind::Markers:
    case LoopCommand::Kind::MoveRois:
    case LoopCommand::Kind::Settings:
    case LoopCommand::Kind::SpotZero:
      break;
  }
}

void HeldGroup::change_settings(const control::SupervisorSettings& settings,
                                const control::GateSettings& gate) noexcept {
  bad_frames_to_hold_ = settings.lock.bad_frames_to_hold;
  supervisor_.change_settings(settings);
  gate_.change_settings(gate);
}

void HeldGroup::forget_drift() noexcept {
  supervisor_.forget_drift();
  residual_.new_reference();
}

void HeldGroup::begin_reference_anew() noexcept {
  if (supervisor_.lock().state == control::LockState::Referencing) session_.begin_reference();
}

void HeldGroup::saw_frame(std::uint64_t frame_id, std::int64_t arrival_ns) noexcept {
  session_.saw_frame(frame_id);
  supervisor_.arrived(arrival_ns);
}

void HeldGroup::without_frame(std::int64_t last_arrival_ns, std::int64_t now_ns,
                              bool away) noexcept {
  if (supervisor_.without_frame(last_arrival_ns, now_ns, away)) reference_.restart_average();
  session_.tell_change();
  session_.without_frame(now_ns);
  session_.end_calibration_if_over();
}

bool HeldGroup::sees_new_reference(bool completed, const control::DriftEstimate& drift) noexcept {
  const bool is_new = completed || session_.kept_reference_is_due(drift);
  if (is_new) mean_square_x_nm2_ = mean_square_y_nm2_ = 0;  // a new zero
  return is_new;
}

void HeldGroup::supervise(control::FrameFacts& facts, HeldResult& result) noexcept {
  facts.refused = outlet_.refused() != refused_seen_;
  refused_seen_ = outlet_.refused();
  const std::uint64_t broken = outlet_.broken();
  // Read after it, this may be newer, never older.
  const Outlet::Sent sent = outlet_.last_sent(session_.engaged_id());
  if (broken != chain_) {
    chain_ = broken;
    session_.take_back(sent.total_nm, sent.handed_ns == late_ns_ ? left_ns_ : sent.handed_ns);
  }
  see_late_send(sent, facts.now_ns);
  observer_.take(facts.now_ns);
  facts.stage = own_ports_.stage_says.load(std::memory_order_relaxed);
  facts.driver_hz = own_ports_.driver_hz.load(std::memory_order_relaxed);
  facts.excitation_nm = session_.excitation_nm(facts.now_ns);
  const control::Decision decision = supervisor_.decide(facts);
  if (decision.restart_average) reference_.restart_average();
  if (decision.has_correction) {
    result.has_correction = true;
    result.probe = decision.probe;
    result.coasting = decision.coasting;
    result.correction = decision.correction;
    result.limits = decision.limits;
    result.chain = chain_;
    // Moves that try the stage, a calibration's above all, go as fast as they may.
    if (!decision.probe) report_.limited = decision.correction.limited;
    report_.corrections++;
  }
  // The stage monitor has seen too little during this reference: one more is taken.
  if (facts.new_reference) begin_reference_anew();
  session_.tell_change();
  coasted_frames_ = decision.coasting ? coasted_frames_ + 1 : 0;
  has_new_reference_ = facts.new_reference;
  see_residual(facts);
  result.in_lock = gate_.state().in_lock;
  result.moved_nm = supervisor_.moved_nm();
  result.moving = supervisor_.moving();
  session_.saw(facts, decision);
  result.state = supervisor_.lock().state;
  result.lock_id = session_.id();
}

/// Corrections that a busy computer held up: from when they left the stage knew of them, and what
/// it did until then is no evidence against it.
void HeldGroup::see_late_send(const Outlet::Sent& sent, std::int64_t now_ns) noexcept {
  constexpr std::int64_t kLateNs = 500'000;
  const bool is_newest = supervisor_.controller().sent_ns() <= sent.handed_ns;
  if (sent.lock_id == 0 || !is_newest || sent.handed_ns == late_ns_ ||
      sent.left_ns - sent.handed_ns < kLateNs)
    return;
  late_ns_ = sent.handed_ns;
  left_ns_ = std::min(sent.left_ns, now_ns - 1);
  session_.left_at(left_ns_);
}

void HeldGroup::see_residual(const control::FrameFacts& facts) noexcept {
  const bool blind = coasted_frames_ >= bad_frames_to_hold_;
  if (supervisor_.lock().state != control::LockState::Locked || blind)
    gate_.not_locked(facts.now_ns);
  else if (supervisor_.is_acquainting())
    gate_.getting_acquainted(facts.now_ns);
  else if (supervisor_.moving())
    gate_.moving(facts.now_ns);
  else if (facts.drift != nullptr && facts.drift->valid)
    gate_.measured(control::difference(facts.drift->frame_drift_nm, supervisor_.moved_nm()),
                   facts.now_ns);
}

/// What the stage says of its place against what the stage model has it be.
void HeldGroup::compare_place() noexcept {
  own_ports_.stage_place.refresh();
  const StageReadback& place = own_ports_.stage_place.reading();
  if (place.time_ns == place_ns_) return;
  place_ns_ = place.time_ns;
  const bool locked = supervisor_.lock().state == control::LockState::Locked;
  if (place.time_ns == 0 || !locked || place.lock_id != session_.engaged_id()) {
    stage_off_.forget();
  } else {
    const control::Vec2 modelled_nm = supervisor_.controller().stage_at(place.time_ns);
    stage_off_.add({place.total_nm.x - modelled_nm.x, place.total_nm.y - modelled_nm.y});
  }
  report_.stage_off_nm = stage_off_.rms_nm();
}

bool HeldGroup::learn(const control::DriftEstimate& drift, const HeldResult& result,
                      double interval_s) noexcept {
  using control::LockState;
  const bool locked = result.state == LockState::Locked && !supervisor_.is_acquainting();
  if (has_new_reference_ || result.state == LockState::Idle ||
      result.state == LockState::Referencing)
    residual_.new_reference();
  else if (!locked || supervisor_.moving())
    residual_.not_locked();
  else if (drift.valid)
    residual_.measured(drift, supervisor_.moved_nm(), interval_s, 1e-9 * supervisor_.period().ns());
  report_.residual = residual_.state();
  return locked;
}

void HeldGroup::account(const control::DriftEstimate& drift) noexcept {
  report_.drift = drift;
  // The controller has the last lock's until the next one engages.
  report_.total_nm = session_.engaged_id() == session_.id() ? supervisor_.controller().total_nm()
                                                            : control::Vec2{};
  report_.travelled_nm = supervisor_.controller().travelled_nm();
  report_.carried_nm = supervisor_.controller().carried_nm();
  if (!drift.valid) return;
  const double share = std::min(1.0, supervisor_.period().ns() / kRmsTimeConstantNs);
  // Where moves have the sample by intention is none.
  const control::Vec2 moved_nm = drift.frames_averaged > 1
                                     ? supervisor_.mean_moved_nm(drift.frames_averaged)
                                     : supervisor_.moved_nm();
  const double x_nm = drift.drift_nm.x - moved_nm.x, y_nm = drift.drift_nm.y - moved_nm.y;
  mean_square_x_nm2_ += share * (x_nm * x_nm - mean_square_x_nm2_);
  mean_square_y_nm2_ += share * (y_nm * y_nm - mean_square_y_nm2_);
  report_.rms_x_nm = std::sqrt(mean_square_x_nm2_);
  report_.rms_y_nm = std::sqrt(mean_square_y_nm2_);
}

void HeldGroup::report(std::int64_t now_ns) noexcept {
  session_.end_calibration_if_over();
  const StageRun* calibration = session_.calibration();
  report_.calibration = calibration ? calibration->phase() : CalibrationPhase::Over;
  report_.calibration_progress = calibration ? calibration->progress() : 0;
  report_.lock = supervisor_.lock();
  report_move();
  if (report_.lock.state != control::LockState::Locked) gate_.not_locked(now_ns);
  report_.gate = gate_.state();
  report_.law = supervisor_.law().state();
  report_.forecast = observer_.forecast();
  for (std::size_t i = 0; i < control::kAxes; ++i)
    report_.motion[i] = supervisor_.law().observer().motion(i);
  report_.stage = supervisor_.stage_looks();
  report_.acquaintance = supervisor_.acquaintance();
  report_.acquainting = supervisor_.is_acquainting();
  report_.stage_knowledge = supervisor_.stage_knowledge();
  report_.stage_findings = supervisor_.stage_findings();
  report_.jumped_nm = supervisor_.jumped_nm();
  report_.reference_left = session_.reference_left();
  report_.lock_id = session_.id();
  report_.resumed = session_.is_resumed();
}

void HeldGroup::report_move() noexcept {
  const control::SetPoint& set_point = supervisor_.set_point();
  report_.move = {.id = set_point.id(),
                  .phase = set_point.phase(),
                  .end = supervisor_.move_end(),
                  .moving = supervisor_.moving(),
                  .set_nm = set_point.place_nm(),
                  .goal_nm = set_point.goal_nm(),
                  .stage_nm = supervisor_.controller().move_nm(),
                  .place = set_point.index(),
                  .places = set_point.count(),
                  .repeats_left = set_point.repeats_left()};
}

}  // namespace driftd::daemon
