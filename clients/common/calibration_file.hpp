// SPDX-License-Identifier: MIT
// What a calibration measured, as a drop-in file of driftd's configuration (config/drop_ins.hpp):
// written anew as a whole, the one before kept beside it. No other file is touched. Blocking, up to
// some 10 ms; any thread, one at a time for a configuration.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"

namespace driftd::clients {

/// Key as in docs/reference/configuration.md ("stage.delay_us") and value as YAML on one line
/// ("3100", "[[1, 0], [0, 1]]").
using KeyValues = std::vector<std::pair<std::string, std::string>>;

struct CalibrationFile {
  std::filesystem::path config;      ///< the main file, which --config named
  std::string name;                  ///< in its folder of drop-ins: "stage-calibration.yaml"
  std::string command;               ///< that measured
  std::vector<std::string> subject;  ///< what was measured, for people: "camera: ... SIM01 ..."
  std::string how = "Measured";      ///< or "Chosen"

  std::filesystem::path path() const;
};

struct WrittenCalibration {
  std::filesystem::path old;            ///< where the file before is kept; empty: there was none
  std::vector<std::string> overridden;  ///< "KEY (FILE:LINE)": a later drop-in takes its place
  config::Config before, after;         ///< what loads without and with it
};

/// Whether it may be written, as far as can be told before: rights, room. Leaves nothing behind.
/// @throws std::runtime_error saying why not
void check_writable(const CalibrationFile& file);

/// Whether the configuration has all these values, wherever in it they are given.
/// @throws as write_calibration(), which would write nothing then
bool is_configured(const CalibrationFile& file, const KeyValues& values);

/// Writes the values, and those that the file before had and these are not among. The folder is
/// made where it is missing, with the main file's owner and rights, and so is the file. What is
/// written is a drop-in with which the configuration loads.
/// @returns nothing where the configuration has all the values already: nothing is written then
/// @throws config::ConfigError where the configuration does not load as it is
/// @throws std::runtime_error when it cannot be done; nothing has changed then
std::optional<WrittenCalibration> write_calibration(const CalibrationFile& file,
                                                    const KeyValues& values);

}  // namespace driftd::clients
