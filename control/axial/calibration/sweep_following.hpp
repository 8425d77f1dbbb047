// SPDX-License-Identifier: MIT
// Whether the stage did what a sweep told it, by what its places look like alone, so that it can be
// said before there is a curve, and where none can be made. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "base/vec2.hpp"
#include "control/axial/calibration/sweep_stage.hpp"

namespace driftd::control {

/// What a place looks like, in pixels: both widths, or where the reflected spot is.
struct PlaceLook {
  Vec2 px{};
  double sd_px = 0;
  Vec2 moved_px{};  ///< of the second half of the time there less the first
};
using PlaceLooks = std::vector<std::optional<PlaceLook>>;

/// @param least_way_nm  of the sample, on which the look must change
/// @param or_else       why else it might change no more, for people: ", or ..."; ""
/// @throws CalibrationError where the stage had not arrived when it was measured, stood still on a
/// part of its way, or turned round
void check_followed(const SweepRecord& record, const SweepStage& stage, const PlaceLooks& looks,
                    double least_way_nm, const char* or_else = "");

}  // namespace driftd::control
