// SPDX-License-Identifier: MIT
// The beads of a stack as markers with less light would be fitted. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "control/axial/calibration/bead_fits.hpp"
#include "tools/driftfit/spot_fitter.hpp"
#include "tools/driftfit/zstack_beads.hpp"

namespace driftd::tools {

using control::DimmedBead;
using control::DimmerBeads;

/// @param fit      by likelihood, with a gain: those that gave `beads`
/// @param beads    of `stack`
/// @param dimness  larger than that of the beads
/// @returns for each dimness. Seeded: the same each time
std::vector<DimmerBeads> dimmer_beads(camera::ImageStack& stack, const SpotFitterSettings& fit,
                                      const ZStackBeads& beads, std::span<const double> dimness,
                                      const std::function<bool()>& stop);

}  // namespace driftd::tools
