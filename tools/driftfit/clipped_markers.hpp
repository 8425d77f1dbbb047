// SPDX-License-Identifier: MIT
// What is said of spots that are cut off at their top, and what leaving them out would leave. Pure.
#pragma once

#include <string>

#include "tools/driftfit/clipped_pixels.hpp"
#include "tools/driftfit/marker_tracks.hpp"

namespace driftd::tools {

struct ClippedSettings {
  int min_markers = 3;     ///< for a drift; all, where fewer are followed
  double min_share = 0.5;  ///< of the frames should have a drift
  bool picked = false;     ///< markers need not show themselves in the first frame that has any
};

/// A line, or "" where few spots are cut off. --saturation is advised only where it leaves enough.
std::string clipped_markers_in_words(const ClippedPixels& clipped, const MarkerTracks& tracks,
                                     const ClippedSettings& settings);

/// The same of spots that are not followed.
std::string clipped_spots_in_words(const ClippedPixels& clipped);

}  // namespace driftd::tools
