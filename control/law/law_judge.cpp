// SPDX-License-Identifier: MIT
#include "control/law/law_judge.hpp"

#include <algorithm>
#include <cmath>

#include "control/law/limits.hpp"
#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

constexpr double kLeastShare = 0.05, kStandardErrors = 4;
/// Longer without a frame, and so many periods: PI would not have seen either what happened.
constexpr double kLongestGapS = 0.1, kLongestGapFrames = 2.5;

}  // namespace

LawJudge::LawJudge(const JudgeSettings& settings)
    : settings_(settings), pi_(settings.pi), stage_(settings.stage) {}

void LawJudge::change_settings(const JudgeSettings& settings) noexcept {
  settings_ = settings;
  stage_.change_settings(settings.stage);
  pi_.change_settings(settings.pi);
  restart();
}

void LawJudge::pause() noexcept {
  begun_ = false;
  open_ = {};
}

void LawJudge::restart() noexcept {
  pause();
  closed_ = 0;
  pi_is_better_ = false;
  left_nm_ = pi_left_nm_ = 0;
}

void LawJudge::left_at(std::int64_t told_ns, std::int64_t sent_ns) noexcept {
  if (!begun_ || told_ns != told_ns_) return;  // coasting, say: PI's last command is an older one
  stage_.left_at(sent_ns);
  told_ns_ = std::max(told_ns_, sent_ns);
}

/// Over the axes.
double LawJudge::mean_square(Vec2 v) const noexcept {
  return settings_.axes == 1 ? v.x * v.x : 0.5 * (v.x * v.x + v.y * v.y);
}

void LawJudge::see(Vec2 moved_nm, Vec2 stage_nm, std::int64_t taken_ns,
                   std::int64_t now_ns) noexcept {
  const double longest_s = std::max(kLongestGapS, kLongestGapFrames * period_s_);
  if (begun_ && (now_ns <= told_ns_ || seconds_between(told_ns_, now_ns) > longest_s)) pause();
  if (!begun_) {
    begun_ = true;
    origin_nm_ = stage_nm;
    told_nm_ = {};
    stage_.reset();
    pi_.reset({});
    block_since_ns_ = now_ns;
    told_ns_ = now_ns;
  }
  const Vec2 target_nm{stage_nm.x - moved_nm.x - origin_nm_.x,
                       stage_nm.y - moved_nm.y - origin_nm_.y};
  const Vec2 place_nm = stage_.at(taken_ns);
  open_.left_nm2 += mean_square(moved_nm);
  open_.pi_left_nm2 += mean_square({place_nm.x - target_nm.x, place_nm.y - target_nm.y});
  open_.frames += 1;
  command(target_nm, seconds_between(told_ns_, now_ns));
  stage_.command(told_nm_, now_ns);
  told_ns_ = now_ns;
  if (seconds_between(block_since_ns_, now_ns) < kBlockS || open_.frames < kBlockFrames) return;
  close_block();
  block_since_ns_ = now_ns;
}

/// Within the limits: without them PI would have been there at once after a long way.
void LawJudge::command(Vec2 target_nm, double interval_s) noexcept {
  constexpr double kFar = 1e12;
  const Vec2 wanted = pi_.wanted_nm(target_nm, told_nm_);
  const double rate_step_nm = settings_.rate_limit_nm_per_s * interval_s;
  const LimitedAxis x =
      limit_axis(wanted.x, told_nm_.x, -kFar, kFar, settings_.step_limit_nm, rate_step_nm);
  const LimitedAxis y =
      limit_axis(wanted.y, told_nm_.y, -kFar, kFar, settings_.step_limit_nm, rate_step_nm);
  told_nm_ = {x.total_nm, y.total_nm};
  pi_.told(told_nm_, x.limited != kLimitNone, y.limited != kLimitNone);
}

void LawJudge::close_block() noexcept {
  blocks_[closed_ % kBlocks] = {.left_nm2 = open_.left_nm2 / open_.frames,
                                .pi_left_nm2 = open_.pi_left_nm2 / open_.frames,
                                .frames = open_.frames};
  ++closed_;
  open_ = {};
  judge();
}

void LawJudge::judge() noexcept {
  const std::size_t count = std::min(closed_, kBlocks);
  Block all;
  for (std::size_t i = 0; i < count; ++i) {
    all.left_nm2 += blocks_[i].left_nm2 / static_cast<double>(count);
    all.pi_left_nm2 += blocks_[i].pi_left_nm2 / static_cast<double>(count);
  }
  left_nm_ = std::sqrt(all.left_nm2);
  pi_left_nm_ = std::sqrt(all.pi_left_nm2);
  if (closed_ < kBlocks) return;
  const double more_nm2 = all.left_nm2 - all.pi_left_nm2;
  double spread_nm4 = 0;
  for (const Block& block : blocks_) {
    const double off_nm2 = block.left_nm2 - block.pi_left_nm2 - more_nm2;
    spread_nm4 += off_nm2 * off_nm2;
  }
  constexpr double kPairs = kBlocks * (kBlocks - 1.0);
  pi_is_better_ = more_nm2 > kLeastShare * all.pi_left_nm2 &&
                  more_nm2 > kStandardErrors * std::sqrt(spread_nm4 / kPairs);
}

}  // namespace driftd::control
