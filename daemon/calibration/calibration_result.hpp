// SPDX-License-Identifier: MIT
// What a calibration's record says of the stage, as docs/reference/protocol.md has the reply to
// `calibration`. Evaluating takes seconds: on a thread of its own. Pure.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/loop/calibration_run.hpp"

namespace driftd::daemon {

/// What the evaluation needs beside the record, as it was when the stage was moved.
struct CalibrationContext {
  config::Config config;
  std::vector<std::uint32_t> marker_ids;
  double waiting_us = 0;      ///< Controller::set_waiting_us()
  double driver_late_us = 0;  ///< the driver had a move done only then, unusually; 0: none so late
  std::uint64_t driver_ignored = 0;  ///< corrections
};

struct CalibrationResult {
  std::string refusal;    ///< why the record says nothing of the stage; empty: it does
  nlohmann::json result;  ///< null with a refusal
  std::string summary;    ///< one line of it
};

/// What else than the stage may be at fault where the record says what it does; empty: nothing.
std::string strain_text(const CalibrationStrain& strain, double driver_late_us,
                        std::uint64_t driver_ignored);

/// @param cancelled  set by another thread: the result is not wanted any more
CalibrationResult evaluate(const CalibrationRun& run, const CalibrationContext& context,
                           const std::atomic<bool>& cancelled);

/// Whether a result proposes for the stage what `after` does not have, by either explanation of the
/// matrix (another stage, or another pixel size than `before`'s), beyond what writing rounds.
bool proposes_else(const nlohmann::json& result, const config::Config& before,
                   const config::Config& after);

}  // namespace driftd::daemon
