// SPDX-License-Identifier: MIT
#include "control/stage_monitor.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// What was learned is forgotten where the reference's frames leave less than this share of it.
constexpr double kCalmerShare = 0.5;
/// Tails of the innovations: Student's distribution with this many degrees of freedom, so that a
/// knock of the sample is little evidence for anything.
constexpr double kTailFreedom = 4;
/// Of the logarithm of what this distribution gives: half its freedom, which for small innovations
/// is the normal distribution's, and for large ones a little less than Student's own.
constexpr double kWeight = 0.5 * kTailFreedom;
/// A larger innovation is a knock of the sample: it enters the past as this many standard
/// deviations.
constexpr double kClipSd = 4;
/// Memory of the recent innovations: 32 frames.
constexpr double kRecentShare = 1.0 / 32;
/// Less doubt than this does not keep the anchor: under a steady drift, where command and drift
/// grow alike, a little of it stays for long, and the anchor would be far behind.
constexpr double kDoubtToLeave = 5;
/// An alarm takes back at most what was commanded in so long, or in twice that: faults are found
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
/// The best candidate explains nothing when its innovations' mean square exceeds this many times
/// the usual.
constexpr double kUnexplained = 8;

/// Places beyond a metre are no places; their squares would overflow.
constexpr double kFarthestNm = 1e9;

constexpr double kHalf = 0.5, kRoot = 0.8660254037844386;  // cos and sin of 60 degrees

/// False for what is not a number.
bool is_place(Vec2 v) noexcept {
  return std::abs(v.x) <= kFarthestNm && std::abs(v.y) <= kFarthestNm;
}

Vec2 difference(Vec2 a, Vec2 b) noexcept {
  return {a.x - b.x, a.y - b.y};
}

/// Of the modelled stage: nothing was commanded.
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

double clip(double innovation_nm, double variance_nm2) noexcept {
  const double largest_nm = kClipSd * std::sqrt(variance_nm2);
  return std::clamp(innovation_nm, -largest_nm, largest_nm);
}

}  // namespace

const std::array<StageMonitor::Response, StageMonitor::kResponses> StageMonitor::kTable{{
    {StageLooks::Following, 1, 0, 0, 1},
    {StageLooks::Stuck, 0, 0, 0, 0},
    {StageLooks::Stuck, 0, 0, 0, 1},
    {StageLooks::Stuck, 1, 0, 0, 0},
    {StageLooks::Reversed, -1, 0, 0, -1},
    {StageLooks::Reversed, -1, 0, 0, 1},
    {StageLooks::Reversed, 1, 0, 0, -1},
    {StageLooks::WrongGain, 0.45, 0, 0, 0.45},
    {StageLooks::WrongGain, 2.2, 0, 0, 2.2},
    {StageLooks::TurnedOrSwapped, 0, 1, 1, 0},
    {StageLooks::TurnedOrSwapped, 0, -1, -1, 0},
    {StageLooks::TurnedOrSwapped, kHalf, -kRoot, kRoot, kHalf},
    {StageLooks::TurnedOrSwapped, kHalf, kRoot, -kRoot, kHalf},
    {StageLooks::TurnedOrSwapped, 0, -1, 1, 0},
    {StageLooks::TurnedOrSwapped, 0, 1, -1, 0},
    {StageLooks::TurnedOrSwapped, -kHalf, -kRoot, kRoot, -kHalf},
    {StageLooks::TurnedOrSwapped, -kHalf, kRoot, -kRoot, -kHalf},
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

StageMonitor::StageMonitor() noexcept : variance_nm2_{x_.variance_nm2(), y_.variance_nm2()} {}

void StageMonitor::begin_reference() noexcept {
  prepare();
  reference_x_ = reference_y_ = MotionPredictor();
  reference_sum_nm2_ = {};
  reference_moves_ = 0;
  past_ = {};  // what ended before does not echo in it
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
  for (Candidate& c : candidates_) c.doubt = c.trust = 0;
  has_last_ = false;
  alarm_ = kAlarm;
  verdict_ = {};
}

Vec2 StageMonitor::sd_nm() const noexcept {
  return {std::sqrt(variance_nm2_.x), std::sqrt(variance_nm2_.y)};
}

StageVerdict StageMonitor::update(const ObservedFrame& sample) noexcept {
  const Covariance2& covariance = sample.covariance_nm2;
  if (!is_place(sample.moved_nm) || !is_place(sample.modelled_nm) ||
      !is_place({covariance.xx, covariance.yy}))
    return verdict_;
  const Vec2 moved = difference(sample.moved_nm, last_.moved_nm);
  const Vec2 stage = difference(sample.modelled_nm, last_.modelled_nm);
  const Anchor here{sample.modelled_nm, sample.taken_ns};
  last_ = sample;
  if (has_last_) {
    prepare();
    if (is_rest(stage)) moves_at_rest_ = std::min(moves_at_rest_ + 1, kMovesToJudge);
    innovate(moved, stage);
    update_variance(covariance);
    renew_oldest(here);
    weigh(here);
    stage_move_nm_ = stage;
    to_remember_ = true;
    prepared_ = false;
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
    for (std::size_t c = 0; c < kLanes; ++c) sum.y_nm[c] += of_y * move.y_nm[c];
  }
  for (std::size_t c = 0; c < kResponses; ++c)
    candidates_[c].predicted_nm = {sum.x_nm[c], sum.y_nm[c]};
}

void StageMonitor::innovate(Vec2 moved, Vec2 stage) noexcept {
  for (std::size_t i = 0; i < kResponses; ++i) {
    const Response& r = kTable[i];
    Candidate& c = candidates_[i];
    c.innovation_nm = {moved.x - (r.a * stage.x + r.b * stage.y) - c.predicted_nm.x,
                       moved.y - (r.c * stage.x + r.d * stage.y) - c.predicted_nm.y};
  }
}

void StageMonitor::remember() noexcept {
  const bool at_rest = is_rest(stage_move_nm_);
  const Vec2 variance = variance_nm2_;
  Moves move;
  for (std::size_t i = 0; i < kResponses; ++i) {
    const Candidate& c = candidates_[i];
    move.x_nm[i] = static_cast<float>(c.predicted_nm.x + clip(c.innovation_nm.x, variance.x));
    move.y_nm[i] = static_cast<float>(c.predicted_nm.y + clip(c.innovation_nm.y, variance.y));
  }
  const bool sure = verdict_.follows && verdict_.doubt < kDoubtToLearn * alarm_ / kAlarm;
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
    y_.learn(move.y_nm[0], clipped.y, y_nm);
    if (at_rest) {
      reference_x_.learn(move.x_nm[0], clipped.x, x_nm);
      reference_y_.learn(move.y_nm[0], clipped.y, y_nm);
      reference_sum_nm2_.x += clipped.x * clipped.x;
      reference_sum_nm2_.y += clipped.y * clipped.y;
      ++reference_moves_;
    }
  }
  newest_ = (newest_ + 1) % MotionPredictor::kOrder;
  past_[newest_] = move;
}

/// Of an innovation: what was learned, or what the measurement alone has; more where no candidate
/// explains the last frames so well, because then it is the sample's own motion that grew.
void StageMonitor::update_variance(const Covariance2& measured_nm2) noexcept {
  Vec2 least = candidates_[0].recent_nm2;
  for (Candidate& c : candidates_) {
    const Vec2 n{clip(c.innovation_nm.x, variance_nm2_.x),
                 clip(c.innovation_nm.y, variance_nm2_.y)};
    c.recent_nm2.x += kRecentShare * (n.x * n.x - c.recent_nm2.x);
    c.recent_nm2.y += kRecentShare * (n.y * n.y - c.recent_nm2.y);
    least = {std::min(least.x, c.recent_nm2.x), std::min(least.y, c.recent_nm2.y)};
  }
  variance_nm2_ = {std::max({x_.variance_nm2(), measured_nm2.xx, least.x}),
                   std::max({y_.variance_nm2(), measured_nm2.yy, least.y})};
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
  const Vec2 scale{1 / (kTailFreedom * variance_nm2_.x), 1 / (kTailFreedom * variance_nm2_.y)};
  // The inverse of the density, a constant and a power apart.
  const auto surprise_of = [&](const Candidate& c) {
    return (1 + c.innovation_nm.x * c.innovation_nm.x * scale.x) *
           (1 + c.innovation_nm.y * c.innovation_nm.y * scale.y);
  };
  const double of_model = surprise_of(candidates_[0]);
  for (std::size_t i = 1; i < kResponses; ++i) {
    Candidate& c = candidates_[i];
    const double ratio = kWeight * std::log(of_model / surprise_of(c));
    c.doubt = moves_at_rest_ < kMovesToJudge ? 0.0 : std::max(0.0, c.doubt + ratio);
    c.trust = std::clamp(c.trust - ratio, 0.0, kTrust);
    if (c.doubt < kDoubtToLeave) c.anchor = here;
  }
  decide(here);
}

void StageMonitor::decide(const Anchor& here) noexcept {
  std::size_t best = 1;
  verdict_.trust = kTrust;
  for (std::size_t i = 1; i < kResponses; ++i) {
    if (candidates_[i].doubt > candidates_[best].doubt) best = i;
    verdict_.trust = std::min(verdict_.trust, candidates_[i].trust);
  }
  verdict_.doubt = candidates_[best].doubt;
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
    for (Candidate& c : candidates_) {
      c.doubt = 0;
      c.anchor = here;
    }
    return;
  }
  verdict_.looks = looks_like(best);
}

StageLooks StageMonitor::looks_like(std::size_t candidate) const noexcept {
  const Vec2 recent = candidates_[candidate].recent_nm2;
  const bool explained =
      recent.x < kUnexplained * x_.variance_nm2() && recent.y < kUnexplained * y_.variance_nm2();
  return explained ? kTable[candidate].looks : StageLooks::Unexplained;
}

}  // namespace driftd::control
