// SPDX-License-Identifier: MIT
#include "control/stage/stage_monitor.hpp"

#include <algorithm>
#include <cmath>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

/// What was learned is forgotten where the reference's frames leave less than this share of it.
constexpr double kCalmerShare = 0.5;
/// Tails of the innovations: Student's distribution with this many degrees of freedom, so that a
/// knock of the sample is little evidence for anything.
constexpr double kTailFreedom = 4;
/// Factor on the logarithm that this distribution gives: half its freedom. For small innovations
/// that is the normal distribution's surprise, for large ones a little less than Student's own.
constexpr double kWeight = 0.5 * kTailFreedom;
/// A larger innovation is a knock of the sample: it enters the past as this many standard
/// deviations.
constexpr double kClipSd = 4;
/// Memory of the recent innovations: 32 frames.
constexpr double kRecentShare = 1.0 / 32;
/// Less doubt than this does not keep the anchor: under a steady drift, where command and drift
/// grow alike, a little of it stays for long, and the anchor would be far behind.
constexpr double kDoubtToLeave = 5;
/// An alarm takes back what was commanded in this time at most, or in twice this. Faults are found
/// sooner, but a small doubt may last.
constexpr std::int64_t kAnchorNs = 250'000'000;
constexpr int kAnchorFrames = 16;
/// Nothing is learned while there is this much doubt: what is learned would be the fault.
constexpr double kDoubtToLearn = 8;
/// A stage that was just seen to follow the probe has this many times kAlarm to its credit, which
/// is used up in about so many frames: a new vibration, which raised the alarm, is learned
/// meanwhile.
constexpr double kCredit = 3;
constexpr double kCreditFrames = 2000;
/// So long after it was found out how the stage answers, and so far from where that was: a stage
/// that is sent farther and does not go is at fault, whatever vibrations may look like.
constexpr std::int64_t kTrustedNs = 2'000'000'000;
constexpr double kTrustedNm = 12;
/// What the model may have wrong of a move by intention, from one frame to the next: its gain, its
/// axes, its lag, and a command that was late. It fades with what the stage's swinging leaves.
constexpr double kModelShare = 0.25;
/// So much of a move the model may have wrong all the time, frame for frame: that is no evidence.
constexpr double kAlwaysShare = 0.2;
constexpr double kModelMemory = 0.9;
/// Where this variance is a larger share of the sample's own, it is no longer the sample that is
/// seen.
constexpr double kModelToLearn = 0.01;
/// While the past is not the sample's own, its motion is not predicted, and what the lock does
/// against it looks like the stage's doing. An innovation's variance is then taken to be so many
/// times the moves' mean square, at least.
constexpr double kMixedShare = 9;
/// The best candidate explains nothing when its innovations' mean square exceeds this many times
/// the usual.
constexpr double kUnexplained = 8;

/// What each frame takes off the doubt, where the observer's innovations are weighed. The observer
/// commands what it expects of the sample. Where that is a little wrong all the time, as with a
/// line whose frequency drifts, another gain of the stage explains a little more all the time.
constexpr double kAllowance = 0.03;
/// The same for the monitor's own innovations. While lines grow, which it has not learnt yet, a
/// gain of 2.2 explains 0.008 more each frame. More than 0.01 lets gains of 2 pass unnoticed.
constexpr double kOwnAllowance = 0.01;
/// Each frame also takes off so much of what a candidate leaves beyond what the model expects.
constexpr double kMisfit = 0.3;
/// The best candidate has to explain what is seen, too: its innovations' mean square is at most so
/// many times what is expected. Else something else has happened, unless the doubt is so many
/// alarms.
constexpr double kExplained = 1.8, kFarBeyond = 4;
/// It also explains enough if it leaves so many times less than the model.
constexpr double kMost = 4;

/// While a busy computer's commands are late the stage stands still, which is no fault of the
/// stage. What a standstill explains is excused for kLateNs, from when the evidence for one reaches
/// kStandstill.
constexpr std::int64_t kLateNs = 60'000'000;
constexpr double kStandstill = 3;
constexpr std::size_t kStandsStill = 1;  ///< in the table

/// Places beyond a metre are no places; their squares would overflow.
constexpr double kFarthestNm = 1e9;

constexpr double kHalf = 0.5, kRoot = 0.8660254037844386;  // cos and sin of 60 degrees

/// False for what is not a number.
bool is_place(Vec2 v) noexcept {
  return std::abs(v.x) <= kFarthestNm && std::abs(v.y) <= kFarthestNm;
}

/// Whether the modelled stage rests: nothing was commanded.
bool is_rest(Vec2 move_nm) noexcept {
  return move_nm.x == 0 && move_nm.y == 0;
}

/// The mean square of the reference's innovations by itself, and with what a predictor assumes at
/// its start, which few moves do not outweigh.
bool is_calmer(double sum_nm2, int moves, const MotionPredictor& reference,
               const MotionPredictor& before) noexcept {
  const double limit_nm2 = kCalmerShare * before.variance_nm2();
  return sum_nm2 < limit_nm2 * moves && reference.variance_nm2() < limit_nm2;
}

/// What is left of it beyond what is allowed.
double beyond(double innovation_nm, double allowed_nm) noexcept {
  return std::copysign(std::max(0.0, std::abs(innovation_nm) - allowed_nm), innovation_nm);
}

/// How much less surprising other innovations are than the model's: the logarithm of the ratio of
/// Student's densities.
class Evidence {
 public:
  Evidence(Vec2 variance_nm2, Vec2 of_model_nm) noexcept
      : scale_{1 / (kTailFreedom * variance_nm2.x), 1 / (kTailFreedom * variance_nm2.y)},
        of_model_(surprise_of(of_model_nm)) {}
  double for_nm(Vec2 innovation_nm) const noexcept {
    return kWeight * std::log(of_model_ / surprise_of(innovation_nm));
  }

 private:
  /// The inverse of the density, a constant and a power apart.
  double surprise_of(Vec2 nm) const noexcept {
    return (1 + nm.x * nm.x * scale_.x) * (1 + nm.y * nm.y * scale_.y);
  }

  Vec2 scale_;
  double of_model_;
};

double clip(double innovation_nm, double variance_nm2) noexcept {
  const double largest_nm = kClipSd * std::sqrt(variance_nm2);
  return std::clamp(innovation_nm, -largest_nm, largest_nm);
}

}  // namespace

const std::array<StageMonitor::Response, StageMonitor::kResponses> StageMonitor::kTable{{
    {StageLooks::Following, 1, 0, 0, 1, false},
    {StageLooks::Stuck, 0, 0, 0, 0, false},
    {StageLooks::Stuck, 0, 0, 0, 1, false},
    {StageLooks::Stuck, 1, 0, 0, 0, false},
    {StageLooks::Reversed, -1, 0, 0, -1, true},
    {StageLooks::Reversed, -1, 0, 0, 1, true},
    {StageLooks::Reversed, 1, 0, 0, -1, true},
    {StageLooks::WrongGain, 0.45, 0, 0, 0.45, false},
    {StageLooks::WrongGain, 2.2, 0, 0, 2.2, true},
    {StageLooks::TurnedOrSwapped, 0, 1, 1, 0, true},
    {StageLooks::TurnedOrSwapped, 0, -1, -1, 0, true},
    {StageLooks::TurnedOrSwapped, kHalf, -kRoot, kRoot, kHalf, true},
    {StageLooks::TurnedOrSwapped, kHalf, kRoot, -kRoot, kHalf, true},
    {StageLooks::TurnedOrSwapped, 0, -1, 1, 0, true},
    {StageLooks::TurnedOrSwapped, 0, 1, -1, 0, true},
    {StageLooks::TurnedOrSwapped, -kHalf, -kRoot, kRoot, -kHalf, true},
    {StageLooks::TurnedOrSwapped, -kHalf, kRoot, -kRoot, -kHalf, true},
}};

const std::array<StageMonitor::Response, 5> StageMonitor::kTableOfOneAxis{{
    {StageLooks::Following, 1, 0, 0, 1, false},
    {StageLooks::Stuck, 0, 0, 0, 1, false},
    {StageLooks::Reversed, -1, 0, 0, 1, true},
    {StageLooks::WrongGain, 0.45, 0, 0, 1, false},
    {StageLooks::WrongGain, 2.2, 0, 0, 1, true},
}};

const char* name_of(StageLooks looks) noexcept {
  switch (looks) {
    case StageLooks::Following:
      return "following";
    case StageLooks::Stuck:
      return "stuck";
    case StageLooks::Reversed:
      return "reversed";
    case StageLooks::WrongGain:
      return "wrong_gain";
    case StageLooks::TurnedOrSwapped:
      return "turned_or_swapped";
    case StageLooks::Unexplained:
      return "unexplained";
  }
  return "unknown";
}

StageMonitor::StageMonitor(std::size_t axes) noexcept
    : has_y_(axes > 1),
      responses_(has_y_ ? std::span<const Response>(kTable) : kTableOfOneAxis),
      variance_nm2_{x_.variance_nm2(), y_.variance_nm2()},
      weighed_variance_nm2_(variance_nm2_),
      usual_nm2_(variance_nm2_) {}

void StageMonitor::begin_reference() noexcept {
  prepare();
  reference_x_ = reference_y_ = MotionPredictor();
  reference_sum_nm2_ = {};
  reference_moves_ = 0;
  past_ = {};  // what ended before does not echo in it
  displacements_.forget();
  prepared_ = false;
  forget_verdict();
}

void StageMonitor::restart() noexcept {
  prepare();
  const bool enough = reference_moves_ >= kMovesToJudge;
  if (enough && x_is_calmer()) {
    x_ = reference_x_;
    for (Candidate& c : candidates_) c.recent_nm2.x = 0;
  }
  if (enough && y_is_calmer()) {
    y_ = reference_y_;
    for (Candidate& c : candidates_) c.recent_nm2.y = 0;
  }
  prepared_ = false;
  forget_verdict();
}

int StageMonitor::moves_at_rest() const noexcept {
  const bool calmer = x_is_calmer() || y_is_calmer();
  return calmer ? std::min(reference_moves_, kMovesToJudge) : moves_at_rest_;
}

bool StageMonitor::x_is_calmer() const noexcept {
  return is_calmer(reference_sum_nm2_.x, reference_moves_, reference_x_, x_);
}

bool StageMonitor::y_is_calmer() const noexcept {
  return is_calmer(reference_sum_nm2_.y, reference_moves_, reference_y_, y_);
}

void StageMonitor::forget_verdict() noexcept {
  displacements_.restart();
  for (Candidate& c : candidates_) c.doubt = c.own_doubt = c.trust = 0;
  has_last_ = false;
  model_nm2_ = allowed_nm_ = 0;
  by_intention_ = false;
  frames_mixed_ = 0;
  trusted_until_ns_ = 0;
  was_false_ = false;
  alarm_ = kAlarm;
  verdict_ = {};
}

StageVerdict StageMonitor::accuse(StageLooks looks, Vec2 anchor_nm) noexcept {
  forget_verdict();
  verdict_ = {.follows = false, .looks = looks, .anchor_nm = anchor_nm, .doubt = kAlarm};
  for (std::size_t i = 1; i < responses_.size(); ++i)
    if (responses_[i].looks == looks) candidates_[i].doubt = kAlarm;
  return verdict_;
}

StageVerdict StageMonitor::reassure() noexcept {
  const Vec2 place_nm = last_.modelled_nm;
  forget_verdict();
  alarm_ = kCredit * kAlarm;
  trusted_until_ns_ = last_.taken_ns + kTrustedNs;
  trusted_from_nm_ = place_nm;
  verdict_.anchor_nm = place_nm;
  return verdict_;
}

Vec2 StageMonitor::sd_nm() const noexcept {
  return {std::sqrt(variance_nm2_.x), has_y_ ? std::sqrt(variance_nm2_.y) : 0};
}

StageVerdict StageMonitor::update(const ObservedFrame& sample) noexcept {
  const Covariance2& covariance = sample.covariance_nm2;
  if (!is_place(sample.moved_nm) || !is_place(sample.modelled_nm) ||
      !is_place({covariance.xx, covariance.yy}))
    return verdict_;
  const Vec2 moved = difference(sample.moved_nm, last_.moved_nm);
  const Vec2 stage = difference(sample.modelled_nm, last_.modelled_nm);
  const Anchor here{sample.modelled_nm, sample.taken_ns};
  const Vec2 before_nm = last_.move_nm;
  last_ = sample;
  if (has_last_) {
    prepare();
    if (is_rest(stage)) moves_at_rest_ = std::min(moves_at_rest_ + 1, kMovesToJudge);
    innovate(moved, stage);
    const bool knock = is_knock();
    update_variance(covariance);
    doubt_the_model(difference(sample.move_nm, before_nm));
    // The observer's innovations know of the law's commands only. What was doubted by the other
    // kind of evidence is doubted anew.
    const bool expected = sample.expectation && frames_mixed_ == 0;
    if (expected != expected_ && verdict_.follows)
      for (Candidate& c : candidates_) c.doubt = c.own_doubt = 0;
    if (expected)
      weigh_expectation(*sample.expectation);
    else
      weigh_own();
    renew_oldest(here);
    weigh(here);
    stage_move_nm_ = stage;
    to_remember_ = true;
    prepared_ = false;
    if (knock || frames_mixed_ > 0)
      displacements_.restart();
    else
      weigh_displacements(sample);
  } else if (verdict_.doubt == 0) {
    for (Candidate& c : candidates_) c.anchor = here;
    oldest_ = next_oldest_ = here;
    frames_since_ = 0;
    verdict_.anchor_nm = here.place_nm;
  }
  has_last_ = true;
  return verdict_;
}

void StageMonitor::prepare() noexcept {
  if (to_remember_) remember();
  to_remember_ = false;
  if (!prepared_) predict();
  prepared_ = true;
}

void StageMonitor::predict() noexcept {
  Moves sum;
  for (std::size_t i = 0; i < MotionPredictor::kOrder; ++i) {
    const Moves& move = past_[(newest_ + MotionPredictor::kOrder - i) % MotionPredictor::kOrder];
    const auto of_x = static_cast<float>(x_.coefficients()[i]);
    const auto of_y = static_cast<float>(y_.coefficients()[i]);
    for (std::size_t c = 0; c < kLanes; ++c) sum.x_nm[c] += of_x * move.x_nm[c];
    if (!has_y_) continue;
    for (std::size_t c = 0; c < kLanes; ++c) sum.y_nm[c] += of_y * move.y_nm[c];
  }
  for (std::size_t c = 0; c < responses_.size(); ++c)
    candidates_[c].predicted_nm = {sum.x_nm[c], sum.y_nm[c]};
}

void StageMonitor::innovate(Vec2 moved, Vec2 stage) noexcept {
  for (std::size_t i = 0; i < responses_.size(); ++i) {
    const Response& r = responses_[i];
    Candidate& c = candidates_[i];
    c.innovation_nm = {moved.x - (r.a * stage.x + r.b * stage.y) - c.predicted_nm.x,
                       moved.y - (r.c * stage.x + r.d * stage.y) - c.predicted_nm.y};
  }
}

/// Nothing of what is seen may be a fault's.
bool StageMonitor::is_sure() const noexcept {
  return frames_mixed_ == 0 && verdict_.follows && verdict_.doubt < kDoubtToLearn * alarm_ / kAlarm;
}

void StageMonitor::remember() noexcept {
  const bool at_rest = is_rest(stage_move_nm_);
  const Vec2 variance = by_intention_ ? Vec2{} : variance_nm2_;
  Moves move;
  for (std::size_t i = 0; i < responses_.size(); ++i) {
    const Candidate& c = candidates_[i];
    move.x_nm[i] = static_cast<float>(c.predicted_nm.x + clip(c.innovation_nm.x, variance.x));
    move.y_nm[i] = static_cast<float>(c.predicted_nm.y + clip(c.innovation_nm.y, variance.y));
  }
  const bool sure = is_sure();
  if (sure && (at_rest || moves_at_rest_ == kMovesToJudge)) {
    MotionPredictor::Past x_nm, y_nm;
    for (std::size_t i = 0; i < MotionPredictor::kOrder; ++i) {
      const Moves& past = past_[(newest_ + MotionPredictor::kOrder - i) % MotionPredictor::kOrder];
      x_nm[i] = past.x_nm[0];
      y_nm[i] = past.y_nm[0];
    }
    const Vec2 innovation = candidates_[0].innovation_nm;
    const Vec2 clipped{clip(innovation.x, variance.x), clip(innovation.y, variance.y)};
    x_.learn(move.x_nm[0], clipped.x, x_nm);
    if (has_y_) y_.learn(move.y_nm[0], clipped.y, y_nm);
    if (at_rest) {
      reference_x_.learn(move.x_nm[0], clipped.x, x_nm);
      if (has_y_) reference_y_.learn(move.y_nm[0], clipped.y, y_nm);
      reference_sum_nm2_.x += clipped.x * clipped.x;
      reference_sum_nm2_.y += clipped.y * clipped.y;
      ++reference_moves_;
    }
  }
  newest_ = (newest_ + 1) % MotionPredictor::kOrder;
  past_[newest_] = move;
}

/// Sets the variance of an innovation: what was learned, or what the measurement alone has. It is
/// more where no candidate explains the last frames so well: then the sample's own motion grew.
void StageMonitor::update_variance(const Covariance2& measured_nm2) noexcept {
  Vec2 least = candidates_[0].recent_nm2;
  for (Candidate& c : candidates()) {
    const Vec2 n{clip(c.innovation_nm.x, variance_nm2_.x),
                 clip(c.innovation_nm.y, variance_nm2_.y)};
    c.recent_nm2.x += kRecentShare * (n.x * n.x - c.recent_nm2.x);
    c.recent_nm2.y += kRecentShare * (n.y * n.y - c.recent_nm2.y);
    least = {std::min(least.x, c.recent_nm2.x), std::min(least.y, c.recent_nm2.y)};
  }
  variance_nm2_ = {std::max({x_.variance_nm2(), measured_nm2.xx, least.x}),
                   std::max({y_.variance_nm2(), measured_nm2.yy, least.y})};
}

void StageMonitor::weigh_own() noexcept {
  for (Candidate& c : candidates_) {
    c.weighed_nm = c.innovation_nm;
    c.weighed_nm2 = {};
  }
  expected_ = false;
  weighed_variance_nm2_ = variance_nm2_;
  usual_nm2_ = {x_.variance_nm2(), y_.variance_nm2()};
}

/// The observer's filters are linear. Were the stage another one, what they expected and saw would
/// differ by what they make of the difference between the two stages' places.
void StageMonitor::weigh_expectation(const Expectation& e) noexcept {
  expected_ = true;
  usual_nm2_ = e.variance_nm2;
  const auto clipped = [](double nm, double nm2) {
    return std::min(nm * nm, kClipSd * kClipSd * nm2);
  };
  Vec2 least = e.variance_nm2;
  for (std::size_t i = 0; i < responses_.size(); ++i) {
    const Response& r = responses_[i];
    Candidate& c = candidates_[i];
    c.weighed_nm = {e.innovation_nm.x + (1 - r.a) * e.of_stage_x_nm.x - r.b * e.of_stage_x_nm.y,
                    e.innovation_nm.y - r.c * e.of_stage_y_nm.x + (1 - r.d) * e.of_stage_y_nm.y};
    if (!(c.weighed_nm2.x > 0)) c.weighed_nm2 = {e.variance_nm2.x, has_y_ ? e.variance_nm2.y : 0};
    c.weighed_nm2.x +=
        kRecentShare * (clipped(c.weighed_nm.x, weighed_variance_nm2_.x) - c.weighed_nm2.x);
    c.weighed_nm2.y +=
        kRecentShare * (clipped(c.weighed_nm.y, weighed_variance_nm2_.y) - c.weighed_nm2.y);
    least = i == 0 ? c.weighed_nm2
                   : Vec2{std::min(least.x, c.weighed_nm2.x), std::min(least.y, c.weighed_nm2.y)};
  }
  weighed_variance_nm2_ = {std::max(e.variance_nm2.x, least.x),
                           std::max(e.variance_nm2.y, least.y)};
}

/// If the past contains what the model has wrong, a prediction would let that go on: a prediction
/// learnt from noise multiplies what is constant.
void StageMonitor::doubt_the_model(Vec2 move_nm) noexcept {
  const double move_nm2 = move_nm.x * move_nm.x + move_nm.y * move_nm.y;
  const double by_move_nm2 = kModelShare * kModelShare * move_nm2;
  allowed_nm_ = kAlwaysShare * std::sqrt(move_nm2);
  model_nm2_ = std::max(by_move_nm2, kModelMemory * model_nm2_);
  const double own_nm2 = has_y_ ? std::min(variance_nm2_.x, variance_nm2_.y) : variance_nm2_.x;
  by_intention_ = model_nm2_ > kModelToLearn * own_nm2;
  if (by_intention_)
    frames_mixed_ = MotionPredictor::kOrder;
  else if (frames_mixed_ > 0)
    --frames_mixed_;
}

void StageMonitor::renew_oldest(const Anchor& here) noexcept {
  ++frames_since_;
  if (frames_since_ < kAnchorFrames || here.taken_ns - next_oldest_.taken_ns < kAnchorNs) return;
  frames_since_ = 0;
  oldest_ = next_oldest_;
  next_oldest_ = here;
}

/// Cumulative sums of log-likelihood ratios (Page 1954), both ways.
void StageMonitor::weigh(const Anchor& here) noexcept {
  Vec2 variance{weighed_variance_nm2_.x + model_nm2_, weighed_variance_nm2_.y + model_nm2_};
  if (frames_mixed_ > 0)
    variance = {std::max(variance.x, kMixedShare * x_.power_nm2() + model_nm2_),
                std::max(variance.y, kMixedShare * y_.power_nm2() + model_nm2_)};
  const Vec2 of_model = candidates_[0].weighed_nm;
  const Evidence weighed(variance,
                         {beyond(of_model.x, allowed_nm_), beyond(of_model.y, allowed_nm_)});
  const Evidence own(variance_nm2_, candidates_[0].innovation_nm);
  const double excused =
      by_late_commands(weighed.for_nm(candidates_[kStandsStill].weighed_nm), here.taken_ns);
  const bool knows_rest = moves_at_rest_ == kMovesToJudge;
  const Vec2 since_nm = difference(here.place_nm, trusted_from_nm_);
  if (std::max(std::abs(since_nm.x), std::abs(since_nm.y)) > kTrustedNm) trusted_until_ns_ = 0;
  const bool trusted = here.taken_ns < trusted_until_ns_;
  for (std::size_t i = 1; i < responses_.size(); ++i) {
    Candidate& c = candidates_[i];
    const double evidence = weighed.for_nm(c.weighed_nm);
    const bool counts = knows_rest && (expected_ || !trusted || responses_[i].drives_away);
    c.doubt = counts ? std::max(0.0, c.doubt + evidence - excused - allowance_of(c)) : 0.0;
    c.trust = std::clamp(c.trust - evidence, 0.0, kTrust);
    if (!expected_)
      c.own_doubt = c.doubt;
    else if (!responses_[i].drives_away)
      c.own_doubt = 0;
    else
      c.own_doubt = std::max(0.0, c.own_doubt + own.for_nm(c.innovation_nm) - kOwnAllowance);
    if (c.doubt < kDoubtToLeave && c.own_doubt < kDoubtToLeave) c.anchor = here;
  }
  decide(here);
}

/// Weighed by the monitor's own innovations: nothing.
double StageMonitor::by_late_commands(double for_standstill, std::int64_t taken_ns) noexcept {
  standstill_ = expected_ ? std::max(0.0, standstill_ + for_standstill) : 0;
  if (standstill_ < kStandstill) {
    standstill_ns_ = taken_ns;
    return 0;
  }
  return taken_ns - standstill_ns_ < kLateNs ? std::max(0.0, for_standstill) : 0.0;
}

void StageMonitor::decide(const Anchor& here) noexcept {
  std::size_t best = 1;
  verdict_.doubt = 0;
  verdict_.trust = kTrust;
  for (std::size_t i = 1; i < responses_.size(); ++i) {
    const Candidate& c = candidates_[i];
    verdict_.trust = std::min(verdict_.trust, c.trust);
    if (doubt_of(c) <= verdict_.doubt) continue;
    best = i;
    verdict_.doubt = doubt_of(c);
  }
  if (verdict_.follows) {
    const Anchor& anchor = candidates_[best].anchor;
    verdict_.anchor_nm = (anchor.taken_ns < oldest_.taken_ns ? oldest_ : anchor).place_nm;
    alarm_ += (kAlarm - alarm_) / kCreditFrames;
    if (verdict_.doubt < alarm_) return;
    verdict_.follows = false;
    verdict_.trust = 0;
    for (Candidate& c : candidates_) c.trust = 0;
  } else if (verdict_.trust >= kTrust) {
    verdict_ = {.anchor_nm = here.place_nm, .trust = kTrust};
    alarm_ = kCredit * kAlarm;
    was_false_ = true;
    displacements_.forget();  // the sample may have been at fault
    for (Candidate& c : candidates_) {
      c.doubt = c.own_doubt = 0;
      c.anchor = here;
    }
    return;
  }
  verdict_.looks = looks_like(best);
}

/// What the best candidate leaves of the innovations' mean square, in both axes together.
double StageMonitor::left_by(const Candidate& c) const noexcept {
  return c.weighed_nm2.x / usual_nm2_.x + c.weighed_nm2.y / usual_nm2_.y;
}

/// A lock that is driven away shows so much that no candidate, which all have round gains, explains
/// all of it.
bool StageMonitor::explains_most(const Candidate& c) const noexcept {
  return kMost * left_by(c) < left_by(candidates_[0]);
}

/// What a frame takes off the doubt.
double StageMonitor::allowance_of(const Candidate& c) const noexcept {
  if (!expected_) return 0;
  if (explains_most(c)) return kAllowance;
  const double left = std::max(c.weighed_nm2.x / usual_nm2_.x, c.weighed_nm2.y / usual_nm2_.y);
  return kAllowance + kMisfit * std::max(0.0, left - 1);
}

/// That counts for the verdict: of what the best candidate does not explain, only where it is a
/// lot.
double StageMonitor::doubt_of(const Candidate& c) const noexcept {
  const bool leaves_little =
      c.weighed_nm2.x <= kExplained * usual_nm2_.x && c.weighed_nm2.y <= kExplained * usual_nm2_.y;
  const bool counts = !expected_ || leaves_little || explains_most(c);
  return std::max(counts ? c.doubt : c.doubt / kFarBeyond, c.own_doubt);
}

StageLooks StageMonitor::looks_like(std::size_t candidate) const noexcept {
  const Candidate& c = candidates_[candidate];
  const Vec2 recent = c.weighed_nm2.x > 0 ? c.weighed_nm2 : c.recent_nm2;
  const bool explained =
      recent.x < kUnexplained * usual_nm2_.x && recent.y < kUnexplained * usual_nm2_.y;
  return explained ? responses_[candidate].looks : StageLooks::Unexplained;
}

}  // namespace driftd::control
