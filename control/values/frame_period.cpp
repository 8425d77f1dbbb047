// SPDX-License-Identifier: MIT
#include "control/values/frame_period.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// Intervals that the mean remembers.
constexpr int kMemory = 100;
/// A longer interval, in periods, is a gap: frames were lost.
constexpr double kGap = 3;
/// So many of them in a row are no gaps: the camera is slower than thought.
constexpr int kGapsToBelieve = 3;

}  // namespace

void FramePeriod::arrived(std::int64_t arrival_ns) noexcept {
  const std::int64_t last_ns = last_arrival_ns_;
  last_arrival_ns_ = arrival_ns;
  if (last_ns == 0 || arrival_ns <= last_ns) return;
  const auto interval_ns = static_cast<double>(arrival_ns - last_ns);
  if (period_ns_ > 0 && interval_ns > kGap * period_ns_) {
    if (++long_ones_ < kGapsToBelieve) return;
    measured_ = 0;
    period_ns_ = 0;
  }
  long_ones_ = 0;
  measured_ = std::min(measured_ + 1, kMemory);
  // A configured period is what the first interval is measured against, not part of the mean.
  period_ns_ += (interval_ns - period_ns_) / measured_;
}

std::int64_t FramePeriod::timeout_ns(std::int64_t at_least_ns, double frames) const noexcept {
  return std::max(at_least_ns, static_cast<std::int64_t>(std::llround(frames * period_ns_)));
}

}  // namespace driftd::control
