// SPDX-License-Identifier: MIT
// Which frames have no drift, why, and what would help; where the drift jumps; which markers were
// seldom found, moved, or do not agree. Pure functions of a run's result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/driftfit/drift_trace.hpp"
#include "tools/driftfit/picks.hpp"

namespace driftd::tools {

/// For DriftTrace::reasons. No text has a comma: it stands in a CSV.
std::vector<std::string> reasons_of(const std::vector<DriftPoint>& points,
                                    const MarkerTracks& tracks, int min_markers);

/// Frames that have a drift.
std::int64_t frames_known(const DriftTrace& trace) noexcept;

struct GapSettings {
  DriftSettings solved_by = {.min_markers = 3};
  bool gain_known = false;
  double wanted_share = 0.95;  ///< of the frames should have a drift
  double least_share = 0;      ///< where fewer have, nothing is written
};

/// "\n  --min-markers 2: 58 of 60 frames have a drift then". Where these are less than the least
/// share, the option is told that writes them all the same.
std::string advice_in_words(const std::string& option, std::int64_t known, std::int64_t frames,
                            double least_share);

/// Several lines, from "no drift in 7 of 60 frames: 3 to 8, 22" to what would help. That fewer
/// markers would, is tried before it is said.
std::string gaps_in_words(const DriftTrace& trace, const MarkerTracks& tracks,
                          const GapSettings& settings);

/// "the drift jumps by 10.0 px between frames 95 and 96 ...", or "". A jump is a step from one
/// frame that has a drift to the next of more than 2 px that differs by as much from a steady
/// motion, that of the three steps on either side: the sample jumped, or other spots were taken for
/// the markers.
/// @param spare_markers  there are more than a drift needs
std::string jumps_in_words(const DriftTrace& trace, bool spare_markers);

/// A marker by where it was at first, and how it was followed.
struct MarkerSeen {
  Pick at;
  std::int64_t frames = 0;  ///< that it was found in
  Absences missing;         ///< in the others
};

/// A line for each marker that was found in less than three quarters of the frames:
/// "marker 8 at 40.2, 31.0 was found in 30 of 199 frames: 12 not fitted, 157 apart from the
/// others"; or "".
/// @param frames  that it was sought in
std::string seldom_in_words(const std::vector<MarkerSeen>& markers, std::int64_t frames);

/// A line for each marker that has a new place, or "": "marker 0 at 15.0, 14.0 is 1.50 px
/// from where it was from frame 50 on", and what that means.
/// @param at           where the markers were at first
/// @param first_frame  of the stack, that the solution's first is
std::string moved_in_words(const std::vector<MarkerMoved>& moved, const std::vector<Pick>& at,
                           std::int64_t first_frame);

/// A line for each group of markers that moves apart from the others, and what was done about it.
std::string apart_in_words(const std::vector<MarkersApart>& apart, const std::vector<Pick>& at,
                           std::int64_t first_frame);

}  // namespace driftd::tools
