// SPDX-License-Identifier: MIT
// The stage's gains stretch by stretch through a record: whether it answered in the same way all
// the time, and if not, what it did. It also finds where to start the fit of the response, since
// gains of short stretches forgive a stage that changes. Used by identify_stage(); any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "control/identification/response_fit.hpp"

namespace driftd::control {

/// Why a record says nothing about a stage.
enum class StageRefusal : std::uint8_t {
  None,
  TooFewFrames,
  TooLittleMotion,  ///< the commands hardly moved
  StageDead,        ///< neither axis moves the image
  AxisDead,
  Unresolved,  ///< it moves, but by less than the noise lets one measure
  Reversed,    ///< an axis changed its direction
  Swapped,     ///< the axes changed places, or the stage turned
  Stuck,       ///< it stood still for part of the time
  GainChanged,
  Parallel,   ///< both axes move the image along one line
  Slow,       ///< it moves no faster than it was seen to
  NotLinear,  ///< it moves, but not as it is told
  Jumped,     ///< the image jumped
  Cancelled,  ///< the evaluation was: IdentificationSettings::cancelled
};
const char* name_of(StageRefusal refusal) noexcept;

struct StageVerdictText {
  StageRefusal refusal = StageRefusal::None;
  std::string text;  ///< what was found and what to check, for people
};

/// The gains of a stretch of the record.
struct StretchGain {
  double begin_s = 0, end_s = 0;
  std::array<Vec2, 2> gain;       ///< [stage axis]: nm in the image per nm commanded
  std::array<double, 2> sd = {};  ///< [stage axis], of either component
  double unexplained = 0;         ///< share of the motion that the gains leave, noise aside
};
struct GainCourse {
  std::vector<StretchGain> stretches;
  double chi_square = 0;
  /// Median over the stretches. More than a tenth or so is no linear motion.
  double unexplained() const;
};
/// Gains of stretches of about `shortest_s`, or longer of a slow camera, at a given shape.
GainCourse course_of(const FitData& data, const ResponseShape& shape, double shortest_s);
/// The shape of second order that explains most, by a search over dead times and frequencies.
ResponseShape search_shape(const FitData& data, double stretch_s);

/// Whether the stage answered alike all the time.
StageVerdictText judge_course(const GainCourse& course);

}  // namespace driftd::control
