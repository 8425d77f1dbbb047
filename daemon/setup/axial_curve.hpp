// SPDX-License-Identifier: MIT
// The file of axial.curve: read at start and at each reload, and refused where it is of other fits.
// Waits for the disk; housekeeping's thread.
#pragma once

#include "config/config.hpp"

namespace driftd::daemon {

/// With what the file of axial.curve says, where z is read from widths, and with its ROI where
/// fitter.roi_px is `auto`. @throws config::ConfigError
config::Config with_curve(config::Config config);

/// Whether z would be read otherwise.
bool have_other_curves(const config::Config& a, const config::Config& b);

}  // namespace driftd::daemon
