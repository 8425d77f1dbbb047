// SPDX-License-Identifier: MIT
// What a person is to do about a lock that is held, lost or was refused, in a sentence for
// `status`. Pure.
#pragma once

#include <string>

#include "control/lock/lock_state.hpp"
#include "control/stage/stage_monitor.hpp"
#include "control/values/types.hpp"

namespace driftd::daemon {

/// What to do where no frames come, for people.
inline constexpr const char* kSeeCamera =
    "see the camera's power, cable and trigger: `driftctl cameras`";

struct LockTrouble {
  const control::Lock& lock;
  control::StageLooks stage = control::StageLooks::Following;
  bool driver_reports = false;   ///< a stage's driver tells of itself
  bool driver_ready = false;     ///< and says by now that it is ready
  std::string driver_says = {};  ///< its trouble in its own words
  bool has_frames = false;       ///< they come by now
  bool sees_markers = false;     ///< and show the markers
  bool resumed = false;          ///< that lock was to go back to a place of before
  control::Vec2 jumped_nm = {};  ///< an implausible jump, from the last plausible place
  double max_jump_nm = 0;        ///< lock.max_jump_nm
  std::string while_idle = {};   ///< what people are to know of one that is idle, or ""
  std::string at_start = {};     ///< what lock.at_start waits for; "" where it does not
  bool offered = false;          ///< `status.interrupted` tells of the way back
  bool of_z = false;             ///< it is the lock of z
  std::string no_z = {};         ///< of that: why z is not measured now; "": it is
};

/// "" where nothing is to be done.
std::string cure_of(const LockTrouble& trouble);

}  // namespace driftd::daemon
