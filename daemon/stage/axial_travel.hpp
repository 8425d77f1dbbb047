// SPDX-License-Identifier: MIT
// What the driver of z tells of its axis, in the controller's nanometres. A plain value.
#pragma once

#include <cmath>

namespace driftd::daemon {

struct AxialTravel {
  double min_nm = 0, max_nm = 0;  ///< its ends; far beyond any stage where none were told
  double resolution_nm = 0, position_nm = 0;

  /// As well as a stage comes back to where it was.
  bool is_at(double place_nm) const noexcept {
    constexpr double kBackNm = 10, kBackSteps = 3;
    return std::abs(position_nm - place_nm) <= kBackNm + kBackSteps * resolution_nm;
  }
};

}  // namespace driftd::daemon
