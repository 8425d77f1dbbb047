// SPDX-License-Identifier: MIT
// Beads, or the markers of a lock, as they were fitted at known heights of the stage. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/axial/width_curve.hpp"

namespace driftd::control {

/// A bead in a plane.
struct BeadFit {
  bool fitted = false;  ///< the fit found a spot where the others say that it is
  double x_px = 0, y_px = 0;
  double sigma_x_px = 0, sigma_y_px = 0;
  WidthVariance variance = {};
  double photons = 0;  ///< counts where the gain is not known
  double background_e = 0;
  double dimness = 0;  ///< SpotFit::dimness()
  double excess = 0;   ///< what chi-square of a pixel has over 1, for each electron
};

struct ZStackBeads {
  std::size_t beads = 0, planes = 0;
  std::vector<BeadFit> fits;         ///< plane after plane
  std::vector<std::int64_t> frames;  ///< of the planes
  std::int64_t found_in = 0;         ///< the frame that the beads were found in
  int roi_px = 0;
  std::size_t saturated = 0;  ///< images of beads that reach the saturation: they have no fit

  const BeadFit& at(std::size_t plane, std::size_t bead) const {
    return fits[plane * beads + bead];
  }
};

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

}  // namespace driftd::control
