// SPDX-License-Identifier: MIT
// What a short record of small moves tells of a stage that is described already, if perhaps
// wrongly: how far and where it moves against its description, its dead time and its response. The
// calibration's fit without its judgements, for records of a second. Pure; any thread; 0.1 to 0.5 s
// of calculation.
#pragma once

#include <array>
#include <optional>

#include "control/identification/stage_record.hpp"
#include "control/stage/stage_model.hpp"

namespace driftd::control {

/// How the image moves for a unit of command, in the axes of the stage as described: 1, 0, 0, 1
/// where the described matrix is right. With standard deviations. Of a record of one axis only xx
/// is measured.
struct SeenGain {
  double xx = 1, xy = 0, yx = 0, yy = 1;
  double xx_sd = 0, xy_sd = 0, yx_sd = 0, yy_sd = 0;

  /// The matrix that makes it 1, 0, 0, 1. @param described  the one that it was seen by
  ImageToStage corrected(const ImageToStage& described) const noexcept;
  /// The largest of the standard deviations.
  double sd() const noexcept;
};

struct StageFinding {
  bool known = false;  ///< else the record does not tell, and the rest is meaningless
  SeenGain gain;
  /// Of a glimpse: by the described response, where that explains the record about as well.
  std::optional<SeenGain> as_described = std::nullopt;
  /// Of a glimpse: what it leaves is noise. Else it is of too few commands to accuse the stage.
  bool explained = true;
  /// As described where that explains the record about as well.
  StageModelSettings stage{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0};
  bool other_matrix = false, other_response = false;  ///< than described
  double delay_sd_us = 0;
  double driver_hz = 0;  ///< corrections a second that the driver takes; 0: all, as far as is seen
  double noise_nm = 0;   ///< of a frame, that the fit leaves; the larger axis of the image
};

/// Of the first moments: only both gains are meant to be used.
StageFinding glimpse_stage(const StageRecord& record, const StageModelSettings& described);
/// Of all of the moves.
StageFinding find_stage(const StageRecord& record, const StageModelSettings& described);

}  // namespace driftd::control
