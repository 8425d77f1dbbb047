// SPDX-License-Identifier: MIT
// Finding known markers again after they left their ROIs: the one displacement, common to all, that
// puts the markers onto spots of the whole frame. Every pair of a marker and a spot that resemble
// each other votes for a displacement, and the displacement with the most markers is taken if no
// other has nearly as many. In doubt there is no answer, because a wrong one would move the sample.
// Turns (turned_constellation.hpp looks for them) and changes of scale are not looked for. Pure;
// not real time.
#pragma once

#include <span>
#include <string>

#include "control/values/types.hpp"

namespace driftd::control {

struct ConstellationSettings {
  double tolerance_px;  ///< how far a spot may be from where a marker should be
  int min_markers;      ///< on spots, at least
  /// A spot resembles a marker when its sigma and amplitude differ by no more than these shares.
  double max_width_change;
  double max_brightness_change;
  /// Where a marker can be measured at all, sensor pixels: its whole ROI lies inside the frame.
  Vec2 field_low_px, field_high_px;
  double most_turn_rad;  ///< for match_turned_constellation(); 0: turns are not looked for
};

struct ConstellationMatch {
  bool found = false;
  int matched = 0;            ///< markers on spots, at the best displacement
  Vec2 displacement_px;       ///< of the markers from their references; the mean of those matched
  std::string reason;         ///< why not, when not found
  bool is_ambiguous = false;  ///< that is why
  /// First the references were turned by so much, x towards y, about their mean place.
  double turn_rad = 0;
  Vec2 centre_px = {};
};

/// The displacement at which most of `markers` are on `spots`. Found when at least min_markers are,
/// and half of those that would be in the field, and when no other displacement has more than half
/// as many (a regular grid of markers fits onto itself in many ways). A single marker is thus found
/// where exactly one spot resembles it.
/// @param markers  those known; of one without sigma or amplitude that is not compared
ConstellationMatch match_constellation(std::span<const MarkerReference> markers,
                                       std::span<const FittedSpot> spots,
                                       const ConstellationSettings& settings);

}  // namespace driftd::control
