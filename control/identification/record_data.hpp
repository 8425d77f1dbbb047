// SPDX-License-Identifier: MIT
// From a calibration's record to what is fitted: times from the first frame, frames on a grid,
// commands as a staircase; frames that are far from their neighbours left out. Used by
// identify_stage(); any thread.
#pragma once

#include <cstddef>

#include "control/identification/gain_course.hpp"
#include "control/identification/response_fit.hpp"
#include "control/identification/stage_record.hpp"

namespace driftd::control {

struct PreparedRecord {
  StageVerdictText verdict;  ///< with a refusal the rest is meaningless
  FitData data;              ///< without a noise model
  Vec2 stated_noise_nm;      ///< rms of what the estimator says of its noise; 0: nothing
  double age_s = 0;          ///< median, from the middle of an exposure to the command after it
  Vec2 difference_sd_nm;     ///< between neighbouring frames of the quiet part
  double largest_step_nm = 0;
  double excursion_nm = 0;
  int outliers = 0, missing = 0;
};
/// Frames that a calibration takes at least while the stage moves.
constexpr std::size_t kFewestMoving = 150;
PreparedRecord prepare(const StageRecord& record, std::size_t fewest_moving = kFewestMoving);

/// Autoregressions of an order for both axes, from the slots from `begin` to `end`.
void fit_noise(FitData& data, const std::array<std::vector<double>, 2>& noise, std::size_t order,
               std::size_t begin, std::size_t end);

/// Marks frames whose whitened value is far out in either axis as missing. @return how many
int leave_out_outliers(FitData& data, const std::array<std::vector<double>, 2>& left);

/// A place where the values jump by more than `threshold_nm` and stay there.
struct Jump {
  bool found = false;
  double at_s = 0, by_nm = 0;
};
Jump find_jump(const FitData& data, const std::array<std::vector<double>, 2>& values,
               double threshold_nm);
StageVerdictText refuse_jump(const Jump& jump);

}  // namespace driftd::control
