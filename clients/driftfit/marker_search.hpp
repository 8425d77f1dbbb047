// SPDX-License-Identifier: MIT
// Markers of one frame for whoever picked none: control/marker_detection.hpp with the fit between.
#pragma once

#include <string>
#include <vector>

#include "clients/driftfit/picks.hpp"
#include "clients/driftfit/spot.hpp"
#include "clients/driftfit/spot_fitter.hpp"
#include "control/marker_detection.hpp"

namespace driftd::clients {

struct MarkerSearchResult {
  std::vector<Pick> markers;
  std::vector<std::string> rejected;  ///< "12.0, 34.0: SNR 4.2 below 10.0"
};

/// Floating-point frames are searched as 16 bits between their lowest and highest pixel.
/// @throws fitter::FitterError
MarkerSearchResult find_markers(const StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings, SpotFitter& fitter);

}  // namespace driftd::clients
