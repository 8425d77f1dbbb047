// SPDX-License-Identifier: MIT
// Spots in a whole frame, found without being told where: candidates and a batch fit of each; and
// what housekeeping makes of them: new markers, or the markers it knows, found again. Not real
// time; housekeeping thread.
#pragma once

#include <span>
#include <vector>

#include "camera/frame.hpp"
#include "control/constellation.hpp"
#include "control/marker_detection.hpp"
#include "daemon/records.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// @param pixels  the frame's width * height values, row-major
control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options);

/// Where the tracking markers of `known` are now.
/// @param frame, pixels, detection, options  as above
/// @param settings  its field is set here, from the frame and the ROI's side
control::ConstellationMatch find_markers_again(const MarkersReport& known,
                                               const camera::Frame& frame,
                                               std::span<const std::uint16_t> pixels,
                                               const control::DetectionSettings& detection,
                                               const fitter::FitOptions& options,
                                               control::ConstellationSettings settings);

}  // namespace driftd::daemon
