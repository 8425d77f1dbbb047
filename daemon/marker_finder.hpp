// SPDX-License-Identifier: MIT
// Markers in a frame, found without being told: candidates, a batch fit of each, judgement.
// Not real time; housekeeping thread.
#pragma once

#include <span>

#include "camera/frame.hpp"
#include "control/marker_detection.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// @param pixels  the frame's width * height values, row-major
control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options);

}  // namespace driftd::daemon
