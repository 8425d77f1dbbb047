// SPDX-License-Identifier: MIT
// The one place of lock policy: takes what is known of each frame, gives it one verdict, moves the
// lock's state by it, and returns the correction that may leave, or none. It owns the lock, the
// controller and the watch over the stage; it knows neither cameras nor sockets nor gains. Tracking
// loop; no allocation after construction; noexcept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "control/law/controller.hpp"
#include "control/lock/acquaintance.hpp"
#include "control/lock/lock_state.hpp"
#include "control/lock/set_point.hpp"
#include "control/stage/stage_monitor.hpp"
#include "control/stage/stage_probe.hpp"
#include "control/values/frame_period.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

struct SupervisorSettings {
  LockSettings lock;
  ControllerSettings controller;
  int reference_frames;           ///< lock.reference_frames, for the time that they need
  int rest_moves_to_lock;         ///< that the stage monitor has to have seen before a lock engages
  std::int64_t stall_timeout_ns;  ///< without a frame for so long: no frames
  std::int64_t range_timeout_ns;  ///< at the range limit for so long: holding
  double max_jump_nm;             ///< a larger change between frames is implausible ...
  double max_drift_nm_per_s;      ///< ... and so much more after a time without a drift, or held
  AcquaintanceSettings acquaintance{};
  /// 1: a lock of one axis. Then x of each Vec2 is that axis, y is 0 and stays 0, and
  /// image_to_stage is {gain, 0, 0, 1}. Stays what the Supervisor was made with.
  std::size_t axes = 2;
};

/// What is known of the stage beside the settings.
struct StageKnowledge {
  StageModelSettings stage{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0};
  bool other_matrix = false, other_response = false;  ///< than in the settings
  /// With so long between frames it was found, while commands were taken to wait so long for the
  /// driver beside the dead time.
  double period_s = 0, waiting_us = 0;
  double driver_hz = 0;  ///< corrections a second that its driver takes; 0: all, as far as was seen
};
/// How a lock stands with its stage.
enum class StageAcquaintance : std::uint8_t {
  Told,      ///< it goes by the settings, and nobody asked for more
  UnderWay,  ///< small moves find out how it answers
  Known,     ///< it was found out
  Doubted,   ///< and does not predict any more: the next lock finds out anew
  NotFound,  ///< the moves did not tell: it goes by the settings
};
const char* name_of(StageAcquaintance acquaintance) noexcept;

/// What the stage's driver says of itself, as far as a lock depends on it.
enum class StageSays : std::uint8_t {
  Nothing,  ///< there is no driver that reports
  Ready,
  Limit,
  Error,
  Silent,  ///< it has reported, and does no longer
};

/// What is known of one frame when it is judged.
struct FrameFacts {
  std::int64_t now_ns = 0;     ///< CLOCK_MONOTONIC, as every time here
  std::int64_t taken_ns = 0;   ///< middle of the exposure; of the frame alone, not of an average
  bool stale = false;          ///< too old to be used; then nothing was measured
  bool not_sent = false;       ///< the publisher is behind: see LockEvent::NotSent
  bool unsent = false;         ///< the last correction has not left yet
  bool refused = false;        ///< the publisher found a correction outside its limits
  bool new_reference = false;  ///< the estimator completed its reference with this frame
  StageSays stage = StageSays::Nothing;
  double driver_hz = 0;  ///< corrections a second that the stage's driver takes; 0: not known
  /// Calibrating: where the stage is to go.
  std::optional<Vec2> excitation_nm = std::nullopt;
  const DriftEstimate* drift = nullptr;  ///< null: nothing was measured
};

/// It shows where the sample is.
bool is_measured(const FrameFacts& facts) noexcept;

/// What follows from a frame.
struct Decision {
  LockEvent verdict = LockEvent::GoodFrame;
  bool has_correction = false;
  /// The correction tries how the stage answers; the drift is not followed.
  bool probe = false;
  /// Nothing was measured: the correction follows what frames before have shown.
  bool coasting = false;
  Correction correction = {};
  CorrectionLimits limits = {};  ///< that the correction keeps
  /// The frames' average starts anew after this frame, which is not to be followed.
  bool restart_average = false;
};

/// Why a path of the set-point is no longer under way.
enum class MoveEnd : std::uint8_t {
  None,     ///< it is, or there was none
  Done,     ///< all its places were visited
  Stopped,  ///< by command
  Limits,   ///< they left no room to go on
  Unlocked  ///< the lock has ended, and the set-point with it
};

class Supervisor {
 public:
  Supervisor(const SupervisorSettings& settings, FramePeriod period);

  /// Limits, gains and time-outs from now on; lock and total stay.
  void change_settings(const SupervisorSettings& settings) noexcept;

  void command(LockEvent command, std::int64_t now_ns) noexcept;
  /// What the next lock that engages begins with: Controller::reset() takes the total, and the
  /// set-point is at `set_nm`.
  void set_carried(Vec2 carried_nm, Vec2 set_nm = {}) noexcept {
    carried_nm_ = carried_nm;
    first_set_nm_ = set_nm;
  }
  /// Moves under lock: the path begins where the set-point is, in place of another one. Nothing
  /// changes unless it is locked. @returns whether it was
  bool begin_move(const MovePath& path) noexcept;
  /// The set-point stays where it is.
  void stop_move() noexcept;
  void set_travelled(Vec2 travelled_nm) noexcept { controller_.set_travelled(travelled_nm); }
  /// Controller::set_waiting_us().
  void set_stage_waiting_us(double waiting_us) noexcept;
  /// Calibrating has come to its end.
  void end_calibration(std::int64_t now_ns) noexcept { feed(LockEvent::CalibrationOver, now_ns); }
  /// A frame came, whatever becomes of it: before decide().
  void arrived(std::int64_t arrival_ns) noexcept { period_.arrived(arrival_ns); }
  Decision decide(const FrameFacts& facts) noexcept;
  /// What the observer needs a plan for; LawChoice::offer() takes it.
  ObserverSettings observer_wish() const noexcept {
    return controller_.observer_wish(1e-9 * period_.ns());
  }
  LawChoice& law() noexcept { return controller_.law(); }
  /// The frame of the last decide(); null unless the law that acts decided and the observer has
  /// seen the frame.
  const ObserverFrame* to_learn_from() const noexcept {
    return learnt_ ? &controller_.law().frame() : nullptr;
  }
  /// What the next decide() needs and can be done before: once this one's correction is on its way.
  void prepare() noexcept { monitor_.prepare(); }
  /// No frame came until now. @param away  the camera is known to be gone
  /// @returns true when that is long enough to count: the frames' average starts anew
  bool without_frame(std::int64_t last_arrival_ns, std::int64_t now_ns, bool away) noexcept;
  /// What was computed after `sent_ns` never left; `sent_total_nm` was the last that did.
  void take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept;
  /// The last correction left only at `sent_ns`, when the computer had time.
  void left_at(std::int64_t sent_ns) noexcept {
    controller_.left_at(sent_ns);
    acquaintance_.left_at(sent_ns);
  }
  /// Good frames that the reference of a lock takes, begun now: `reference_frames`, or more where
  /// the stage monitor has seen too little.
  int reference_frames() const noexcept;
  /// The same for a lock that keeps its reference.
  int frames_to_know_rest() const noexcept;
  /// For the desk, of the last decide(); null: nothing is to be passed on.
  const AcquaintanceFrame* to_get_acquainted() const noexcept {
    return shown_ ? &acquaintance_.frame() : nullptr;
  }
  /// The desk's, before decide().
  void hear(const AcquaintanceAnswer& answer, std::int64_t now_ns) noexcept;
  /// No lock is engaged: what an earlier one, or an earlier daemon, has found out.
  void know_stage(const StageKnowledge& knowledge) noexcept;
  /// It is another one. Passed over while a lock is engaged.
  void forget_found_stage() noexcept;
  StageAcquaintance acquaintance() const noexcept;
  /// Nothing: not found out, or doubted.
  std::optional<StageKnowledge> stage_knowledge() const noexcept {
    return doubted_ ? std::nullopt : knowledge_;
  }
  /// Counts what was found out, doubted and forgotten.
  std::uint32_t stage_findings() const noexcept { return findings_; }
  /// Locked, but the law does not act yet.
  bool is_acquainting() const noexcept { return lock_.state == LockState::Locked && to_acquaint_; }
  /// The markers were replaced: what was measured before is of others.
  void forget_drift() noexcept { has_last_drift_ = false; }

  const Lock& lock() const noexcept { return lock_; }
  const Controller& controller() const noexcept { return controller_; }
  const FramePeriod& period() const noexcept { return period_; }
  /// What the stage's response to the corrections looks like.
  StageLooks stage_looks() const noexcept { return stage_verdict_.looks; }

  /// How far the last frame that was an implausible jump lay from the last plausible place; image
  /// axes.
  Vec2 jumped_nm() const noexcept { return jumped_nm_; }

  const SetPoint& set_point() const noexcept { return set_point_; }
  MoveEnd move_end() const noexcept { return move_end_; }
  /// Where moves had the sample when the last frame was taken, by the stage model: image axes, from
  /// the reference. 0 unless locked or held, as the set-point is.
  Vec2 moved_nm() const noexcept { return moved_nm_; }
  /// Its mean over the last so many frames with a drift.
  Vec2 mean_moved_nm(int frames) const noexcept;
  /// It was under way then: between two places, or not quite at the one.
  bool moving() const noexcept { return moving_; }

 private:
  int rest_moves_missing() const noexcept;
  int frames_per_watch() const noexcept;
  LockEvent verdict_of(const FrameFacts& facts) noexcept;
  std::optional<LockEvent> report_of(StageSays stage) const noexcept;
  bool is_jump(const FrameFacts& facts) const noexcept;
  Vec2 corrected_nm(std::int64_t taken_ns) const noexcept;
  void update_law(const FrameFacts& facts) noexcept;
  bool is_excused(const FrameFacts& facts) noexcept;
  void watch_stage(const FrameFacts& facts) noexcept;
  bool has_jumped(const FrameFacts& facts, LockEvent verdict) const noexcept;
  void remember(const FrameFacts& facts, bool jumped) noexcept;
  void feed(LockEvent event, std::int64_t now_ns) noexcept;
  bool may_coast(const FrameFacts& facts) const noexcept;
  bool is_held_for_stage() const noexcept;
  void correct(const FrameFacts& facts, Decision& decision) noexcept;
  void coast(const FrameFacts& facts, Decision& decision) noexcept;
  void note_range(const FrameFacts& facts, const Correction& correction) noexcept;
  void plan_path_step(std::int64_t now_ns) noexcept;
  void advance_path(std::int64_t now_ns) noexcept;
  void end_move(MoveEnd end) noexcept;
  void see_move(std::int64_t taken_ns) noexcept;
  bool is_engaged() const noexcept;
  Vec2 to_image(Vec2 stage_nm) const noexcept;
  Vec2 residual_nm(const FrameFacts& facts) const noexcept;
  void probe(const FrameFacts& facts, Decision& decision) noexcept;
  void excite(const FrameFacts& facts, Decision& decision) noexcept;
  void acquaint(const FrameFacts& facts, Decision& decision) noexcept;
  bool begin_acquaintance(Vec2 centre_nm, std::int64_t now_ns) noexcept;
  bool was_begun_enough(std::int64_t now_ns) noexcept;
  bool acquaints_while_held(const FrameFacts& facts) noexcept;
  void see_acquaintance(const FrameFacts& facts, const Decision& decision) noexcept;
  void end_acquaintance(std::int64_t now_ns) noexcept;
  void try_again_later(std::int64_t now_ns) noexcept;
  void adopt(const StageFinding& finding, std::int64_t now_ns) noexcept;
  void doubt_knowledge(std::int64_t now_ns) noexcept;
  void forget_stage() noexcept;
  void see_driver(double told_hz) noexcept;
  void engage_acquaintance() noexcept;
  void learn_anew_when_due(std::int64_t now_ns) noexcept;
  ControllerSettings controller_settings() const noexcept;
  LockSettings time_outs() const noexcept;

  SupervisorSettings settings_;
  FramePeriod period_;
  Controller controller_;
  Vec2 carried_nm_, first_set_nm_;
  Lock lock_;
  StageMonitor monitor_;
  StageVerdict stage_verdict_;
  StageProbe probe_;
  Vec2 probed_from_nm_;  ///< the drift when the probe began
  Vec2 last_frame_nm_;   ///< the drift of the last frame that was plausible
  // The set-point, and where the moved stage had the sample in the last frame.
  SetPoint set_point_;
  MoveEnd move_end_ = MoveEnd::None;
  Vec2 moved_nm_;
  bool moving_ = false;
  double step_s_ = 0;             ///< of the set-point, in this frame
  std::int64_t set_ns_ = 0;       ///< when it was last looked at; 0: not since it was locked
  std::int64_t progress_ns_ = 0;  ///< when the path last came on
  // The last plausible residual, and how long no drift was measured since.
  bool has_last_drift_ = false;
  Vec2 last_drift_nm_;  ///< less what moves did
  Vec2 jumped_nm_;
  Vec2 last_corrected_nm_;  ///< corrected_nm() of that frame
  std::int64_t last_measured_ns_ = 0;
  std::int64_t watched_ns_ = 0;  ///< when the last frame was taken that the monitor saw
  int excuses_ = 0;  ///< for frames that say nothing of the stage, as a command left late
  std::int64_t unsent_ns_ = 0;  ///< when a command was last seen not to have left; 0: never
  bool blind_ = false;          ///< no drift since last_measured_ns_
  double blind_s_ = 0;
  std::int64_t at_range_since_ns_ = 0;
  bool learnt_ = false;
  std::optional<Expectation> expectation_;  ///< of the frame that is judged
  Acquaintance acquaintance_;
  double slow_in_this_lock_hz_ = 0;  ///< StageKnowledge::driver_hz that the lock has found
  std::optional<StageKnowledge> knowledge_;
  std::uint32_t findings_ = 0;
  bool shown_ = false;        ///< the last frame is to be passed on to the desk
  bool to_acquaint_ = false;  ///< this lock, before its first correction
  bool not_found_ = false;
  bool doubted_ = false;             ///< knowledge_ did not predict the stage
  int begun_ = 0;                    ///< how often this lock has begun it before it corrected ...
  std::int64_t first_begun_ns_ = 0;  ///< ... and since when
  double usual_sd_nm_ = 0;           ///< of a frame, when it began
  std::int64_t pause_ns_ = 0;        ///< held: until the stage is tried so
  std::int64_t held_since_ns_ = 0;   ///< held: since when that counts
  std::int64_t adopted_ns_ = 0;      ///< 0: never
  std::int64_t learns_anew_ns_ = 0;  ///< 0: it has
};

}  // namespace driftd::control
