// SPDX-License-Identifier: MIT
// How old a frame is. Camera and host clocks share no zero, so the smallest (arrival - camera time)
// seen so far stands for a frame without delay, and a frame's excess over it is its delay. The
// smallest value may rise by 200 ppm of the elapsed time, more than two quartz clocks drift apart
// and too slow to hide a backlog. Tracking loop.
#pragma once

#include <algorithm>
#include <cstdint>

namespace driftd::daemon {

class CameraClock {
 public:
  /// The frame's delay beyond the fastest one's, ns. A camera without a clock (time 0) gives 0.
  std::int64_t delay_ns(std::int64_t camera_time_ns, std::int64_t arrival_ns) noexcept {
    if (camera_time_ns == 0) return 0;
    const std::int64_t offset = arrival_ns - camera_time_ns;
    const std::int64_t risen = known_ ? fastest_ + (arrival_ns - last_arrival_ns_) / 5000 : offset;
    fastest_ = std::min(offset, risen);
    last_arrival_ns_ = arrival_ns;
    known_ = true;
    return offset - fastest_;
  }
  /// The camera was away: its clock may have started anew.
  void restart() noexcept { known_ = false; }

 private:
  bool known_ = false;
  std::int64_t fastest_ = 0;
  std::int64_t last_arrival_ns_ = 0;
};

}  // namespace driftd::daemon
