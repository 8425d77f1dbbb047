// SPDX-License-Identifier: MIT
#include "clients/common/calibration/written_words.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/calibration/same_instrument.hpp"
#include "clients/common/kept_choice.hpp"
#include "config/options.hpp"

namespace driftd::clients {
namespace {

std::string loading_of(const std::vector<std::string>& at_start) {
  if (at_start.empty()) {
    return "driftd takes it over on reload (`systemctl reload driftd`, or SIGHUP) while the lock "
           "is idle.";
  }
  return fmt::format("Restart driftd: it takes over {} at its start only.",
                     fmt::join(at_start, ", "));
}

/// As proposed, and that locks need not find out what is known now.
KeyValues values_to_keep(const StageCalibration& calibration,
                         const std::optional<PixelSizeQuestion>& pixel) {
  KeyValues values = proposed_values(calibration, pixel);
  if (!values.empty()) values.emplace_back("stage.acquaint", "held");
  return values;
}

}  // namespace

void check_to_write(const CalibrationFile& file, const nlohmann::json& status) {
  const config::Config in_file = config::load(file.config);
  try {
    check_writable(file);
  } catch (const std::runtime_error& error) {
    throw CannotWrite(error.what());
  }
  check_same_camera(in_file, status, file.config);
}

CalibrationFile checked_calibration_file(const std::filesystem::path& config,
                                         const std::string& name, const std::string& command,
                                         const nlohmann::json& status) {
  CalibrationFile file = calibration_file(config, name, command, status);
  check_to_write(file, status);
  return file;
}

KeyValues values_to_write(const std::filesystem::path& config, const StageCalibration& calibration,
                          const std::optional<PixelSizeQuestion>& pixel) {
  check_same_settings(config::load(config), calibration, config);
  KeyValues values = values_to_keep(calibration, pixel);
  if (values.empty()) {
    const std::string why = why_not_proposed(calibration);
    throw std::runtime_error("nothing is proposed" + (why.empty() ? "" : ": " + why) +
                             "; nothing was written");
  }
  return values;
}

std::optional<Kept> kept_already(const CalibrationFile& file, const StageCalibration& calibration) {
  for (const auto& pixel : {std::optional<PixelSizeQuestion>(), pixel_size_question(calibration)}) {
    const KeyValues values = values_to_keep(calibration, pixel);
    if (values.empty() || !is_configured(file, values)) continue;
    std::vector<std::string> keys, at_start;
    for (const auto& [key, value] : values) keys.push_back(key);
    for (const std::string& key : keys)
      if (config::find_option(key)->rules.reload == config::Reload::Restart)
        at_start.push_back(key);
    Kept kept{{fmt::format("{} has these values already.", file.config.string())},
              std::move(keys),
              !at_start.empty()};
    if (kept.restart) kept.lines.push_back(loading_of(at_start));
    return kept;
  }
  return std::nullopt;
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
    lines.push_back(loading_of(restart_keys(*written)));
  return lines;
}

}  // namespace driftd::clients
