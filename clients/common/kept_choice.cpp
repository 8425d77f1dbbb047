// SPDX-License-Identifier: MIT
#include "clients/common/kept_choice.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <stdexcept>

namespace driftd::clients {
namespace {

using nlohmann::json;

/// Empty where it is no text.
std::string text_at(const json& status, const char* pointer) {
  const json::json_pointer where(pointer);
  return status.contains(where) && status.at(where).is_string() ? status.at(where) : "";
}

std::optional<double> number_at(const json& value, const char* pointer) {
  const json::json_pointer where(pointer);
  if (!value.contains(where) || !value.at(where).is_number()) return std::nullopt;
  return value.at(where).get<double>();
}

}  // namespace

CalibrationFile calibration_file(const std::filesystem::path& config, const std::string& name,
                                 const std::string& command, const json& status) {
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

CalibrationFile markers_file(const std::filesystem::path& config, const std::string& command,
                             const json& status) {
  CalibrationFile file = calibration_file(config, "markers.yaml", command, status);
  file.how = "Chosen";
  return file;
}

CalibrationFile exposure_file(const std::filesystem::path& config, const std::string& command,
                              const json& status) {
  CalibrationFile file = calibration_file(config, "exposure.yaml", command, status);
  file.how = "Chosen";
  return file;
}

KeyValues markers_to_keep(const json& reply, const json& status) {
  if (!reply.value("chosen", false))
    throw std::runtime_error(
        "no markers were chosen: driftd finds or lists them as it is configured. Nothing was "
        "written");
  std::vector<std::string> list;
  for (const json& marker : reply.at("markers")) {
    const auto x = number_at(marker, "/x_px"), y = number_at(marker, "/y_px");
    const auto id = marker.at("id").get<std::uint32_t>();
    if (!x || !y)
      throw std::runtime_error(fmt::format(
          "no frame shows marker {} now, so its place is not known. Nothing was written", id));
    list.push_back(fmt::format("{{id: {}, x_px: {:.2f}, y_px: {:.2f}, role: {}}}", id, *x, *y,
                               marker.at("role").get<std::string>()));
  }
  KeyValues values = {{"markers.mode", "list"},
                      {"markers.list", fmt::format("[{}]", fmt::join(list, ", "))}};
  // Nobody looks at an image for the size of spots that are listed.
  if (const auto sigma_px = number_at(status, "/fitter/spot_sigma_px")) {
    values.emplace_back("optics.spot_sigma_px", fmt::format("{:.3g}", *sigma_px));
    if (const auto roi_px = number_at(status, "/fitter/roi_px"))
      values.emplace_back("fitter.roi_px", fmt::format("{:.0f}", *roi_px));
  }
  return values;
}

KeyValues exposure_to_keep(const json& reply) {
  KeyValues values;
  if (const auto us = number_at(reply, "/exposure/exposure_us"))
    values.emplace_back("camera.exposure_us", fmt::format("{:.8g}", *us));
  if (const auto db = number_at(reply, "/exposure/gain_db"))
    values.emplace_back("camera.gain_db", fmt::format("{:.4g}", *db));
  if (values.empty())
    throw std::runtime_error("the camera tells neither exposure nor gain: nothing was written");
  return values;
}

}  // namespace driftd::clients
