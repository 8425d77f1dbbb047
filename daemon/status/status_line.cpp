// SPDX-License-Identifier: MIT
#include "daemon/status/status_line.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/in_words.hpp"

namespace driftd::daemon {

std::string status_line(const nlohmann::json& status) {
  const auto& camera = status.at("camera");
  const auto& markers = status.at("markers");
  const auto& drift = status.at("drift");
  const auto& record = status.at("record");
  const std::string unrecorded = record.at("problem");
  std::string rest = record.at("recording").get<bool>() ? ", recording" : "";
  if (rest.empty() && !unrecorded.empty()) rest = ", nothing is recorded: " + unrecorded;
  std::string line = status.at("state");
  const std::string reason =
      driftd::in_words(status.at("reason"), status.at("held_for"), status.at("held_first"));
  if (reason != "none") line += " (" + reason + ')';
  const std::string problem = camera.at("problem");
  if (!camera.at("connected").get<bool>()) {
    return line + ": no camera" + (problem.empty() ? "" : ", " + problem) + rest;
  }
  if (camera.at("rate_hz").is_null()) return line + ": no frames come from the camera" + rest;
  if (markers.at("tracking") == 0) {
    line += ": no markers";
  } else if (markers.at("used").is_null()) {
    line += ": markers are looked for";
  } else {
    line += fmt::format(": {} of {}", markers.at("used").get<int>(),
                        counted(markers.at("tracking").get<int>(), "marker"));
  }
  if (status.at("state") == "locked" && !drift.at("rms_x_nm").is_null()) {
    line += fmt::format(", drift {:.1f} / {:.1f} nm rms", drift.at("rms_x_nm").get<double>(),
                        drift.at("rms_y_nm").get<double>());
  }
  return line + fmt::format(", {:.0f} frames/s", camera.at("rate_hz").get<double>()) + rest;
}

}  // namespace driftd::daemon
