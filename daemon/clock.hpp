// SPDX-License-Identifier: MIT
// The daemon's one clock: CLOCK_MONOTONIC in nanoseconds, as in every `_ns` of the wire.
#pragma once

#include <cstdint>
#include <ctime>

namespace driftd::daemon {

inline std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace driftd::daemon
