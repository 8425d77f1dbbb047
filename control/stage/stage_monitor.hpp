// SPDX-License-Identifier: MIT
// Watches whether the stage does what it is told. Compares how the sample was seen to move with how
// the modelled stage moved, and says when another stage, one that is stuck, reversed, turned or of
// another gain, explains it better. Owned by the supervisor, called in the tracking loop; no
// allocation, no clock, noexcept. Method, thresholds and figures: docs/internals/stage-monitor.md.
//
// What the supervisor does:
//   idle, and on the command to lock:  begin_reference()
//   on the first frame against a new reference:  restart()
//   when the model's place changes without a move (a correction taken back):  skip_move()
//   each good frame, in every state of the lock (idle frames teach it the sample's own motion):
//     verdict = update({moved, covariance, stage_model.at(taken)})
//   locked and !verdict.follows: hold with reason stage_not_following, name verdict.looks, and
//     probe.begin(verdict.anchor_nm) of control/stage/stage_probe.hpp
//   held for that reason: each frame command probe.wanted_nm(...) within the limits of every
//     correction, and remember it in the stage's model; go on updating
//   held for that reason and verdict.follows: the stage does what it is told again. Lock from the
//     total that was commanded last, with PI's integral set to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "control/stage/displacement_record.hpp"
#include "control/stage/expectation.hpp"
#include "control/stage/motion_predictor.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// What the stage's response to its commands looks like.
enum class StageLooks : std::uint8_t {
  Following,
  Stuck,            ///< one axis or both do not move
  Reversed,         ///< one axis or both move the wrong way
  WrongGain,        ///< about half as far, or twice as far
  TurnedOrSwapped,  ///< along other axes: turned by 60 degrees or more, or swapped
  Unexplained,      ///< none of these, but not as commanded
};
const char* name_of(StageLooks looks) noexcept;

/// One good frame, in stage axes. The frame's own drift, not the average over frames.
struct ObservedFrame {
  Vec2 moved_nm;               ///< image_to_stage * drift: the sample's place
  Covariance2 covariance_nm2;  ///< of moved_nm
  Vec2 modelled_nm;            ///< where the model says the stage was when the frame was taken
  Vec2 move_nm = {};           ///< the part of it by intention (control/lock/set_point.hpp)
  std::int64_t taken_ns = 0;
  /// Where the observer holds the lock: its innovations are weighed in place of the monitor's own,
  /// which know less of slow and of drifting lines.
  std::optional<Expectation> expectation = std::nullopt;
};

struct StageVerdict {
  bool follows = true;
  StageLooks looks = StageLooks::Following;
  /// Where the modelled stage was when it was last seen to follow, or a quarter to half a second
  /// ago: commanded to go there, a stage that is stuck is not kicked when it comes free, one that
  /// is reversed takes the sample back, and one that was doubted wrongly is not sent far.
  Vec2 anchor_nm;
  /// Log-likelihood ratio of the best other stage against the modelled one; an alarm at
  /// StageMonitor::kAlarm, or more of it for a while after a probe has succeeded.
  double doubt = 0;
  /// Log-likelihood ratio of the modelled stage against the nearest other one, at most
  /// StageMonitor::kTrust. Low: too little was commanded to tell.
  double trust = 0;
};

class StageMonitor {
 public:
  static constexpr double kAlarm = 20;
  static constexpr double kTrust = 12;
  /// Before so many moves without a command the sample's own motion is not known, and neither its
  /// drift nor a stage that does not follow can be told from it.
  static constexpr int kMovesToJudge = 64;

  /// @param axes  of the lock. Of one, y of all that it is shown has to be 0: a stage that is
  /// stuck,
  ///   reversed or of another gain along x is all that there may be.
  explicit StageMonitor(std::size_t axes = 2) noexcept;

  /// No lock corrects from here on; the reference of the next one may begin. The stage counts as
  /// following, and the next place is not compared with those before.
  void begin_reference() noexcept;
  /// The reference is taken and a new lock begins, as after begin_reference(). What was learned of
  /// the sample's own motion is kept, unless the reference's frames are much calmer: the sample was
  /// moved about before them.
  void restart() noexcept;
  /// The next place is not compared with those before; verdict and doubts stay.
  void skip_move() noexcept {
    skip_frame();
    displacements_.restart();
  }
  /// The last place is not compared with the next: a command was late to leave before it.
  void skip_frame() noexcept { has_last_ = false; }
  /// Somebody else found that the stage does not follow: as if an alarm had said so.
  StageVerdict accuse(StageLooks looks, Vec2 anchor_nm) noexcept;
  /// Somebody else found out how it answers: it follows, and is trusted as after a probe. For two
  /// seconds and 12 nm, as long as the evidence is the monitor's own, it is not doubted for moving
  /// too little, which cancelled vibrations that are not learned yet look like. The next place is
  /// not compared with those before.
  StageVerdict reassure() noexcept;
  /// Samples that are not finite are ignored.
  StageVerdict update(const ObservedFrame& sample) noexcept;
  /// What the next update() needs of this one and can be done before: most of the work. To be
  /// called when the frame's correction is on its way; left out, the next update() does it.
  void prepare() noexcept;
  /// Moves without a command that were seen, up to what judging takes: since begin_reference()
  /// where they are much calmer than those before. Until then nothing is doubted, and nothing is
  /// learned from moves with one. As of the last prepare().
  int moves_at_rest() const noexcept;
  /// Standard deviation of what cannot be predicted of the sample's own motion from one frame to
  /// the next, noise included; of the last frames where it has grown. 0 of an axis that is not
  /// there.
  Vec2 sd_nm() const noexcept;

 private:
  /// Response to a command, in stage axes: moves by (a x + b y, c x + d y).
  struct Response {
    StageLooks looks;
    double a, b, c, d;
    bool drives_away;  ///< a lock by it moves the sample the wrong way, or too far
  };
  static constexpr std::size_t kResponses = 17, kLanes = 20;
  static const std::array<Response, kResponses> kTable;
  static const std::array<Response, 5> kTableOfOneAxis;

  struct Anchor {
    Vec2 place_nm;  ///< of the modelled stage
    std::int64_t taken_ns = 0;
  };
  /// One stage that there may be, the modelled one first.
  struct Candidate {
    Vec2 predicted_nm;     ///< of the sample's own move, were this the stage
    Vec2 innovation_nm;    ///< what that leaves
    Vec2 recent_nm2;       ///< mean square of the last innovations
    Vec2 weighed_nm;       ///< the innovation that is evidence: this one, or the observer's
    Vec2 weighed_nm2;      ///< mean square of the last of them, where they were the observer's
    double doubt = 0;      ///< evidence for it, against the model
    double own_doubt = 0;  ///< by the monitor's own innovations, of one that drives away
    double trust = 0;      ///< evidence for the model, against it
    Anchor anchor;         ///< when doubt was last small
    std::int64_t refuted_block = 0;  ///< when the stage was last seen not to be this one
  };
  /// The moves from one frame to the next that each candidate leaves to the sample, knocks clipped.
  /// In single precision, and filled up with zeros, so that whole vectors are added.
  struct Moves {
    std::array<float, kLanes> x_nm{}, y_nm{};
  };

  /// A command that went far while the sample did not answer it.
  struct Run {
    double evidence = 0;        ///< log-likelihood ratio of a candidate against the model ...
    std::size_t candidate = 0;  ///< ... of this one
    Vec2 from_nm;               ///< where the modelled stage was before
  };

  /// One for each of responses_.
  std::span<Candidate> candidates() noexcept {
    return std::span(candidates_).first(responses_.size());
  }
  void predict() noexcept;
  void innovate(Vec2 moved_nm, Vec2 stage_nm) noexcept;
  void remember() noexcept;
  void update_variance(const Covariance2& measured_nm2) noexcept;
  void weigh_own() noexcept;
  void weigh_expectation(const Expectation& e) noexcept;
  void doubt_the_model(Vec2 move_nm) noexcept;
  void renew_oldest(const Anchor& here) noexcept;
  double by_late_commands(double for_standstill, std::int64_t taken_ns) noexcept;
  void weigh(const Anchor& here) noexcept;
  void decide(const Anchor& here) noexcept;
  bool is_knock() const noexcept;
  bool is_sure() const noexcept;
  void weigh_displacements(const ObservedFrame& sample) noexcept;
  void weigh_displacement(const Displacement& displacement, Run& best) noexcept;
  void learn_displacement(std::size_t lag, const Displacement& newest) noexcept;
  double allowance_of(const Candidate& candidate) const noexcept;
  double left_by(const Candidate& candidate) const noexcept;
  bool explains_most(const Candidate& candidate) const noexcept;
  double doubt_of(const Candidate& candidate) const noexcept;
  StageLooks looks_like(std::size_t candidate) const noexcept;

  /// The reference's frames are much calmer than what was learned before, each axis.
  bool x_is_calmer() const noexcept;
  bool y_is_calmer() const noexcept;
  void forget_verdict() noexcept;

  bool has_y_;  ///< else nothing is learned of y, and nothing there is evidence
  std::span<const Response> responses_;
  MotionPredictor x_, y_;
  MotionPredictor reference_x_, reference_y_;  ///< learned since begin_reference(), at rest
  Vec2 reference_sum_nm2_;                     ///< of those moves' innovations, squared
  int reference_moves_ = 0;
  std::array<Candidate, kResponses> candidates_{};
  std::array<Moves, MotionPredictor::kOrder> past_{};  ///< a ring, newest_ the last
  std::size_t newest_ = 0;
  bool has_last_ = false;
  int moves_at_rest_ = 0;
  ObservedFrame last_;
  Vec2 stage_move_nm_;                 ///< of the modelled stage, in the last update()
  bool to_remember_ = false;           ///< that move, and what it left to the sample
  bool prepared_ = false;              ///< the candidates' predictions are those of the next move
  Anchor oldest_, next_oldest_;        ///< no anchor is older than the first
  int frames_since_ = 0;               ///< since next_oldest_
  Vec2 variance_nm2_;                  ///< of an innovation, in the last frame
  Vec2 weighed_variance_nm2_;          ///< of the innovation that is evidence
  Vec2 usual_nm2_;                     ///< and what it usually is
  bool expected_ = false;              ///< the evidence is the observer's
  double model_nm2_ = 0;               ///< what a move adds to it: no stage is as the model exactly
  double allowed_nm_ = 0;              ///< and what it may have wrong in every frame
  bool by_intention_ = false;          ///< the last move from frame to frame was part of one
  int frames_mixed_ = 0;               ///< so long the past is not the sample's own
  double standstill_ = 0;              ///< evidence that both axes stand still, against the model
  std::int64_t standstill_ns_ = 0;     ///< when it was last small
  std::int64_t trusted_until_ns_ = 0;  ///< after reassure() ...
  Vec2 trusted_from_nm_;               ///< ... where the modelled stage was then
  double alarm_ = kAlarm;   ///< the doubt that is one now; more after a probe has succeeded
  bool was_false_ = false;  ///< the last alarm
  DisplacementRecord displacements_;
  StageVerdict verdict_;
};

}  // namespace driftd::control
