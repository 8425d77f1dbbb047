// SPDX-License-Identifier: MIT
// What somebody chose of a running daemon, as drop-in files of its configuration: its markers, and
// the camera's exposure and gain. From what the daemon says of itself. Pure but for the reading of
// the configuration; any thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/calibration_file.hpp"

namespace driftd::clients {

/// A file of what was measured or chosen by `command` on the daemon's camera and stage as they are
/// now.
/// @param status  of the daemon
CalibrationFile calibration_file(const std::filesystem::path& config, const std::string& name,
                                 const std::string& command, const nlohmann::json& status);
/// FILE.d/markers.yaml and FILE.d/exposure.yaml.
CalibrationFile markers_file(const std::filesystem::path& config, const std::string& command,
                             const nlohmann::json& status);
CalibrationFile exposure_file(const std::filesystem::path& config, const std::string& command,
                              const nlohmann::json& status);

/// The markers as a list, and the size of their spots where the image told it.
/// @param reply  of `markers`; @param status  of the daemon; both of now
/// @throws std::runtime_error where nobody chose any, or they are no list to lock by
KeyValues markers_to_keep(const nlohmann::json& reply, const nlohmann::json& status);
/// @param reply  of `exposure`. @throws std::runtime_error where it tells nothing to keep
KeyValues exposure_to_keep(const nlohmann::json& reply);

}  // namespace driftd::clients
