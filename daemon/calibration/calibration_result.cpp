// SPDX-License-Identifier: MIT
#include "daemon/calibration/calibration_result.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.hpp"
#include "control/identification/stage_identification.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

using control::ImageToStage;
using control::StageCalibration;
using control::StageProposal;
using control::Vec2;
using nlohmann::json;

json number(const std::optional<double>& value) {
  return number_or_null(value.value_or(0), value.has_value());
}

json pair(Vec2 v) {
  return json::array({number_or_null(v.x), number_or_null(v.y)});
}

json matrix(const ImageToStage& m) {
  return json::array({pair({m.a, m.b}), pair({m.c, m.d})});
}

json list(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) list.push_back(number_or_null(value));
  return list;
}

/// What the configuration would say: the model adds by itself what commands wait for their turn.
json stage_json(const StageProposal& proposal, double waiting_us) {
  return {{"image_to_stage", matrix(proposal.image_to_stage)},
          {"delay_us", number_or_null(std::max(0.0, proposal.delay_us - waiting_us))},
          {"time_constant_us", number_or_null(proposal.time_constant_us)},
          {"resonance_hz", number_or_null(proposal.resonance_hz)},
          {"damping", number_or_null(proposal.damping)}};
}

json control_json(const StageProposal& proposal) {
  return {{"integral", number_or_null(proposal.integral)},
          {"proportional", number_or_null(proposal.proportional)}};
}

json result_json(const StageCalibration& c, const CalibrationRun& run,
                 const CalibrationContext& context) {
  json markers = json::array();
  for (std::size_t i = 0; i < context.marker_ids.size(); ++i) {
    markers.push_back(
        {{"id", context.marker_ids[i]}, {"noise_nm", number_or_null(run.marker_noise_nm(i))}});
  }
  json present = stage_json(c.present, context.waiting_us);
  present.update(control_json(c.present));
  present["residual_nm"] = number_or_null(c.present.residual_nm);
  return {{"excursion_nm", run.settings().excursion_nm},
          {"seconds", number_or_null(c.seconds)},
          {"samples", c.samples},
          {"outliers", c.outliers},
          {"missing", c.missing},
          {"image_to_stage", matrix(c.image_to_stage)},
          {"image_to_stage_sd", matrix(c.image_to_stage_sd)},
          {"mirrored", c.mirrored},
          {"rotation_deg", number_or_null(c.rotation_deg)},
          {"scale", pair(c.scale)},
          {"scale_sd", pair(c.scale_sd)},
          {"cross_talk", pair(c.cross_talk)},
          {"cross_talk_sd", pair(c.cross_talk_sd)},
          {"delay_us", number_or_null(c.delay_us)},
          {"delay_sd_us", number_or_null(c.delay_sd_us)},
          {"order", c.order},
          {"time_constant_us", number(c.time_constant_us)},
          {"time_constant_sd_us", number(c.time_constant_sd_us)},
          {"bandwidth_hz", number_or_null(c.bandwidth_hz)},
          {"bandwidth_sd_hz", number_or_null(c.bandwidth_sd_hz)},
          {"resonance_hz", number(c.resonance_hz)},
          {"resonance_sd_hz", number(c.resonance_sd_hz)},
          {"damping", number(c.damping)},
          {"damping_sd", number(c.damping_sd)},
          {"hysteresis", pair(c.hysteresis)},
          {"hysteresis_sd", pair(c.hysteresis_sd)},
          {"stage_noise_nm", number(c.stage_noise_nm)},
          {"noise_nm", pair(c.noise_nm)},
          {"fit_residual_nm", pair(c.fit_residual_nm)},
          {"drift_nm_per_s", pair(c.drift_nm_per_s)},
          {"spectrum",
           {{"frequency_hz", list(c.spectrum.frequency_hz)},
            {"x_nm2_per_hz", list(c.spectrum.x_nm2_per_hz)},
            {"y_nm2_per_hz", list(c.spectrum.y_nm2_per_hz)}}},
          {"markers", markers},
          {"returned_nm", pair(c.returned_nm)},
          {"age_us", number_or_null(c.age_us)},
          {"waiting_us", context.waiting_us},
          {"response",
           {{"time_ms", list(c.response.time_ms)},
            {"x", list(c.response.x)},
            {"y", list(c.response.y)},
            {"model", list(c.response.model)}}},
          {"present", present},
          {"proposal",
           {{"stage", stage_json(c.proposal, context.waiting_us)},
            {"control", control_json(c.proposal)},
            {"residual_nm", number_or_null(c.proposal.residual_nm)}}},
          {"pixel_size",
           {{"configured_nm", context.config.optics.pixel_size_nm},
            {"ratio", number_or_null(c.pixel_ratio)},
            {"ratio_sd", number_or_null(c.pixel_ratio_sd)}}}};
}

/// What a lock would do. Where the loop runs away the number means nothing.
std::string forecast(double residual_nm) {
  constexpr double kRunsAwayNm = 100;
  if (!(residual_nm < kRunsAwayNm)) return "would not hold";
  return fmt::format("would leave {:.2f} nm", residual_nm);
}

}  // namespace

bool proposes_else(const json& result, const config::Config& before, const config::Config& after) {
  constexpr double kElement = 1e-4, kUs = 1;
  const json& stage = result.at("proposal").at("stage");
  if (const json& matrix = stage.at("image_to_stage"); matrix.is_array()) {
    const double pixel_ratio = after.optics.pixel_size_nm / before.optics.pixel_size_nm;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        if (const json& element = matrix.at(i).at(j);
            element.is_number() && std::abs(element.get<double>() / pixel_ratio -
                                            after.stage.image_to_stage[i][j]) > kElement)
          return true;
  }
  const auto differs = [&stage](const char* key, double now) {
    return stage.at(key).is_number() && std::abs(stage.at(key).get<double>() - now) > kUs;
  };
  return differs("delay_us", after.stage.delay_us) ||
         differs("time_constant_us", after.stage.time_constant_us);
}

std::string strain_text(const CalibrationStrain& strain, double driver_late_us,
                        std::uint64_t driver_ignored) {
  constexpr double kLateMoves = 0.01, kLostFrames = 0.05;
  std::vector<std::string> parts;
  if (strain.late_share > kLateMoves)
    parts.push_back(
        fmt::format("of the stage's moves {:.0f} % left late, by up to {:.0f} ms, or never",
                    100 * strain.late_share, 1e3 * strain.longest_s));
  if (strain.lost_share > kLostFrames)
    parts.push_back(
        fmt::format("of the frames {:.0f} % came too old or not at all", 100 * strain.lost_share));
  if (driver_late_us > 0)
    parts.push_back(fmt::format("the stage's driver had a move done after {:.0f} ms only",
                                1e-3 * driver_late_us));
  if (driver_ignored > 0)
    parts.push_back(fmt::format("the stage's driver ignored {}, which came too late",
                                counted(driver_ignored, "move")));
  if (parts.empty()) return {};
  return fmt::format(
      "This computer was too busy to find out how the stage answers: {}. Calibrate again when it "
      "has less to do; `driftctl doctor` says what disturbs. ",
      fmt::join(parts, "; "));
}

CalibrationResult evaluate(const CalibrationRun& run, const CalibrationContext& context,
                           const std::atomic<bool>& cancelled) {
  control::ControllerSettings present = loop_settings(context.config, {}).supervisor.controller;
  present.stage_delay_us += context.waiting_us;
  const control::StageIdentification found = control::identify_stage(
      run.record(),
      {.cancelled = &cancelled, .present = present, .image_gain_sd = run.image_gain_sd()});
  if (found.refused()) {
    const std::string strain =
        strain_text(run.strain(), context.driver_late_us, context.driver_ignored);
    return {
        .refusal = strain.empty() ? found.text : strain + "As recorded it looks so: " + found.text,
        .result = nullptr,
        .summary = {}};
  }
  const StageCalibration& c = found.result;
  return {.refusal = {},
          .result = result_json(c, run, context),
          .summary = fmt::format(
              "{}turned by {:.1f} degrees, dead time {:.2f} ms, response {:.0f} Hz; a lock {} as "
              "configured and {} as proposed",
              c.mirrored ? "mirrored and " : "", c.rotation_deg, 1e-3 * c.delay_us, c.bandwidth_hz,
              forecast(c.present.residual_nm), forecast(c.proposal.residual_nm))};
}

}  // namespace driftd::daemon
