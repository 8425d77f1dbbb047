// SPDX-License-Identifier: MIT
// What a sweep of z found, as files: the curve and its picture, and the drop-in that names it. All
// are read back; where one cannot be written, or does not read as it should, all are as before.
// Blocking, up to some 10 ms; any thread, one at a time for a configuration.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clients/common/calibration_file.hpp"
#include "config/config.hpp"

namespace driftd::clients {

/// Beside the configuration, not in its folder of drop-ins, whose files driftd reads as such.
std::filesystem::path curve_beside(const std::filesystem::path& config);

/// Whether the curve and its picture may be written, as far as can be told before. Leaves nothing
/// behind. @throws CannotWrite saying why not
void check_curve_writable(const CalibrationFile& file, const std::filesystem::path& curve);

/// What the configuration is to have. @param curve  as write_sweep() takes it
/// @throws std::runtime_error where the sweep does not tell it
KeyValues sweep_values(const std::filesystem::path& config, const nlohmann::json& result,
                       const std::filesystem::path& curve);

/// What the configuration has of a sweep already.
struct KeptSweep {
  std::string line;  ///< which, for people
  std::vector<std::string> keys;
};
/// Its curve, in whichever file, and its values; or the gain by the curve until now, where that is
/// another one than it was swept with. @throws as is_configured()
std::optional<KeptSweep> kept_sweep(const CalibrationFile& file, const nlohmann::json& result);

/// What is to be written, and the method and gain that the sweep was made with, are as they were.
/// @param before, curve  as write_sweep() takes them
/// @throws std::runtime_error naming all that are not, with what helps
void check_not_edited(const CalibrationFile& file, const config::Config& before,
                      const nlohmann::json& result, const std::filesystem::path& curve);

struct WrittenSweep {
  std::vector<std::string> lines;  ///< what was written where, a sentence each
  bool changed;                    ///< some file is another one, which a reload takes over
};

/// @param file    the drop-in, checked
/// @param before  what loaded before the sweep: what was edited since is not written over
/// @param result  of the sweep
/// @param curve   where the curve is to be; empty: none is written, the one until now is right
/// @param how_to_load  say how driftd takes it over, too
/// @throws std::runtime_error saying why not; all is then as it was, or it says what is not
WrittenSweep write_sweep(const CalibrationFile& file, const config::Config& before,
                         const nlohmann::json& result, const std::filesystem::path& curve,
                         bool how_to_load = true);

}  // namespace driftd::clients
