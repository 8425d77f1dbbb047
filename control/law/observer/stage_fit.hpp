// SPDX-License-Identifier: MIT
// How much an axis of the stage differs from its model, from what was seen under control. A fit
// compares the innovations with how they would change if the stage moved farther, or later. Pure;
// worker thread.
#pragma once

#include <vector>

#include "control/law/observer/model_fit.hpp"

namespace driftd::control {

/// One thing in which the stage may differ.
struct StageDoubt {
  std::vector<double> place_nm;  ///< the record's places if it differed by `by`
  double by = 0;
  double sd = 1;    ///< by how much it may differ, as far as was known before
  double most = 1;  ///< more is not found at once
};

/// Which of the record's innovations speak.
enum class StageEvidence {
  Whole,
  /// Takes as instruments (Ljung 1999, sec. 7.6) only what in the slopes is faster than an eighth
  /// of the frame rate and not near a line. A line that drifts, or is not known yet, leaves
  /// innovations that go along with the commands against it, and would be taken for a stage that
  /// moves too little. The innovations themselves stay as they are: the commands know their past.
  BesideLines,
};

/// How much the stage differs, for each doubt; 0 where that is not certain (2.5 standard
/// deviations). Least squares of the innovations, means removed (Ljung 1999, sec. 7.3; the input is
/// what the loop did by itself).
std::vector<double> fit_stage(const PlaceRecord& record, const DisturbanceModel& model,
                              const std::vector<StageDoubt>& doubts,
                              StageEvidence evidence = StageEvidence::Whole);

}  // namespace driftd::control
