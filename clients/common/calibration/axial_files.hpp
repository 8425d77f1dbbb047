// SPDX-License-Identifier: MIT
// What a sweep of z found, as files: the curve and its picture, and the drop-in that names it. All
// are read back; where one cannot be written, or does not read as it should, all are as before.
// Blocking, up to some 10 ms; any thread, one at a time for a configuration.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/calibration_file.hpp"
#include "config/config.hpp"

namespace driftd::clients {

/// Beside the configuration, not in its folder of drop-ins, whose files driftd reads as such.
std::filesystem::path curve_beside(const std::filesystem::path& config);

/// Whether the curve and its picture may be written, as far as can be told before. Leaves nothing
/// behind. @throws std::runtime_error saying why not
void check_curve_writable(const CalibrationFile& file, const std::filesystem::path& curve);

/// @param file    the drop-in, checked
/// @param before  what loaded before the sweep: what was edited since is not written over
/// @param result  of the sweep
/// @param curve   where the curve is to be; empty: none is written, the one until now is right
/// @returns what was written where and how driftd takes it over, a sentence each
/// @throws std::runtime_error saying why not; all is then as it was, or it says what is not
std::vector<std::string> write_sweep(const CalibrationFile& file, const config::Config& before,
                                     const nlohmann::json& result,
                                     const std::filesystem::path& curve);

}  // namespace driftd::clients
