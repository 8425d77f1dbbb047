// SPDX-License-Identifier: MIT
// The level at which pixels do not get brighter, where frames show it. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "clients/driftctl/camera/frame_statistics.hpp"

namespace driftd::clients {

struct Saturation {
  std::optional<int> level_adu;
  bool seen = false;  ///< pixels stood there; false with a level: the largest there can be
  std::string text;   ///< for people
};

Saturation find_saturation(const FrameStatistics& statistics);

}  // namespace driftd::clients
