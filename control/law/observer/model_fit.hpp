// SPDX-License-Identifier: MIT
// Finds the DisturbanceModel under which a record of places is most likely. Pure functions for a
// worker thread: milliseconds, with allocations.
//
// The likelihood is that of the filter's innovations (Ljung 1999, System Identification, sec. 7.4):
// with the noise's variance eliminated, -N/2 log of their mean square. It is maximised by Levenberg
// and Marquardt's method; lines are proposed by peaks in the innovations' spectrum.
#pragma once

#include <cstddef>
#include <vector>

#include "control/law/observer/disturbance_model.hpp"

namespace driftd::control {

/// Places at about even intervals.
struct PlaceRecord {
  double period_s = 0.002;             ///< their mean
  std::vector<double> step_s;          ///< since the place before; empty: period_s each
  std::vector<double> place_nm;        ///< not a number: missing
  std::vector<double> more_noise_nm2;  ///< beside `place_nm`: as of DisturbanceFilter::update()
  std::size_t judged_from = 0;         ///< innovations before are not counted
};

struct FittedModel {
  DisturbanceModel model;     ///< tracked frequencies as they are at the end
  DisturbanceModel start;     ///< the same with those at the beginning
  double log_likelihood = 0;  ///< against others over the same record
  double innovation_nm2 = 0;  ///< mean square of the innovations
};

/// A model whose tracked frequencies are those at the record's end, with them tracked back to its
/// beginning.
DisturbanceModel at_beginning(const PlaceRecord& record, const DisturbanceModel& model);

/// How likely the record is under a model, whose variances are scaled to fit.
FittedModel judge_model(const PlaceRecord& record, const DisturbanceModel& model);

/// The filter's innovations (nm) from the record's judged part on, 0 where a place is missing;
/// those of its start are weighed as if its gains had settled.
std::vector<double> innovations_nm(const PlaceRecord& record, const DisturbanceModel& model);

/// The best model that is found from `start` on: lines are moved, added and dropped.
/// @param start  tracked frequencies as they are at the record's end
FittedModel fit_model(const PlaceRecord& record, const DisturbanceModel& start);

}  // namespace driftd::control
