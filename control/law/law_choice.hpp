// SPDX-License-Identifier: MIT
// Which control law holds the lock: the observer, which learns how the sample moves (observer/), or
// PI (pi_law.hpp). Both are told every command, so that either can take over with the next frame
// from where the stage is. The controller owns it. Tracking loop; no allocation after construction;
// noexcept.
//
// `auto` takes the observer as soon as it has a plan. Where PI would have been stiller
// (law_judge.hpp) PI takes over for a minute; then the observer is tried again, and at once when it
// has learnt what it did not know before. Each time that fails, PI stays for twice as long, up to
// an hour. It is not tried at all where the stage's driver carries out too few of the corrections:
// the observer counts on each one.
#pragma once

#include <cstdint>

#include "control/law/law_judge.hpp"
#include "control/law/observer/observer.hpp"
#include "control/law/pi_law.hpp"
#include "control/values/arithmetic.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// Why the law that acts does.
enum class LawReason : std::uint8_t {
  Configured,   ///< it is the one that was asked for
  NotReady,     ///< PI: the observer does not know yet how often frames come, and how the stage is
  WorseThanPi,  ///< PI: it would have held the sample stiller
  TriedAgain,   ///< the observer, after PI had taken over
  LearnsAnew,   ///< the observer, which knows no more what it had learnt: other frames or axes
  DriverTooSlow,  ///< PI: the stage's driver takes too few corrections
};
const char* name_of(LawReason reason) noexcept;

struct LawSettings {
  ControlLaw law = ControlLaw::Pi;
  PiSettings pi{};
  StageModelSettings stage{};
  double step_limit_nm = 0, rate_limit_nm_per_s = 0;  ///< the lock's, for PI flown beside
  std::size_t axes = kAxes;                           ///< of the lock: 1 or 2
  bool verifies_lines = false;                        ///< as of ObserverSettings
};

/// What is told of the law that acts.
struct LawState {
  bool observer = false;  ///< else PI
  LawReason reason = LawReason::NotReady;
  std::uint32_t changes = 0;       ///< of law or reason, since the start
  double left_nm = 0;              ///< rms of an axis, as measured, of what was judged; 0: none yet
  double pi_left_nm = 0;           ///< what PI would have left over them
  double frames_a_correction = 0;  ///< that the driver takes, where it is too slow; else 0
};

class LawChoice {
 public:
  explicit LawChoice(const LawSettings& settings);
  /// Another stage: the observer waits for another plan. Another matrix: it learns anew.
  void change_settings(const LawSettings& settings) noexcept;

  /// The stage was told to be at `total_nm`, and no error has been seen.
  void reset(Vec2 total_nm) noexcept;
  /// Likewise, and never of what was told after `sent_ns`.
  void take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// Its places count from another one: so much is added to all that it was told.
  void shift(Vec2 by_nm) noexcept;

  /// A frame with a plausible drift, whatever the lock does. @param stage_nm  of the modelled stage
  /// when it was taken
  void see(const Sight& sight, Vec2 stage_nm) noexcept;
  /// @param target_nm, total_nm  as of PiLaw::wanted_nm()
  /// @param taken_ns  of the frame
  Vec2 wanted_nm(Vec2 target_nm, Vec2 total_nm, std::int64_t taken_ns) noexcept;
  /// As of PiLaw::told(), of whatever the stage is told.
  /// @param at_range  the stage may go no farther: no law could have done better
  void told(Vec2 total_nm, bool x_held_back, bool y_held_back, bool at_range,
            std::int64_t now_ns) noexcept;
  /// The last command, of `told_ns`, left only at `sent_ns`.
  void left_at(std::int64_t told_ns, std::int64_t sent_ns) noexcept {
    observer_.left_at(sent_ns);
    judge_.left_at(told_ns, sent_ns);
  }
  /// Somebody else said where the stage has to go: neither law erred.
  void interrupted(Vec2 total_nm) noexcept;
  /// How much of where a frame shows that the stage would have to be is nothing to follow.
  Vec2 unfollowed_nm(std::int64_t taken_ns) const noexcept {
    // The observer passes over a sight that it cannot use: what it knows is of the frame before.
    const bool known = settings_.law == ControlLaw::Auto && observer_.frame().taken_ns == taken_ns;
    const Vec2 noise_nm = known ? observer_.unfollowed_nm() : Vec2{};
    return is_finite(noise_nm) ? noise_nm : Vec2{};  // PI holds whatever the observer does
  }
  /// The stage did not do what it was told, since when is not known: neither law erred.
  void doubt_stage() noexcept { judge_.restart(); }

  /// Frames without a drift may be corrected: the observer acts and knows where the sample is
  /// within `within_nm` (a standard deviation). For at most 2 s; 0.5 s where a line's frequency
  /// moves.
  bool may_coast(std::int64_t now_ns, double within_nm) const noexcept;
  Vec2 coast(std::int64_t now_ns) const noexcept { return observer_.coast(now_ns); }

  /// What a plan has to be for, if the observer is to act. @param period_s  0: not known
  ObserverSettings wish(double period_s, double change_limit_nm) const noexcept;
  /// From the thread that tunes. A plan for another stage than the present one is passed over.
  void offer(const ObserverPlan& plan) noexcept;
  void offer(const Tuning& tuning) noexcept { observer_.offer(tuning); }
  /// Corrections a second that the stage's driver takes; 0: all, as far as is known.
  /// @param told  by the driver; else small moves showed it, about
  void set_driver_hz(double hz, bool told = true) noexcept {
    driver_hz_ = hz;
    driver_told_ = told;
  }
  /// To be learnt from; of the last see(). taken_ns 0: there is nothing.
  const ObserverFrame& frame() const noexcept { return observer_.frame(); }

  /// What the last see() expected, where the observer acts and has learnt; for the stage monitor.
  std::optional<Expectation> expectation() const noexcept {
    return state_.observer ? observer_.expectation() : std::nullopt;
  }

  /// What was seen until now was not the sample's own motion: nothing of it counts.
  void learn_afresh() noexcept {
    if (has_plan_) learn_anew();
  }

  const Observer& observer() const noexcept { return observer_; }
  LawState state() const noexcept;

 private:
  struct Seen {
    Vec2 moved_nm, stage_nm;
    std::int64_t now_ns = 0;
    bool commanded = true;  ///< the law was asked what follows from it
  };
  void choose(std::int64_t now_ns) noexcept;
  bool knows() const noexcept { return observer_.is_tuned(); }
  void learn_anew() noexcept;
  void act(bool observer, LawReason reason) noexcept;
  bool is_driver_too_slow() const noexcept;
  void take_observer(LawReason reason) noexcept;

  LawSettings settings_;
  PiLaw pi_;
  Observer observer_;
  ObserverPlan plan_;
  bool has_plan_ = false;
  LawJudge judge_;
  LawState state_;
  Vec2 total_nm_;
  Vec2 observer_wants_nm_;
  std::int64_t seen_ns_ = 0;  ///< when the frame was taken that observer_wants_nm_ is of
  Seen seen_;                 ///< likewise, for the judge
  std::int64_t acts_since_ns_ = 0;
  double driver_hz_ = 0;
  bool driver_told_ = true;
  std::int64_t rest_ns_ = 0;        ///< that PI was given last, since it was better
  std::int64_t rest_until_ns_ = 0;  ///< of PI that was better; 0: the observer acts
  bool knew_ = false;               ///< it had learnt when PI took over
  bool judged_learnt_ = false;      ///< and so it had at the last frame
};

}  // namespace driftd::control
