// SPDX-License-Identifier: MIT
// Which lock keeps something from being done, for people. Pure.
#pragma once

#include <optional>

#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

struct EngagedLock {
  const char* name;    ///< "the lock", "the lock of z"
  const char* state;   ///< LoopReport::blocking_state()
  const char* unlock;  ///< what ends it
};

/// Where that of z alone is not idle, it is named.
inline EngagedLock lock_named(const LoopReport& loop, bool of_z_alone) noexcept {
  const char* state = loop.blocking_state();
  const bool in_fault = loop.z.lock.state == control::LockState::Fault;  // that unlock leaves
  return of_z_alone ? EngagedLock{"the lock of z", state,
                                  in_fault ? "driftctl reset" : "driftctl unlock --axes z"}
                    : EngagedLock{"the lock", state, "driftctl unlock"};
}

/// A lock that needs the markers' references; none: there is none.
inline std::optional<EngagedLock> engaged_lock(const LoopReport& loop) noexcept {
  if (loop.blocking_state() == nullptr) return std::nullopt;
  return lock_named(loop, loop.is_idle() || loop.lock.state == control::LockState::Lost);
}

/// That which is not idle, of a loop in which one is not.
inline EngagedLock busy_lock(const LoopReport& loop) noexcept {
  return lock_named(loop, loop.is_idle() && !loop.z.is_idle());
}

}  // namespace driftd::daemon
