// SPDX-License-Identifier: MIT
// The picture of a stage's step response, measured and modelled, as an SVG that stands alone.
// Pure functions; no file.
#pragma once

#include <string>

#include "clients/common/calibration/stage_calibration.hpp"

namespace driftd::clients {

/// Points that are not finite part a curve.
/// @param caption  below the title; any text
/// @throws std::runtime_error where there are fewer than two points in time, or another number of
///   points than times in one of the curves
std::string draw_step_response(const StepResponse& response, const std::string& caption);

}  // namespace driftd::clients
