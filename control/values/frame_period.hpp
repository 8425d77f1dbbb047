// SPDX-License-Identifier: MIT
// The time between two frames: as configured, until it is measured. Every time-out that counts
// frames derives from it, so that a camera of one frame a second can be locked like one of a
// thousand. Tracking loop; noexcept.
#pragma once

#include <cstdint>

namespace driftd::control {

class FramePeriod {
 public:
  /// @param configured_ns  0: not configured (free running without a set rate, hardware trigger)
  explicit FramePeriod(std::int64_t configured_ns = 0) noexcept
      : period_ns_(static_cast<double>(configured_ns)) {}

  void arrived(std::int64_t arrival_ns) noexcept;
  /// The camera was away: the next interval says nothing.
  void restart() noexcept { last_arrival_ns_ = 0; }

  /// 0: not known yet.
  double ns() const noexcept { return period_ns_; }
  /// `at_least_ns`, or `frames` periods where that is longer.
  std::int64_t timeout_ns(std::int64_t at_least_ns, double frames) const noexcept;

 private:
  double period_ns_;
  int measured_ = 0;   ///< intervals in the mean, up to the length of its memory
  int long_ones_ = 0;  ///< in a row that looked like gaps
  std::int64_t last_arrival_ns_ = 0;
};

}  // namespace driftd::control
