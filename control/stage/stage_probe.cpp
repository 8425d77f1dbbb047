// SPDX-License-Identifier: MIT
#include "control/stage/stage_probe.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// How long a corner is held: frames enough to show it.
constexpr std::int64_t kCornerNs = 40'000'000;
constexpr int kCornerFrames = 2;
/// Half a side, in standard deviations of the sample's own motion, and its least length.
constexpr double kHalfSideSd = 5;
constexpr double kLeastNm = 1;
/// The modelled stage has arrived when no more is left.
constexpr double kArrivedNm = 0.1 * kLeastNm;

double distance(Vec2 a, Vec2 b) noexcept {
  return std::max(std::abs(a.x - b.x), std::abs(a.y - b.y));
}

}  // namespace

void StageProbe::begin(Vec2 anchor_nm) noexcept {
  *this = StageProbe(axes_);
  anchor_nm_ = wanted_nm_ = anchor_nm;
}

Vec2 StageProbe::wanted_nm(Vec2 total_nm, Vec2 modelled_nm, Vec2 sd_nm,
                           std::int64_t now_ns) noexcept {
  // Where a limit keeps the command short of the corner, the place where it rests will do.
  const bool arrived =
      distance(total_nm, last_total_nm_) == 0 && distance(total_nm, modelled_nm) <= kArrivedNm;
  last_total_nm_ = total_nm;
  if (!arrived) {
    frames_ = 0;
  } else if (frames_++ == 0) {
    arrived_ns_ = now_ns;
  } else if (frames_ > kCornerFrames && now_ns - arrived_ns_ >= kCornerNs) {
    frames_ = 0;
    corner_ = corner_ % (axes_ == 1 ? 2 : 4) + 1;
    const double half_side_nm =
        std::clamp(kHalfSideSd * std::max(sd_nm.x, sd_nm.y), kLeastNm, kLargestNm);
    wanted_nm_.x = anchor_nm_.x + (corner_ == 1 || corner_ == 4 ? half_side_nm : -half_side_nm);
    if (axes_ == 1) return wanted_nm_;
    wanted_nm_.y = anchor_nm_.y + (corner_ <= 2 ? half_side_nm : -half_side_nm);
  }
  return wanted_nm_;
}

}  // namespace driftd::control
