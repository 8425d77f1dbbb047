// SPDX-License-Identifier: MIT
// What was learned from an image about the markers in it, and whether somebody chose them; a value.
#pragma once

namespace driftd::daemon {

struct MarkerSizes {
  double spot_sigma_px = 0;  ///< 0: it was given
  int roi_px = 0;            ///< 0: it was given
  int saturation_adu = 0;    ///< 0: it was known
  bool chosen = false;       ///< by command: their roles stay
};

}  // namespace driftd::daemon
