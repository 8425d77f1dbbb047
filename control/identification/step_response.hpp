// SPDX-License-Identifier: MIT
// A stage's response to a unit step as the frames show it, without a model of it: straight lines
// between knots, at least a frame apart. Used by identify_stage(); any
// thread.
#pragma once

#include <array>

#include "control/identification/response_fit.hpp"
#include "control/identification/stage_identification.hpp"

namespace driftd::control {

/// @param fit      with the gains that turn the image's motion into the stage's
/// @param inverse  image displacement to stage displacement, of that fit
/// @param age_s    from the middle of an exposure to the command after it: the knots lie where
///                 frames show a step
StepResponse measure_step_response(const FitData& data, const ResponseFit& fit,
                                   const ImageToStage& inverse, double age_s);

}  // namespace driftd::control
