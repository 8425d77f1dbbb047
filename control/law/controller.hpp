// SPDX-License-Identifier: MIT
// From the drift estimate to a stage correction. A control law (law_choice.hpp) acts on the error
// that will be left once everything already commanded has taken effect (stage_model.hpp), so that
// the loop's delay is not corrected twice. Then come the limits on step, rate, range and travel;
// each one that acts is reported.
//
// Per frame, in stage axes (docs/internals/drift-and-lock.md derives it):
//   target = stage - image_to_stage * drift   where the stage must be, from this frame; `stage` is
//                                             the modelled stage, averaged as the drift is
//   total  = limited(law(target, total - move) + move)
// `move` is the part of the total that takes the sample to another place by intention. The stage
// answers linearly, so the target, which the sample's own drift alone decides, does not change with
// `move`: the law never sees a move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/law/law_choice.hpp"
#include "control/law/limits.hpp"
#include "control/stage/stage_model.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// Limits, delay, time constant and frequency that are negative or not a number count as 0.
struct ControllerSettings {
  ImageToStage image_to_stage;
  double proportional;   ///< share of the predicted error added at once
  double integral;       ///< share of the predicted error integrated per frame
  double step_limit_nm;  ///< largest |delta| per axis
  double rate_limit_nm_per_s;
  double range_limit_nm;   ///< largest |total| per axis
  double travel_limit_nm;  ///< largest distance per axis from the stage's place when the daemon
                           ///< started: the totals of all locks since, added; and of one that
                           ///< was interrupted before
  double stage_delay_us;   ///< dead time from sending a correction to the stage starting to move
  double stage_time_constant_us;  ///< first-order response after that; 0: at once
  double stage_resonance_hz = 0;  ///< above 0: of second order instead, with `stage_damping`
  double stage_damping = 1;
  ControlLaw law = ControlLaw::Pi;
  double coast_nm = 0;   ///< frames without a drift are corrected as long as the observer knows the
                         ///< sample's place so well (a standard deviation); 0: they are not
  std::size_t axes = 2;  ///< as of SupervisorSettings, which sets it
  bool verifies_lines = false;  ///< as of ObserverSettings
};

class Controller {
 public:
  explicit Controller(const ControllerSettings& settings);

  /// A lock engages: total = 0 where the stage is now; no history. The travel goes on.
  /// @param carried_nm  it goes on from an interrupted lock, at whose place of lock the stage would
  ///   be by -carried: the range counts from there
  void reset(Vec2 carried_nm = {}) noexcept;
  /// Nothing was commanded yet: the stage was moved so far before the daemon started.
  void set_travelled(Vec2 travelled_nm) noexcept { travelled_nm_ = travelled_nm; }
  /// A frame with a drift was taken, middle of its exposure: remembers where the stage was, for
  /// averages that this frame is part of. Every such frame, after feed_law(), whether it is
  /// corrected or not.
  void remember_stage(std::int64_t taken_ns) noexcept;
  /// A frame with a plausible drift, before update(): the observer follows the sample, and learns.
  void feed_law(const DriftEstimate& drift, std::int64_t taken_ns, std::int64_t now_ns) noexcept;
  /// @param drift_nm   measured drift, image axes, sample plane (what is left while locked)
  /// @param taken_ns   when the frame was exposed (middle), CLOCK_MONOTONIC. Later than now_ns
  ///                   counts as now_ns.
  /// @param now_ns     when the correction will be sent; not after the one before: nothing moves
  /// @param averaged   frames that the drift is the mean of; when more than one, the last so many
  ///                   were remember_stage()d
  /// The command is remembered as sent at now_ns. Never returns a non-finite value: with non-finite
  /// input the total is repeated with delta 0.
  /// The rate limit holds between any two moves; the first after reset() may use the time since its
  /// frame was taken.
  Correction update(Vec2 drift_nm, std::int64_t taken_ns, std::int64_t now_ns,
                    int averaged = 1) noexcept;
  /// A frame without a drift may be corrected by what frames before have shown.
  bool may_coast(std::int64_t now_ns) const noexcept;
  Correction coast(std::int64_t now_ns) noexcept;
  /// Sets where moves have come to: the part of the total that is there without any drift. update()
  /// goes there as far as the limits leave room beside the correction. What is not finite is
  /// ignored.
  void set_move(Vec2 wanted_nm) noexcept;
  /// Right after reset(): the stage stands where moves of before have taken it.
  void begin_moved(Vec2 move_nm) noexcept;
  /// Moves have the stage elsewhere than was thought, by another matrix: no move, and no step.
  void count_moved_as(Vec2 move_nm) noexcept;
  /// The last see() was of a stage under way by intention: it shows the stage, not the sample.
  bool sees_move() const noexcept { return shaken_nm2_ > kLeastShakenNm2; }
  /// The part of the total that moves asked for.
  Vec2 move_nm() const noexcept { return move_nm_; }
  /// The share, 0 to 1, that the last update() went of the way to what set_move() was told last.
  double move_share() const noexcept { return move_share_; }
  /// A move that no drift asked for, within the same limits; the law goes on from there. The
  /// first call after reset() moves nothing: the rate counts from it.
  Correction go_to(Vec2 wanted_nm, std::int64_t now_ns) noexcept;
  /// The stage was told last, at `sent_ns`, to be at `sent_total_nm`; it was never told of the
  /// corrections after that. Both are 0 for a lock of which nothing was sent.
  void take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept;
  /// The last command left only at `sent_ns`, later than was said.
  void left_at(std::int64_t sent_ns) noexcept;
  /// When the last command left; 0: none has since reset().
  std::int64_t sent_ns() const noexcept { return started_ ? sent_ns_ : 0; }
  /// New gains, limits and stage model for the corrections from now on; total and history stay.
  /// A total outside a range made narrower returns within the step and rate limits.
  void change_settings(const ControllerSettings& settings) noexcept;
  /// How much longer than ControllerSettings::stage_delay_us a command waits on average, because
  /// the stage takes fewer commands than it is sent.
  void set_waiting_us(double waiting_us) noexcept;

  double waiting_us() const noexcept { return waiting_us_; }

  Vec2 total_nm() const noexcept { return total_nm_; }
  /// The stage's place at lock, from its place at the daemon's start.
  Vec2 travelled_nm() const noexcept { return travelled_nm_; }
  /// What the last reset() was given.
  Vec2 carried_nm() const noexcept { return carried_nm_; }
  /// What the observer needs a plan for. @param period_s  between frames; 0: not known
  ObserverSettings observer_wish(double period_s) const noexcept;
  LawChoice& law() noexcept { return law_; }
  const LawChoice& law() const noexcept { return law_; }
  /// What may be sent now.
  CorrectionLimits limits() const noexcept;
  const StageModel& stage() const noexcept { return stage_; }
  /// Where the stage model says the stage was at a time, relative to its place at lock.
  Vec2 stage_at(std::int64_t time_ns) const noexcept { return stage_.at(time_ns); }
  /// The part of it that moves did.
  Vec2 moved_at(std::int64_t time_ns) const noexcept { return moved_.at(time_ns); }
  /// Its mean over the last so many frames that were remember_stage()d.
  Vec2 mean_moved(int frames) const noexcept;

 private:
  static constexpr double kLeastShakenNm2 = 1e-3;
  /// drift.average_frames is at most so many.
  static constexpr std::size_t kMostAveraged = 1000;

  Vec2 mean_of(const std::vector<Vec2>& ring, std::size_t frames) const noexcept;
  void go_on_with_move(Vec2 servo_nm, std::int64_t last_ns, std::int64_t now_ns) noexcept;
  Correction send(Vec2 wanted_nm, std::int64_t last_ns, std::int64_t now_ns) noexcept;

  StageModelSettings stage_settings() const noexcept;
  LawSettings law_settings() const noexcept;

  ControllerSettings settings_;
  double waiting_us_ = 0;
  StageModel stage_, moved_;  ///< told the total; told move_nm_ alone
  LawChoice law_;
  Vec2 seen_move_nm_;      ///< where moves had the stage in the last frame that the law saw
  double shaken_nm2_ = 0;  ///< what that may have wrong lately
  Vec2 total_nm_;
  Vec2 travelled_nm_;
  Vec2 carried_nm_;
  Vec2 move_nm_, wanted_move_nm_;
  double move_share_ = 1;
  bool started_ = false;  ///< a command was sent since reset()
  std::int64_t sent_ns_ = 0;
  std::vector<Vec2> observed_;        ///< ring of the modelled stage in the last frames
  std::vector<Vec2> observed_moved_;  ///< and of the part that moves did
  std::vector<Vec2> observed_noise_;  ///< and what of its place was nothing to follow
  std::size_t newest_ = 0;
  std::size_t observed_count_ = 0;
};

}  // namespace driftd::control
