// SPDX-License-Identifier: MIT
// Finds markers in one frame where the user picked none: control/search/marker_detection.hpp
// proposes candidates, the fit measures them, and marker_detection.hpp chooses.
#pragma once

#include <string>
#include <vector>

#include "control/search/marker_detection.hpp"
#include "control/search/spot_size.hpp"
#include "tools/driftfit/camera_maps.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {

/// How wide the frame's spots are and which ROI suits them: what is 0 of `settings` is chosen.
control::SpotSize size_of_spots(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings,
                                const CameraMaps& maps = {});

struct MarkerSearchResult {
  std::vector<Pick> markers;
  std::vector<std::string> rejected;  ///< "at 12.0, 34.0: SNR 4.2 below 10.0"
};

/// Floating-point frames are searched as 16 bits between their lowest and highest pixel, and fitted
/// as they are. Where some are far from all others (a hot pixel of 1e8, a border of -3.4e38) they
/// are also searched without these, and the search counts that finds more. Both without the hot
/// pixels of the maps; fits have their variances.
/// @throws fitter::FitterError
MarkerSearchResult find_markers(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings, SpotFitter& fitter,
                                const CameraMaps& maps = {});

}  // namespace driftd::tools
