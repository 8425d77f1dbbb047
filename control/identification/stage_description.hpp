// SPDX-License-Identifier: MIT
// From a fit to what people and the configuration want to know of a stage. Used by
// identify_stage(); any thread.
#pragma once

#include "control/identification/record_data.hpp"
#include "control/identification/stage_identification.hpp"

namespace driftd::control {

StageCalibration describe(const PreparedRecord& prepared, const ResponseFit& fit,
                          const IdentificationSettings& settings);

}  // namespace driftd::control
