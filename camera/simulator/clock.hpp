// SPDX-License-Identifier: MIT
// The one clock of the running simulator.
#pragma once

#include <cstdint>
#include <ctime>

namespace driftd::simulator {

/// CLOCK_MONOTONIC in ns.
inline std::int64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace driftd::simulator
