// SPDX-License-Identifier: MIT
// The curves of markers with less light than the beads of a stack, with the zero of these. Pure;
// any thread.
#pragma once

#include <vector>

#include "control/axial/calibration/axial_calibration.hpp"
#include "control/axial/calibration/bead_fits.hpp"
#include "control/axial/width_curve.hpp"

namespace driftd::control {

/// Dimnesses to make curves of, ascending, for the photons of the beads: down to a twentieth of
/// their light, and not below 1,000 photons. None without dimness.
std::vector<double> dimmer_levels(const AxialCalibration& made, const ZStackBeads& beads);

struct CurvesByBrightness {
  WidthCurve curve;                ///< of the beads, with dimness and excess at its knots
  std::vector<WidthCurve> dimmer;  ///< with scatter, too
};

/// @param dimmer  in the order of dimmer_levels(). Curves from the first on that is none, or cannot
///   be told from the one before, are left out
CurvesByBrightness curves_by_brightness(const AxialCalibration& made, const ZStackBeads& beads,
                                        const std::vector<DimmerBeads>& dimmer,
                                        const CalibrationSettings& settings);

}  // namespace driftd::control
