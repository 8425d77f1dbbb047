// SPDX-License-Identifier: MIT
#include "daemon/calibration_result.hpp"

namespace driftd::daemon {

CalibrationResult evaluate(const CalibrationRun&, const CalibrationContext&) {
  return {.refusal = "", .result = nlohmann::json::object(), .summary = "stub"};
}

}  // namespace driftd::daemon
