// SPDX-License-Identifier: MIT
// What a sweep of z says, as docs/reference/protocol.md has the reply to `calibration`. Pure; takes
// up to some hundred milliseconds: on a thread of its own.
#pragma once

#include "config/config.hpp"
#include "daemon/calibration/calibration_result.hpp"
#include "daemon/loop/sweep_run.hpp"

namespace driftd::daemon {

/// @param config  as it was when the stage was moved; @param roi_px  side of the markers' ROIs
CalibrationResult evaluate(const SweepRun& run, const config::Config& config, int roi_px);

}  // namespace driftd::daemon
