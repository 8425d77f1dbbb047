// SPDX-License-Identifier: MIT
// The picture of a calibration of z: widths with the curve, and what readings are off by. Pure.
#pragma once

#include <string>

#include "control/axial/calibration/axial_calibration.hpp"

namespace driftd::control {

/// SVG. @param title  on one line
std::string curve_picture(const AxialCalibration& calibration, const ZStackBeads& beads,
                          const std::string& title);

}  // namespace driftd::control
