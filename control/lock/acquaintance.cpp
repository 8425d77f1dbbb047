// SPDX-License-Identifier: MIT
#include "control/lock/acquaintance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

constexpr double kQuietS = 0.1, kMovingS = 1, kLongestMovingS = 3.1, kRestS = 0.15;
constexpr int kQuietFrames = 48, kMovingFrames = 200;
/// After so much of moving the first glimpse, after twice as much the next.
constexpr double kGlimpseS = 0.16;
constexpr int kGlimpseFrames = 80;
/// Half of the way to and fro, in standard deviations of a frame, and its bounds.
constexpr double kReachSd = 10, kLeastReachNm = 3, kLargestReachNm = 5;
/// Below the limits, so that a frame that comes a little early is not held back.
constexpr double kShareOfLimit = 0.9;
constexpr double kLeastStepNm = 0.05;
constexpr double kLongestStayS = 0.2;
/// How fast the place about which the stage moves follows the sample's drift.
constexpr double kFollowPerS = 2, kFastestNmPerS = 50;
/// What another matrix may have wrong and be adopted; beyond it the stage is at fault.
constexpr double kLeastGain = 0.5, kLargestGain = 2, kLargestCross = 0.5;
constexpr double kSureSd = 4, kInsideSd = 3;
/// More moves until the gain is known so well; so many times at most.
constexpr double kWellKnown = 0.03;
constexpr int kMostRounds = 3;
/// A round ends when so much time has passed since the first began.
constexpr double kBudgetS = 4.3;
/// A fit that leaves so many times the usual noise had a knock in its record.
constexpr double kKnocked = 2;
constexpr int kMostAnew = 2;
/// After so long it is given up.
constexpr std::int64_t kLongestNs = 20'000'000'000;

/// One element: surely outside, or surely inside, of what is allowed.
struct Judged {
  bool outside, inside;
};
Judged judge(double value, double sd, double low, double high) noexcept {
  return {value + kSureSd * sd < low || value - kSureSd * sd > high,
          value - kInsideSd * sd > low && value + kInsideSd * sd < high};
}
Judged judge(const SeenGain& g) noexcept {
  const std::array<Judged, 4> all = {judge(g.xx, g.xx_sd, kLeastGain, kLargestGain),
                                     judge(g.yy, g.yy_sd, kLeastGain, kLargestGain),
                                     judge(g.xy, g.xy_sd, -kLargestCross, kLargestCross),
                                     judge(g.yx, g.yx_sd, -kLargestCross, kLargestCross)};
  return {std::ranges::any_of(all, &Judged::outside), std::ranges::all_of(all, &Judged::inside)};
}

StageLooks looks_of(const SeenGain& g) noexcept {
  constexpr double kHardly = 0.3;
  const double cross = std::max(std::abs(g.xy), std::abs(g.yx));
  if (cross > kLargestCross) return StageLooks::TurnedOrSwapped;
  if (std::min(g.xx, g.yy) < -kHardly) return StageLooks::Reversed;
  if (std::min(g.xx, g.yy) < kHardly) return StageLooks::Stuck;
  return StageLooks::WrongGain;
}

}  // namespace

std::optional<AcquaintanceAnswer> AcquaintanceDesk::take(const AcquaintanceFrame& frame) {
  if (frame.run != run_) {
    run_ = frame.run;
    record_.samples.clear();
    record_.moves.clear();
  }
  record_.exposure_ns = frame.exposure_ns;
  record_.axes = frame.axes;
  if (!record_.moves.empty())
    record_.moves.back().sent_ns = std::max(record_.moves.back().sent_ns, frame.left_ns);
  if (frame.measured) record_.samples.push_back(frame.sample);
  if (frame.moved) record_.moves.push_back(frame.move);
  if (frame.ask == AcquaintanceAsk::Nothing) return std::nullopt;
  return AcquaintanceAnswer{.run = frame.run,
                            .ask = frame.ask,
                            .finding = frame.ask == AcquaintanceAsk::Glimpse
                                           ? glimpse_stage(record_, frame.described)
                                           : find_stage(record_, frame.described)};
}

double Acquaintance::Telegraph::next(double reach_nm, double step_nm,
                                     double longest_frames) noexcept {
  if (frames_left <= 0) {
    // splitmix64 (Steele, Lea and Flood 2014)
    std::uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    const double uniform = std::ldexp(static_cast<double>((z ^ (z >> 31U)) >> 11U), -53);
    // n frames with a probability of n^-1.5
    const double end = 1 / std::sqrt(std::max(longest_frames, 1.0) + 1);
    const double root = 1 - uniform * (1 - end);
    frames_left = static_cast<int>(1 / (root * root));
    side = -side;
  }
  --frames_left;
  place_nm += std::clamp(side * reach_nm - place_nm, -step_nm, step_nm);
  return place_nm;
}

bool Acquaintance::begin(const Start& start) noexcept {
  stop();
  if (!(start.period_s > 0) || start.period_s > kLongestPeriodS ||
      !(kShareOfLimit * start.largest_step_nm > kLeastStepNm))
    return false;
  start_ = start;
  told_nm_ = start.centre_nm;
  first_ns_ = start.now_ns;
  reach_nm_ = std::clamp(kReachSd * start.sd_nm, kLeastReachNm, kLargestReachNm);
  step_nm_ = kShareOfLimit * start.largest_step_nm;
  const Vec2 room = difference(start.high_nm, start.low_nm);
  if (!(std::min(room.x, room.y) >= 2 * reach_nm_)) return false;
  follows_ = false;
  looks_ = StageLooks::Following;
  finding_ = {};
  anew_ = 0;
  begin_record(start.now_ns);
  return true;
}

void Acquaintance::begin_record(std::int64_t now_ns) noexcept {
  ++run_;
  phase_ = Phase::Quiet;
  // It rests where it was told to be last, and places count from there.
  centre_nm_ = origin_nm_ = told_nm_;
  phase_ns_ = last_ns_ = now_ns;
  frames_ = moving_frames_ = rounds_ = 0;
  next_glimpse_ = kGlimpseFrames;
  asked_ = false;
  x_ = {.state = 2ULL * run_ + 1};
  y_ = {.state = 2ULL * run_ + 1'000'000'007};
  frame_ = {};
}

void Acquaintance::begin_anew(std::int64_t now_ns) noexcept {
  if (!is_under_way()) return;
  if (++anew_ > kMostAnew) return end(AcquaintanceEnd::GaveUp);
  begin_record(now_ns);
}

/// The stage comes nearer to where it would hold the sample, slowly: no lock yet.
void Acquaintance::follow(Vec2 moved_nm, std::int64_t now_ns) noexcept {
  const double frame_s = std::min(seconds_between(last_ns_, now_ns), 0.1);
  last_ns_ = now_ns;
  if (follows_) {
    const Vec2 back{inverse_[0] * moved_nm.x + inverse_[1] * moved_nm.y,
                    inverse_[2] * moved_nm.x + inverse_[3] * moved_nm.y};
    const double most_nm = kFastestNmPerS * frame_s;
    centre_nm_.x -= std::clamp(kFollowPerS * frame_s * back.x, -most_nm, most_nm);
    centre_nm_.y -= std::clamp(kFollowPerS * frame_s * back.y, -most_nm, most_nm);
  }
  keep_within_range();
}

/// Moves that are cut off at one end tell nothing.
void Acquaintance::keep_within_range() noexcept {
  const auto within = [this](double nm, double low_nm, double high_nm) {
    return std::clamp(nm, low_nm + reach_nm_, high_nm - reach_nm_);
  };
  centre_nm_ = {within(centre_nm_.x, start_.low_nm.x, start_.high_nm.x),
                within(centre_nm_.y, start_.low_nm.y, start_.high_nm.y)};
}

bool Acquaintance::is_late(std::int64_t now_ns) const noexcept {
  return seconds_between(first_ns_, now_ns) >= kBudgetS;
}

void Acquaintance::move_on(std::int64_t now_ns) noexcept {
  const double phase_s = seconds_between(phase_ns_, now_ns);
  const auto enter = [&](Phase phase) {
    phase_ = phase;
    phase_ns_ = now_ns;
    frames_ = 0;
  };
  if (phase_ == Phase::Quiet && phase_s >= kQuietS && frames_ >= kQuietFrames)
    enter(Phase::Moving);
  else if (phase_ == Phase::Moving &&
           ((phase_s >= kMovingS && frames_ >= kMovingFrames) || phase_s >= kLongestMovingS ||
            (rounds_ > 0 && is_late(now_ns))))
    enter(Phase::Resting);
  else if (phase_ == Phase::Resting && phase_s >= kRestS && !asked_)
    enter(Phase::Waiting);
}

Vec2 Acquaintance::wanted_nm(Vec2 moved_nm, std::int64_t now_ns) noexcept {
  if (!is_under_way()) return centre_nm_;
  ++frames_;
  move_on(now_ns);
  if (phase_ == Phase::Moving || phase_ == Phase::Resting) follow(moved_nm, now_ns);
  const double longest_frames = kLongestStayS / start_.period_s;
  if (phase_ == Phase::Moving) {
    ++moving_frames_;
    const double x_nm = x_.next(reach_nm_, step_nm_, longest_frames);
    const double y_nm = start_.axes == 1 ? 0 : y_.next(reach_nm_, step_nm_, longest_frames);
    return {centre_nm_.x + x_nm, centre_nm_.y + y_nm};
  }
  const auto settle = [this](Telegraph& axis) {
    axis.place_nm -= std::clamp(axis.place_nm, -step_nm_, step_nm_);
    return axis.place_nm;
  };
  return {centre_nm_.x + settle(x_), centre_nm_.y + settle(y_)};
}

void Acquaintance::saw(const std::optional<StageFrame>& sample,
                       const std::optional<StageMove>& told, std::int64_t exposure_ns,
                       std::int64_t now_ns) noexcept {
  frame_ = {.run = run_,
            .measured = sample.has_value(),
            .sample = sample.value_or(StageFrame{}),
            .moved = told.has_value(),
            .move = told.value_or(StageMove{}),
            .left_ns = std::exchange(left_ns_, 0),
            .ask = AcquaintanceAsk::Nothing,
            .described = start_.described,
            .exposure_ns = exposure_ns,
            .axes = start_.axes};
  if (told) told_nm_ = told->total_nm;
  frame_.move.total_nm = difference(frame_.move.total_nm, origin_nm_);
  // Also where no frame is a good one, for hours perhaps: the record would grow.
  if (now_ns - first_ns_ > kLongestNs) return end(AcquaintanceEnd::GaveUp);
  if (asked_ || !told) return;
  if (phase_ == Phase::Waiting && frames_ == 0) {
    frame_.ask = AcquaintanceAsk::Find;
  } else if (phase_ == Phase::Moving && moving_frames_ >= next_glimpse_ &&
             moving_frames_ * start_.period_s >= kGlimpseS) {
    frame_.ask = AcquaintanceAsk::Glimpse;
    next_glimpse_ = 2 * moving_frames_;
  }
  asked_ = frame_.ask != AcquaintanceAsk::Nothing;
}

void Acquaintance::hear(const AcquaintanceAnswer& answer, double usual_nm,
                        std::int64_t now_ns) noexcept {
  if (!is_under_way() || answer.run != run_) return;
  asked_ = false;
  if (answer.ask == AcquaintanceAsk::Glimpse)
    judge_glimpse(answer.finding);
  else
    judge_finding(answer.finding, usual_nm, now_ns);
}

void Acquaintance::judge_glimpse(const StageFinding& finding) noexcept {
  if (!finding.known) return;
  const SeenGain& g = finding.gain;
  const Judged judged = judge(g);
  // In much noise a response that is far off may be as likely, by which a stage that follows would
  // be reversed.
  const bool perhaps_follows = finding.as_described && !judge(*finding.as_described).outside;
  if (judged.outside && finding.explained && !perhaps_follows) {
    looks_ = looks_of(g);
    return end(AcquaintanceEnd::Fault);
  }
  if (!judged.inside) return;
  const double det = g.xx * g.yy - g.xy * g.yx;
  inverse_ = {g.yy / det, -g.xy / det, -g.yx / det, g.xx / det};
  follows_ = true;
}

void Acquaintance::judge_finding(const StageFinding& finding, double usual_nm,
                                 std::int64_t now_ns) noexcept {
  if (!finding.known) return begin_anew(now_ns);
  judge_glimpse(finding);
  if (!is_under_way()) return;
  const bool knocked = finding.noise_nm > kKnocked * usual_nm && finding.driver_hz == 0;
  if (knocked && anew_ < kMostAnew && !is_late(now_ns)) return begin_anew(now_ns);
  const bool inside = judge(finding.gain).inside;
  const bool well = inside && (finding.gain.sd() <= kWellKnown || is_late(now_ns));
  if (!well && ++rounds_ < kMostRounds) {
    phase_ = Phase::Moving;
    phase_ns_ = now_ns;
    frames_ = 0;
    return;
  }
  if (!inside) return end(AcquaintanceEnd::GaveUp);
  finding_ = finding;
  end(AcquaintanceEnd::Found);
}

void Acquaintance::end(AcquaintanceEnd end) noexcept {
  phase_ = Phase::None;
  end_ = end;
}

AcquaintanceEnd Acquaintance::take_end() noexcept {
  const AcquaintanceEnd end = end_;
  end_ = AcquaintanceEnd::None;
  return end;
}

}  // namespace driftd::control
