// SPDX-License-Identifier: MIT
#include "clients/common/calibration/axial_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "base/yaml/scalar.hpp"
#include "config/options.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

std::optional<double> number_in(const json& result, const char* key) {
  const auto found = result.find(key);
  if (found == result.end() || found->is_null()) return std::nullopt;
  return found->get<double>();
}

void add_curve_lines(const json& result, std::vector<std::string>& lines) {
  const double at_nm = result.at("from_crossing_nm").get<double>();
  const bool astigmatic = result.at("method").get<std::string>() == "astigmatic";
  lines.push_back(fmt::format(
      "markers                {} used{}", result.at("markers_used").get<int>(),
      result.at("markers_left_out").get<int>() > 0
          ? fmt::format(", {} left out: not seen throughout, or widths of another slope",
                        result.at("markers_left_out").get<int>())
          : ""));
  lines.push_back(fmt::format("{:<23}sigma {:.3f} px, {:.0f} nm {} the sample's place now",
                              astigmatic ? "crossing" : "focus",
                              result.at("crossing_sigma_px").get<double>(), std::abs(at_nm),
                              at_nm > 0 ? "below" : "above"));
  lines.push_back(fmt::format("z is read              from {:.0f} to {:.0f} nm of {}",
                              result.at("range_nm").at(0).get<double>(),
                              result.at("range_nm").at(1).get<double>(),
                              astigmatic ? "the crossing" : "the focus"));
  lines.push_back(fmt::format(
      "noise of a marker      {:.1f} nm in one frame at {:.0f} {}, {:.2f} times what its fit tells",
      result.at("marker_sd_nm").get<double>(), result.at("photons").get<double>(),
      result.at("gain_known").get<bool>() ? "photons" : "counts",
      result.at("scatter_factor").get<double>()));
  lines.push_back(fmt::format("heights                {:.0f} nm rms, tilted by {:.1f} nm/um",
                              result.at("heights_nm").get<double>(),
                              result.at("heights_tilt_nm_per_um").get<double>()));
  if (const auto off = number_in(result, "uneven_nm"))
    lines.push_back(fmt::format("evenness               {:.1f} nm rms of the steps", *off));
  lines.push_back(fmt::format("sideways               {:.1f} nm, a marker by itself within 100 nm",
                              result.at("wobble_nm").get<double>()));
  if (const auto change = number_in(result, "light_change"))
    lines.push_back(
        fmt::format("light                  {:+.1f} % from begin to end", 100 * *change));
}

void add_spot_lines(const json& spot, std::vector<std::string>& lines) {
  lines.push_back(
      fmt::format("reflected spot         {:.3f} nm of z a pixel, to {:.1f} %, at {:.1f} deg",
                  spot.at("nm_per_px").get<double>(), 100 * spot.at("relative_sd").get<double>(),
                  spot.at("angle_deg").get<double>()));
  lines.push_back(fmt::format("straightness           {:.1f} nm rms about a line",
                              spot.at("off_line_nm").get<double>()));
}

std::string real(double value, int digits) {
  return yaml::format_real(std::stod(fmt::format("{:.{}g}", value, digits)));
}

}  // namespace

std::vector<std::string> axial_findings(const json& result) {
  std::vector<std::string> lines;
  const json spot = result.value("reflection", json());
  if (spot.is_object())
    add_spot_lines(spot, lines);
  else
    add_curve_lines(result, lines);
  lines.push_back(fmt::format("noise of z             {:.2f} nm in one frame, as a lock sees it",
                              result.at("predicted_sd_nm").get<double>()));
  const json& hysteresis = result.at("hysteresis_nm");
  lines.push_back(fmt::format("hysteresis             {:+.1f} +- {:.1f} nm, down less up",
                              hysteresis.at("value").get<double>(),
                              hysteresis.at("sd").get<double>()));
  lines.push_back(fmt::format("drift meanwhile        {:+.2f} nm/s, taken out",
                              result.at("drift_nm_per_s").get<double>()));
  if (const json tilt = result.value("tilt_nm_per_um", json()); tilt.is_array())
    lines.push_back(
        fmt::format("tilt of the stage      {:+.1f} +- {:.1f} nm in x and {:+.1f} +- {:.1f} nm in "
                    "y for 1 um of z",
                    tilt.at(0).get<double>(), result.at("tilt_sd_nm_per_um").at(0).get<double>(),
                    tilt.at(1).get<double>(), result.at("tilt_sd_nm_per_um").at(1).get<double>()));
  for (const json& check : result.at("check_nm"))
    lines.push_back(fmt::format("step of {:+.0f} nm         read as {:+.1f} nm",
                                check.at(0).get<double>(), check.at(1).get<double>()));
  if (const auto gain = number_in(result, "gain_by_curve"))
    lines.push_back(
        fmt::format("axial.stage.gain       {:.3g} by the curve until now, {:.3g} is configured",
                    *gain, result.at("stage_gain").get<double>()));
  for (const json& warning : result.at("warnings"))
    lines.push_back("warning: " + warning.get<std::string>());
  return lines;
}

KeyValues axial_values(const json& result, const std::string& curve) {
  const json spot = result.value("reflection", json());
  KeyValues values;
  if (spot.is_object()) {
    values.emplace_back("axial.reflection.nm_per_px", real(spot.at("nm_per_px").get<double>(), 5));
    values.emplace_back("axial.reflection.angle_deg", real(spot.at("angle_deg").get<double>(), 4));
  } else {
    values.emplace_back("axial.curve", config::to_yaml(*config::find_option("axial.curve"),
                                                       std::filesystem::path(curve)));
  }
  values.emplace_back("axial.stage.gain", real(result.at("stage_gain").get<double>(), 6));
  return values;
}

KeyValues gain_by_curve(const json& result) {
  const auto gain = number_in(result, "gain_by_curve");
  if (!gain)
    throw std::runtime_error(
        "the sweep does not tell the stage's gain: there was no curve to read it by");
  return {{"axial.stage.gain", real(*gain, 4)}};
}

CurveTexts curve_texts(const json& result) {
  const json curve = result.value("curve", json());
  if (!curve.is_object()) return {};
  const auto text_of = [&](const char* name) {
    std::string text;
    for (const json& line : curve.at(name)) text += line.get<std::string>() + "\n";
    return text;
  };
  return {text_of("text"), text_of("picture")};
}

}  // namespace driftd::clients
