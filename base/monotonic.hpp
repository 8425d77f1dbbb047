// SPDX-License-Identifier: MIT
// CLOCK_MONOTONIC in ns, the clock of every host time in driftd. Any thread; neither blocks nor
// allocates.
#pragma once

#include <cstdint>
#include <ctime>

namespace driftd {

inline constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

inline std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * kNanosecondsPerSecond + now.tv_nsec;
}

/// What a part reads the time from that a test gives a time of its own.
using Clock = std::int64_t (*)() noexcept;

inline timespec to_timespec(std::int64_t time_ns) noexcept {
  return {.tv_sec = time_ns / kNanosecondsPerSecond, .tv_nsec = time_ns % kNanosecondsPerSecond};
}

}  // namespace driftd
