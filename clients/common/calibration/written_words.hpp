// SPDX-License-Identifier: MIT
// What is said of a calibration that is written beside the configuration, or is not: the same by
// driftctl and by the page. Pure but for the files that are looked at.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "clients/common/calibration/stage_calibration.hpp"
#include "clients/common/calibration_file.hpp"

namespace driftd::clients {

/// The drop-in may not be written.
class CannotWrite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What can be told before anything is measured or asked: the configuration loads, is of the
/// daemon's camera, and the drop-in may be written.
/// @param status  of the daemon
/// @throws config::ConfigError, CannotWrite, std::runtime_error saying why not
void check_to_write(const CalibrationFile& file, const nlohmann::json& status);

/// A file of what `command` measures on the daemon's camera and stage as they are now, checked
/// likewise.
/// @param name    of the drop-in: kStageFile or kCameraFile
CalibrationFile checked_calibration_file(const std::filesystem::path& config,
                                         const std::string& name, const std::string& command,
                                         const nlohmann::json& status);
constexpr const char* kStageFile = "stage-calibration.yaml";
constexpr const char* kCameraFile = "camera-calibration.yaml";

/// The stage's values as proposed, and that locks need not find out what is known now.
/// @param pixel  as proposed_values() takes it
/// @throws std::runtime_error where the configuration is not what driftd ran with, or nothing is
///   proposed: why
KeyValues values_to_write(const std::filesystem::path& config, const StageCalibration& calibration,
                          const std::optional<PixelSizeQuestion>& pixel);

/// What is told of a calibration whose values the configuration has.
struct Kept {
  std::vector<std::string> lines, keys;
  bool restart;  ///< some of them driftd takes over at its start only
};
/// Whether the configuration has what the calibration proposes, by either explanation of the
/// matrix.
/// @param calibration  of the daemon that runs, so that it was not started since
/// @throws as is_configured()
std::optional<Kept> kept_already(const CalibrationFile& file, const StageCalibration& calibration);

/// What of it driftd takes over at its start only.
std::vector<std::string> restart_keys(const WrittenCalibration& written);

/// Where the values are, which of them have no effect, and, where `how_to_load` is wanted, how
/// driftd takes them over: a sentence each.
std::vector<std::string> written_lines(const CalibrationFile& file, const KeyValues& values,
                                       const std::optional<WrittenCalibration>& written,
                                       bool how_to_load = true);

}  // namespace driftd::clients
