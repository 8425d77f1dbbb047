// SPDX-License-Identifier: MIT
// Foretells how still the observer will hold an axis of the sample, and why not stiller. It does so
// from the observer's model alone, so that a residual which differs tells that the model is wrong.
// Pure functions of a millisecond; the tuner calls them on its worker thread.
//
// All are mean squares over a frame, in nm^2, of the sample's true place.
#pragma once

#include "control/law/observer/disturbance_filter.hpp"
#include "control/law/observer/stage_preview.hpp"

namespace driftd::control {

/// What is left of an axis, by what it comes from.
struct ResidualForecast {
  double motion_nm2 = 0;   ///< what the sample does before a command can know of it
  double markers_nm2 = 0;  ///< what the noise of the markers' places adds: more light would help
  double stage_nm2 = 0;    ///< the stage's own noise: nothing helps
  double lag_nm2 = 0;      ///< what is foreseen, and the stage does not follow
  /// In so many seconds the stage's noise is told from the markers'; 0: it is now.
  double stage_known_in_s = 0;
  double total_nm2() const noexcept { return motion_nm2 + markers_nm2 + stage_nm2 + lag_nm2; }
};

struct ForecastFacts {
  double lead_s = 0.004;       ///< from the middle of an exposure until its command moves the stage
  double stage_noise_nm2 = 0;  ///< what the model's noise is beyond the fits'
  double more_innovation_nm2 = 0;  ///< mean square of the innovations beyond what the model says
};

/// @param filter  that has just seen a frame
ResidualForecast forecast_residual(const DisturbanceFilter& filter, const StagePreview& preview,
                                   const ForecastFacts& facts);

/// The part that comes from the stage not following what the filter foresees.
double lag_nm2(const DisturbanceFilter& filter, const StagePreview& preview);

}  // namespace driftd::control
