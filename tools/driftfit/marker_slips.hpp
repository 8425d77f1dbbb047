// SPDX-License-Identifier: MIT
// Markers that slip: from one frame to the next they are elsewhere for good, by less than what
// makes the follower take them for another spot. Pure.
//
// A marker slips where the medians of its positions less those of markers that stay, of up to ten
// frames before and after, differ by far more than its noise, and where a step describes these
// frames better than a steady motion. Three frames on each side have to show it, but it may lie
// between the first two of these and the third. Whether it was the marker that moved, or the
// others, the majority decides: the markers that go with it, or those that stay, one against the
// other, for the drift may be wrong yet. Where they are as many, nobody knows, and none slips.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tools/driftfit/marker_tracks.hpp"

namespace driftd::tools {

constexpr double kLeastSlipPx = 0.05;  ///< docs/use/driftfit.md says it, too

struct Slip {
  std::size_t marker = 0;
  std::size_t frame = 0;  ///< the first at the new place
};

/// Those not among the begins of places yet.
/// @param points  the drift as far as it is known; a frame of fewer markers than wanted may count
std::vector<Slip> find_slips(const MarkerTracks& tracks, const PlaceBegins& places,
                             std::span<const DriftPoint> points);

}  // namespace driftd::tools
