// SPDX-License-Identifier: MIT
// From a fit to what people and the configuration want to know of a stage. Used by
// identify_stage(); any thread.
#pragma once

#include "control/identification/record_data.hpp"
#include "control/identification/stage_identification.hpp"

namespace driftd::control {

/// @param as_likely  other shapes that explain the record as well: the standard deviations of dead
///                   time and response reach to them
StageCalibration describe(const PreparedRecord& prepared, const ResponseFit& fit,
                          const std::vector<ResponseShape>& as_likely,
                          const IdentificationSettings& settings);

}  // namespace driftd::control
