// SPDX-License-Identifier: MIT
#include "daemon/recorder/wall_clock.hpp"

#include <sys/timex.h>

#include <ctime>
#include <limits>

#include "base/monotonic.hpp"

namespace driftd::daemon {
namespace {

std::int64_t real_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * kNanosecondsPerSecond + now.tv_nsec;
}

/// -1: no time server keeps the clock, or the kernel is not asked (systemd's ProtectClock).
std::int64_t utc_max_error_ns() noexcept {
  timex kernel{};  // modes 0: only asks
  const int state = adjtimex(&kernel);
  if (state < 0 || state == TIME_ERROR || (kernel.status & STA_UNSYNC) != 0) return -1;
  return static_cast<std::int64_t>(kernel.maxerror) * 1000;
}

}  // namespace

record::ClockRow read_clocks() noexcept {
  constexpr int kReadings = 5;
  record::ClockRow best{.read_uncertainty_ns = std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < kReadings; ++i) {
    const std::int64_t before_ns = monotonic_ns();
    const std::int64_t wall_ns = real_ns();
    const std::int64_t after_ns = monotonic_ns();
    const std::int64_t apart_ns = (after_ns - before_ns + 1) / 2;
    if (apart_ns >= best.read_uncertainty_ns) continue;
    best.time_ns = before_ns + apart_ns;
    best.wall_ns = wall_ns;
    best.read_uncertainty_ns = apart_ns;
  }
  best.utc_max_error_ns = utc_max_error_ns();
  return best;
}

}  // namespace driftd::daemon
