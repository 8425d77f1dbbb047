// SPDX-License-Identifier: MIT
// Tests of what has a worker's thread behind it, which goes at its own pace: they turn until it is
// through.
#pragma once

#include <chrono>
#include <thread>

namespace driftd::daemon::test {

/// @returns false when the condition did not hold for a minute
template <typename Condition, typename Turn>
bool turned_until(Condition holds, Turn turn) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    turn();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace driftd::daemon::test
