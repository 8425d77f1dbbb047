// SPDX-License-Identifier: MIT
#include "daemon/calibration/sweep_result.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "config/names.hpp"
#include "control/axial/calibration/sweep_analysis.hpp"
#include "daemon/setup/axial_curve.hpp"

namespace driftd::daemon {
namespace {

/// Clients take no text of more than one line.
std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream rest(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

using nlohmann::json;

json value_or_null(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

json result_of(const control::SweepFindings& f, const control::SweepSettings& sweep,
               const config::Config& config) {
  json result = {
      {"axes", "z"},
      {"method", config::text_of(config.axial.method)},
      {"sweep",
       {{"range_nm", sweep.range_nm},
        {"step_nm", sweep.step_nm},
        {"frames", sweep.frames_per_place},
        {"settle_s", sweep.settle_s}}},
      {"stage_gain", config.axial_stage.gain},
      {"gain_known", config.camera.gain_e_per_adu > 0},
      {"predicted_sd_nm", f.predicted_sd_nm},
      {"hysteresis_nm", {{"value", f.hysteresis_nm}, {"sd", f.hysteresis_sd_nm}}},
      {"drift_nm_per_s", f.drift_nm_per_s},
      {"settling_nm", f.settling_nm},
      {"tilt_nm_per_um", nullptr},
      {"tilt_sd_nm_per_um", nullptr},
      {"check_nm", {{sweep.check_nm, f.check_up_nm}, {-sweep.check_nm, f.check_down_nm}}},
      {"gain_by_curve", value_or_null(f.gain_by_curve)},
      {"curve", nullptr},
      {"reflection", nullptr},
      {"warnings", f.warnings}};
  if (f.tilt_nm_per_um) {
    result["tilt_nm_per_um"] = {f.tilt_nm_per_um->x, f.tilt_nm_per_um->y};
    result["tilt_sd_nm_per_um"] = {f.tilt_sd_nm_per_um.x, f.tilt_sd_nm_per_um.y};
  }
  if (f.spot) {
    result["reflection"] = {{"nm_per_px", f.spot->nm_per_px},
                            {"angle_deg", f.spot->angle_deg},
                            {"relative_sd", f.spot->relative_sd},
                            {"off_line_nm", f.spot->off_line_nm},
                            {"noise_nm", f.spot->noise_nm}};
    return result;
  }
  result["curve"] = {{"text", lines_of(control::curve_text(*f.curve))},
                     {"picture", lines_of(f.picture)}};
  result["from_crossing_nm"] = f.from_crossing_nm;
  result["range_nm"] = {f.lower_nm, f.upper_nm};
  result["crossing_sigma_px"] = f.crossing_sigma_px;
  result["scatter_factor"] = f.scatter_factor;
  result["photons"] = f.photons;
  result["marker_sd_nm"] = f.marker_sd_nm;
  result["markers_used"] = f.markers_used;
  result["markers_left_out"] = f.markers_left_out;
  result["heights_nm"] = f.heights_nm;
  result["heights_tilt_nm_per_um"] = f.heights_tilt_nm_per_um;
  result["uneven_nm"] = value_or_null(f.uneven_nm);
  result["wobble_nm"] = f.wobble_nm;
  result["light_change"] = value_or_null(f.light_change);
  return result;
}

}  // namespace

CalibrationResult evaluate(const SweepRun& run, const config::Config& config, int roi_px) {
  const control::SweepSettings& sweep = run.record().plan().settings();
  const control::SweepContext context{
      .method = config.axial.method,
      .fits = curve_fits(config, roi_px),
      .max_drift_nm_per_s = config.axial.max_drift_nm_per_s,
      .stage_gain = config.axial_stage.gain,
      .curve = config.axial.read.get(),
      .source = fmt::format("a sweep of z, {:g} nm each way in steps of {:g} nm", sweep.range_nm,
                            sweep.step_nm)};
  try {
    const control::SweepFindings found = control::analyse_sweep(run.record(), context);
    std::string summary =
        found.spot ? fmt::format("z is {:.3f} nm a pixel at {:.1f} deg", found.spot->nm_per_px,
                                 found.spot->angle_deg)
                   : fmt::format(
                         "z is read from {:.0f} to {:.0f} nm, by {} markers to {:.2f} nm "
                         "in one frame",
                         found.lower_nm, found.upper_nm, found.markers_used, found.predicted_sd_nm);
    return {
        .refusal = {}, .result = result_of(found, sweep, config), .summary = std::move(summary)};
  } catch (const control::CalibrationError& error) {
    return {.refusal = error.what(), .result = nullptr, .summary = {}};
  }
}

}  // namespace driftd::daemon
