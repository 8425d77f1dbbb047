// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/write_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>

#include "clients/driftctl/commands/question.hpp"

namespace driftd::clients {
namespace {

std::string how_to_load(const config::Config& before, const config::Config& after) {
  const std::vector<std::string> keys = config::not_reloadable_changes(before, after, true);
  if (keys.empty()) {
    return "driftd takes it over on reload (`systemctl reload driftd`, or SIGHUP) while the lock "
           "is idle.";
  }
  return fmt::format("Restart driftd: it takes over {} at its start only.", fmt::join(keys, ", "));
}

/// Empty where it is no text.
std::string text_at(const nlohmann::json& status, const char* pointer) {
  const nlohmann::json::json_pointer where(pointer);
  return status.contains(where) && status.at(where).is_string() ? status.at(where) : "";
}

}  // namespace

CalibrationFile calibration_file(const std::filesystem::path& config, const std::string& name,
                                 const std::string& command, const nlohmann::json& status) {
  CalibrationFile file{config, name, command, {}};
  const auto add = [&](const char* what, const std::string& found) {
    file.subject.push_back(fmt::format("{}: {}", what, found.empty() ? "not known" : found));
  };
  const std::string description = text_at(status, "/stage_driver/description");
  add("Camera", text_at(status, "/camera/description"));
  add("Stage", text_at(status, "/stage_driver/driver") +
                   (description.empty() ? "" : " (" + description + ')'));
  return file;
}

void write_and_tell(const CalibrationFile& file, const KeyValues& values, bool asks,
                    StopSignal& stop) {
  if (asks && !ask("Write this to " + file.path().string() + "?", stop)) {
    fmt::print(stderr, "Nothing was written.\n");
    return;
  }
  const auto written = write_calibration(file, values);
  if (!written) {
    fmt::print(stderr, "{} has these values already: nothing was written.\n", file.config.string());
    return;
  }
  fmt::print(stderr, "Written to {}{}.\n", file.path().string(),
             written->old.empty() ? "" : "; the one before is " + written->old.string());
  for (const std::string& key : written->overridden)
    fmt::print(stderr,
               "A later drop-in takes the place of {}: what was written of it has no effect.\n",
               key);
  if (written->overridden.size() < values.size())
    fmt::print(stderr, "{}\n", how_to_load(written->before, written->after));
}

}  // namespace driftd::clients
