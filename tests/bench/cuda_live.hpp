// SPDX-License-Identifier: MIT
// The part of driftd_cuda_bench that measures live fits, beside those of the CPU.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace driftd::bench {

/// By implicit least squares, in every mode. Prints a line a row.
/// @param frames  calls
nlohmann::json measure_live(const std::vector<int>& sides, int frames);

/// By every model and estimator: beads, warm, new noise in every frame, as a lock has them.
nlohmann::json measure_live_estimators(int frames);

}  // namespace driftd::bench
