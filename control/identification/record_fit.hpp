// SPDX-License-Identifier: MIT
// What a calibration and an acquaintance with the stage have in common: from a prepared record, and
// a shape that is about right, to the response that explains it best and the noise that is left.
// Any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "control/identification/record_data.hpp"
#include "control/identification/response_fit.hpp"

namespace driftd::control {

constexpr int kFitRounds = 25, kFewFitRounds = 6;
constexpr std::size_t kNoiseOrder = 60;

/// By how much a response of second order lags behind a ramp, the dead time apart.
double lag_of(const ResponseShape& shape);

/// Fits from several shapes of about the same lag, fast after a long dead time and slow after a
/// short one, best first: where frames come seldom, one looks almost like another, and the sum of
/// squares has several valleys.
/// @param any_lag  from shapes of all lags up to that of `found` and beyond: a search by few frames
///                 may have missed the valley
std::vector<ResponseFit> fit_from_several(const FitData& data, const ResponseShape& found,
                                          bool any_lag = false);

struct SettledFit {
  ResponseFit fit;
  std::vector<ResponseShape> as_likely;  ///< what other valleys of the sum of squares hold
};
/// Noise and response by turns, until outliers and noise model are settled.
/// @param most_order  of the noise model, where there are frames enough
SettledFit settle(PreparedRecord& prepared, ResponseFit fit, bool any_lag = false,
                  std::size_t most_order = kNoiseOrder);
/// First order only where it explains as much: where frames come too seldom to tell, the second is
/// the better guess, held by what is known of damping.
ResponseFit with_simplest_order(const FitData& data, ResponseFit fit);

}  // namespace driftd::control
