// SPDX-License-Identifier: MIT
// A stage that moves no faster than its controller lets it answers no linear model. Used by
// identify_stage(); any thread.
#pragma once

#include "control/identification/gain_course.hpp"
#include "control/identification/response_fit.hpp"

namespace driftd::control {

/// Whether a bound on the stage's speed explains what does not fit.
/// @param linear  the best shape without a bound
StageVerdictText judge_speed(const FitData& data, const ResponseShape& linear);

}  // namespace driftd::control
