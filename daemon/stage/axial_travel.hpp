// SPDX-License-Identifier: MIT
// What the driver of z tells of its axis, in the controller's nanometres. A plain value.
#pragma once

namespace driftd::daemon {

struct AxialTravel {
  double min_nm = 0, max_nm = 0;  ///< its ends; far beyond any stage where none were told
  double resolution_nm = 0, position_nm = 0;
};

}  // namespace driftd::daemon
