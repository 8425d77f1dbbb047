// SPDX-License-Identifier: MIT
// What a lock would leave: the controller itself against a stage as identified and the drift as
// recorded, frame by frame. Used by identify_stage(); any thread.
#pragma once

#include <array>
#include <vector>

#include "control/identification/stage_response.hpp"
#include "control/law/controller.hpp"

namespace driftd::control {

/// What the lock meets. Image axes unless said otherwise.
struct LoopWorld {
  std::array<std::vector<double>, 2> drift_nm;  ///< as measured, noise included, a value a frame
  Vec2 noise_nm;                                ///< rms of the measurement noise in it
  double period_s = 0, exposure_s = 0, age_s = 0;
  ResponseShape shape;
  std::array<Vec2, 2> gain;  ///< [stage axis]: nm in the image per nm commanded
};

/// Residual rms per axis, measurement noise taken off. The recorded noise is in what the loop
/// measures, as it would be in the next record: a stage with dead time moves by noise of frames
/// before only, so the mean square of what is measured is that of residual and noise together.
double forecast_residual_nm(const LoopWorld& world, const ControllerSettings& settings);

/// The dead time and first-order response nearest to a shape: the same lag of a slow motion, and
/// the least difference of the step responses.
struct ReducedResponse {
  double delay_s = 0, time_constant_s = 0;
  double wrong_s = 0;  ///< what it has wrong of a unit step, squared, until it has settled
};
ReducedResponse reduce(const ResponseShape& shape);

/// The gains with the least residual; of those that are hardly worse, the smallest. Limits, matrix
/// and stage are those of `settings`; @returns settings with gains.
ControllerSettings choose_gains(const LoopWorld& world, ControllerSettings settings);

}  // namespace driftd::control
