// SPDX-License-Identifier: MIT
// How long the stage's driver takes, as its reports have it. A plain value.
#pragma once

#include <cstdint>

namespace driftd::daemon {

/// us; 0: not known.
struct DriverTiming {
  double waiting_us = 0;  ///< StageChannel::waiting_us()
  /// From a correction's leaving until it was carried out: the median and the longest of its run.
  double usual_us = 0, longest_us = 0;
  std::uint64_t ignored = 0;  ///< corrections of its run: they came too late
};

}  // namespace driftd::daemon
