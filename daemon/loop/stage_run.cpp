// SPDX-License-Identifier: MIT
#include "daemon/loop/stage_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftd::daemon {
namespace {

/// The way back takes what the limits make it take. Where the stage has not been told to come
/// nearer for so long, it is given up.
constexpr std::int64_t kMostStandstillNs = 5'000'000'000;
constexpr std::int64_t kNoFramesNs = 2'000'000'000;

}  // namespace

control::Vec2 StageRun::wanted_nm(std::int64_t now_ns) noexcept {
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  now_ns_ = now_ns;
  if (!goes_on()) return {};
  const std::optional<control::Vec2> next = next_nm(now_ns);
  if (!next) stop(CalibrationEnd::Complete);
  return next.value_or(control::Vec2{});
}

void StageRun::saw(const control::FrameFacts& facts, const control::Decision& decision) noexcept {
  now_ns_ = facts.now_ns;
  see(facts);
  // What was decided before and not taken back since has left.
  const double left_nm = std::max(std::abs(total_nm_.x), std::abs(total_nm_.y));
  if (left_nm < nearest_nm_) {
    nearest_nm_ = left_nm;
    progress_ns_ = facts.now_ns;
  }
  if (decision.has_correction) {
    total_nm_ = decision.correction.total_nm;
    if (!told(facts.now_ns, total_nm_)) stop(CalibrationEnd::TooManyFrames);
  }
  judge(facts, decision);
  if (phase_ != CalibrationPhase::Returning) return;
  if (total_nm_.x != 0 || total_nm_.y != 0)
    back_since_ns_ = 0;
  else if (back_since_ns_ == 0)
    back_since_ns_ = facts.now_ns;
  if (back_since_ns_ != 0 && facts.now_ns - back_since_ns_ >= rest_ns_) {
    phase_ = CalibrationPhase::Over;
  } else if (back_since_ns_ == 0 && facts.now_ns - progress_ns_ > kMostStandstillNs) {
    end_ = CalibrationEnd::NotBack;
    phase_ = CalibrationPhase::Over;
  }
}

void StageRun::judge(const control::FrameFacts& facts, const control::Decision& decision) noexcept {
  using control::LockEvent;
  bad_frames_ = is_good(decision.verdict) ? 0 : bad_frames_ + 1;
  if (facts.stage != control::StageSays::Nothing && facts.stage != control::StageSays::Ready) {
    stage_says_ = facts.stage;
    stop(CalibrationEnd::StageReports);
  } else if (bad_frames_ >= bad_frames_to_end_) {
    stop(decision.verdict == LockEvent::NotSent      ? CalibrationEnd::NotSent
         : decision.verdict == LockEvent::StaleFrame ? CalibrationEnd::TooOld
                                                     : CalibrationEnd::MarkersLost);
  } else if (const auto why = what_ends_it(facts)) {
    stop(*why);
  } else if (decision.has_correction && (decision.correction.limited & control::kLimitRange) != 0) {
    stop(CalibrationEnd::NoRoom);
  }
}

void StageRun::without_frame(std::int64_t now_ns) noexcept {
  if (begun_ns_ == 0) begun_ns_ = now_ns_ = now_ns;
  if (now_ns - now_ns_ > kNoFramesNs) abandon(CalibrationEnd::NoFrames);
}

void StageRun::take_back(control::Vec2 total_nm, std::int64_t sent_ns) noexcept {
  untold(sent_ns);
  total_nm_ = total_nm;
  back_since_ns_ = 0;
}

void StageRun::stop(CalibrationEnd why) noexcept {
  if (!goes_on()) return;
  phase_ = CalibrationPhase::Returning;
  end_ = why;
  progress_ns_ = now_ns_;
  nearest_nm_ = std::numeric_limits<double>::infinity();
}

void StageRun::abandon(CalibrationEnd why) noexcept {
  if (over()) return;
  if (phase_ != CalibrationPhase::Returning) end_ = why;
  phase_ = CalibrationPhase::Over;
}

double StageRun::progress() const noexcept {
  return goes_on() ? share_done() : 1;
}

}  // namespace driftd::daemon
