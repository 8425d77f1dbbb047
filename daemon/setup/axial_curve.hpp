// SPDX-License-Identifier: MIT
// The file of axial.curve: read at start and at each reload, and refused where it is of other fits.
// Waits for the disk; housekeeping's thread.
#pragma once

#include "config/config.hpp"
#include "control/axial/curve_file.hpp"

namespace driftd::daemon {

/// What the markers' widths are fitted by, in ROIs of this side.
control::CurveFits curve_fits(const config::Config& config, int roi_px);

/// With what the file of axial.curve says, where z is read from widths, and with its ROI where
/// fitter.roi_px is `auto`. @throws config::ConfigError
config::Config with_curve(config::Config config);

/// Whether z would be read otherwise.
bool have_other_curves(const config::Config& a, const config::Config& b);

}  // namespace driftd::daemon
