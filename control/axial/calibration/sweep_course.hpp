// SPDX-License-Identifier: MIT
// A sweep in the course of time: whether the sample jumped, how far x and y go with z, and whether
// the start looks again as it did. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/vec2.hpp"
#include "control/axial/calibration/sweep_stage.hpp"

namespace driftd::control {

/// @param value  where the sample is along an axis, less what z makes of that; nm
/// @throws CalibrationError where it jumped
void check_unbroken(const SweepRecord& record, const SweepStage& stage, const char* axis,
                    const PlaceValue& value);

/// The slope of a value over z at a place: by least squares on what it changes by from one place to
/// the next, which a sample that drifts and walks changes little, up and down apart.
struct PlaceSlope {
  double per_nm = 0, sd = 0;
  double per_nm2 = 0;  ///< by how much it changes with z
};
std::optional<PlaceSlope> slope_at(const SweepRecord& record, const SweepStage& stage,
                                   const PlaceValue& value, double z_nm);

/// How unlike the start looks once the stage was told to be back there.
struct StartAgain {
  double off_px = 0, allowed_px = 0;
  bool looks_the_same() const noexcept { return off_px <= allowed_px; }
};
/// @returns nothing where too little was seen of it
std::optional<StartAgain> start_again(const SweepRecord& record);

}  // namespace driftd::control
