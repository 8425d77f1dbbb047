// SPDX-License-Identifier: MIT
// What `calibrate --write` and `calibrate camera --write` share: the question, the drop-in file,
// and what is said of it, on standard error. Main thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/process/stop_signal.hpp"
#include "clients/common/calibration_file.hpp"

namespace driftd::clients {

/// A file of what `command` measures on the daemon's camera and stage as they are now.
/// @param status  of the daemon
CalibrationFile calibration_file(const std::filesystem::path& config, const std::string& name,
                                 const std::string& command, const nlohmann::json& status);

/// Writes the values, after a question where `asks`, and says where they are and how the daemon
/// takes them over. @throws as write_calibration()
void write_and_tell(const CalibrationFile& file, const KeyValues& values, bool asks,
                    StopSignal& stop);

}  // namespace driftd::clients
