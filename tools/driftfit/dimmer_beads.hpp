// SPDX-License-Identifier: MIT
// The beads of a stack as markers with less light would be fitted. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/spot_fitter.hpp"
#include "tools/driftfit/zstack_beads.hpp"

namespace driftd::tools {

/// A bead's image with a share of its photons, drawn and fitted several times.
struct DimmedBead {
  std::size_t plane = 0, bead = 0;
  double share = 0;           ///< of the photons
  std::vector<BeadFit> fits;  ///< as live fits: they tell no covariance of the widths
};

struct DimmerBeads {
  /// Of the recorded light, fitted by the weights that fits of so dim ones have: a larger read
  /// noise is assumed. Widths of dim markers, with little noise.
  ZStackBeads beads;
  std::vector<DimmedBead> dimmed;  ///< what their z scatters, and their pixels are off
};

/// @param fit      by likelihood, with a gain: those that gave `beads`
/// @param beads    of `stack`
/// @param dimness  larger than that of the beads
/// @returns for each dimness. Seeded: the same each time
std::vector<DimmerBeads> dimmer_beads(camera::ImageStack& stack, const SpotFitterSettings& fit,
                                      const ZStackBeads& beads, std::span<const double> dimness,
                                      const std::function<bool()>& stop);

}  // namespace driftd::tools
