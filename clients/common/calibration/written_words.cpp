// SPDX-License-Identifier: MIT
#include "clients/common/calibration/written_words.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/calibration/same_instrument.hpp"
#include "clients/common/kept_choice.hpp"

namespace driftd::clients {
namespace {

std::string loading_of(const WrittenCalibration& written) {
  const std::vector<std::string> keys = restart_keys(written);
  if (keys.empty()) {
    return "driftd takes it over on reload (`systemctl reload driftd`, or SIGHUP) while the lock "
           "is idle.";
  }
  return fmt::format("Restart driftd: it takes over {} at its start only.", fmt::join(keys, ", "));
}

}  // namespace

CalibrationFile checked_calibration_file(const std::filesystem::path& config,
                                         const std::string& name, const std::string& command,
                                         const nlohmann::json& status) {
  const config::Config in_file = config::load(config);
  CalibrationFile file = calibration_file(config, name, command, status);
  try {
    check_writable(file);
  } catch (const std::runtime_error& error) {
    throw CannotWrite(error.what());
  }
  check_same_camera(in_file, status, config);
  return file;
}

KeyValues values_to_write(const std::filesystem::path& config, const StageCalibration& calibration,
                          const std::optional<PixelSizeQuestion>& pixel) {
  check_same_settings(config::load(config), calibration, config);
  KeyValues values = proposed_values(calibration, pixel);
  if (values.empty()) {
    const std::string why = why_not_proposed(calibration);
    throw std::runtime_error("nothing is proposed" + (why.empty() ? "" : ": " + why) +
                             "; nothing was written");
  }
  values.emplace_back("stage.acquaint", "held");
  return values;
}

std::vector<std::string> restart_keys(const WrittenCalibration& written) {
  return config::not_reloadable_changes(written.before, written.after, true);
}

std::vector<std::string> written_lines(const CalibrationFile& file, const KeyValues& values,
                                       const std::optional<WrittenCalibration>& written,
                                       bool how_to_load) {
  if (!written)
    return {fmt::format("{} has these values already: nothing was written.", file.config.string())};
  std::vector<std::string> lines = {
      fmt::format("Written to {}{}.", file.path().string(),
                  written->old.empty() ? "" : "; the one before is " + written->old.string())};
  for (const std::string& key : written->overridden)
    lines.push_back(fmt::format(
        "A later drop-in takes the place of {}: what was written of it has no effect.", key));
  if (how_to_load && written->overridden.size() < values.size())
    lines.push_back(loading_of(*written));
  return lines;
}

}  // namespace driftd::clients
