// SPDX-License-Identifier: MIT
// How the pattern of the markers has changed against its reference: turned about the optical axis,
// grown, tilted. A diagnostic: nothing is corrected by it. Pure; not for the tracking loop.
//
// The markers' displacements are fitted by a similarity about their weighted centroid, d = t + (s +
// i r) p in complex numbers (x towards y), by weighted least squares; their z by a plane. Markers
// that do not belong to the pattern are found from a fit of least absolute residuals (Huber &
// Ronchetti, Robust Statistics, 2009, ch. 7), and lose their weight from kFull to kNone times what
// the others scatter. The standard deviations are those of least squares, times the scatter over
// what the variances promise, where that is more.
#pragma once

#include <limits>
#include <span>

#include "control/values/types.hpp"

namespace driftd::control {

/// One marker, measured against its own reference. A displacement common to all does not matter.
struct PatternMarker {
  Vec2 place_nm;            ///< in the sample plane, image axes
  Vec2 moved_nm;            ///< from its reference
  double variance_nm2 = 0;  ///< of moved_nm, per axis, its reference's included; > 0
  double z_moved_nm = std::numeric_limits<double>::quiet_NaN();  ///< not a number: not measured
  double z_variance_nm2 = 0;
};

struct PatternChange {
  /// Fewer than kFewest markers that belong together, or one of them decides alone: false, and what
  /// it is for is not to be used.
  bool measured = false;
  double rotation_rad = 0, rotation_sd_rad = 0;  ///< about the optical axis, from x towards y
  double scale = 0, scale_sd = 0;                ///< relative; > 0: the pattern has grown
  int markers = 0;                               ///< with a weight
  bool tilted = false;                           ///< the same of the following
  /// How z grows along x and along y, and the standard deviations.
  Vec2 tilt_rad = {}, tilt_sd_rad = {};

  static constexpr int kFewest = 3;
};

PatternChange pattern_change(std::span<const PatternMarker> markers);

}  // namespace driftd::control
