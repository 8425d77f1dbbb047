// SPDX-License-Identifier: MIT
// Checks that every back end makes before it starts.
#pragma once

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// @throws FitterError outside kMinRoiPx .. kMaxRoiPx
void check_roi_px(int roi_px);

/// @throws FitterError for a setting outside its range
void check_options(const FitOptions& options);

}  // namespace driftd::fitter
