// SPDX-License-Identifier: MIT
// Is a configuration file that of the daemon which was asked? Values measured are set in no other.
// Pure functions; any thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/config.hpp"

namespace driftd::clients {

struct StageCalibration;

/// @param status  of the daemon; a camera that it does not name is taken for the right one, as is
///   one that the file has by a name of the user's
/// @throws std::runtime_error when the daemon's camera has another address or serial number
void check_same_camera(const config::Config& in_file, const nlohmann::json& status,
                       const std::filesystem::path& file);

/// Pixel size, stage and controller as the file has them beside those that the daemon ran with.
/// @throws std::runtime_error naming all that differ
void check_same_settings(const config::Config& in_file, const StageCalibration& calibration,
                         const std::filesystem::path& file);

}  // namespace driftd::clients
