// SPDX-License-Identifier: MIT
#include "clients/common/calibration/stage_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/yaml/scalar.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr double kShape = 0.02;  // of the axes' scales, and their angle: the matrix is a turn
constexpr double kLeastFactor =
    0.005;  // less is within what data sheets of cameras and lenses leave
constexpr double kSds = 3;

/// Null where the object is null or has no such field.
/// @throws json::exception where it is no object
const json& field(const json& object, const char* name) {
  static const json null;
  if (object.is_null()) return null;
  if (!object.is_object()) return object.at(name);
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

template <typename T>
std::optional<T> read(const json& object, const char* name) {
  const json& value = field(object, name);
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

/// Lists in which a single null makes the whole unknown.
template <typename T>
std::optional<T> read_whole(const json& object, const char* name) {
  const json& value = field(object, name);
  if (value.is_null()) return std::nullopt;
  const json flat = value.flatten();
  if (std::any_of(flat.begin(), flat.end(), [](const json& part) { return part.is_null(); })) {
    return std::nullopt;
  }
  return value.get<T>();
}

std::vector<double> read_curve(const json& object, const char* name) {
  std::vector<double> curve;
  for (const json& value : field(object, name)) {
    curve.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                    : value.get<double>());
  }
  return curve;
}

FoundValue read_estimate(const json& object, const char* name, const char* sd_name) {
  return {read<double>(object, name), read<double>(object, sd_name)};
}

/// Values of the sections `stage` and `control`, which stand side by side in `present`.
StageSettings read_settings(const json& settings, const json& stage, const json& control) {
  return {.image_to_stage = read_whole<Matrix2>(stage, "image_to_stage"),
          .delay_us = read<double>(stage, "delay_us"),
          .time_constant_us = read<double>(stage, "time_constant_us"),
          .resonance_hz = read<double>(stage, "resonance_hz"),
          .damping = read<double>(stage, "damping"),
          .integral = read<double>(control, "integral"),
          .proportional = read<double>(control, "proportional"),
          .residual_nm = read<double>(settings, "residual_nm")};
}

std::string rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  const double nearest = std::round(value * scale) / scale;
  return yaml::format_real(nearest == 0 ? 0.0 : nearest);  // never -0
}

std::string matrix_text(const Matrix2& m) {
  constexpr int kDecimals = 5;
  return "[[" + rounded(m[0][0], kDecimals) + ", " + rounded(m[0][1], kDecimals) + "], [" +
         rounded(m[1][0], kDecimals) + ", " + rounded(m[1][1], kDecimals) + "]]";
}

double determinant(const Matrix2& m) {
  return m[0][0] * m[1][1] - m[0][1] * m[1][0];
}

/// How far the matrix is from a turn times a number: the larger of the difference of its columns'
/// lengths and of their angle from a right one, both over the length.
double distance_from_turn(const Matrix2& m) {
  const double x2 = m[0][0] * m[0][0] + m[1][0] * m[1][0];
  const double y2 = m[0][1] * m[0][1] + m[1][1] * m[1][1];
  const double along = m[0][0] * m[0][1] + m[1][0] * m[1][1];
  const double mean2 = (x2 + y2) / 2;
  return std::max(std::abs(std::sqrt(x2) - std::sqrt(y2)) / std::sqrt(mean2),
                  std::abs(along) / mean2);
}

double largest(const Matrix2& m) {
  return std::max({std::abs(m[0][0]), std::abs(m[0][1]), std::abs(m[1][0]), std::abs(m[1][1])});
}

}  // namespace

StageCalibration read_calibration(const json& r) {
  StageCalibration c;
  c.image_to_stage = read_whole<Matrix2>(r, "image_to_stage");
  c.image_to_stage_sd = read_whole<Matrix2>(r, "image_to_stage_sd");
  c.mirrored = read<bool>(r, "mirrored");
  c.rotation_deg = read<double>(r, "rotation_deg");
  c.scale = read_whole<PerAxis2>(r, "scale");
  c.delay_us = read_estimate(r, "delay_us", "delay_sd_us");
  c.time_constant_us = read_estimate(r, "time_constant_us", "time_constant_sd_us");
  c.bandwidth_hz = read_estimate(r, "bandwidth_hz", "bandwidth_sd_hz");
  c.waiting_us = read<double>(r, "waiting_us");
  c.order = read<int>(r, "order");
  c.resonance_hz = read_estimate(r, "resonance_hz", "resonance_sd_hz");
  c.damping = read_estimate(r, "damping", "damping_sd");
  c.stage_noise_nm = read<double>(r, "stage_noise_nm");
  c.cross_talk = read_whole<PerAxis2>(r, "cross_talk");
  c.hysteresis = read_whole<PerAxis2>(r, "hysteresis");
  c.noise_nm = read_whole<PerAxis2>(r, "noise_nm");
  c.fit_residual_nm = read_whole<PerAxis2>(r, "fit_residual_nm");
  c.drift_nm_per_s = read_whole<PerAxis2>(r, "drift_nm_per_s");
  c.returned_nm = read_whole<PerAxis2>(r, "returned_nm");
  c.seconds = read<double>(r, "seconds");
  c.samples = read<long>(r, "samples");
  const json& spectrum = field(r, "spectrum");
  c.spectrum = {read_curve(spectrum, "frequency_hz"), read_curve(spectrum, "x_nm2_per_hz"),
                read_curve(spectrum, "y_nm2_per_hz")};
  for (const json& marker : field(r, "markers")) {
    const auto noise_nm = read<double>(marker, "noise_nm");
    if (noise_nm) c.markers.push_back({marker.at("id").get<int>(), *noise_nm});
  }
  const json& response = field(r, "response");
  c.response = {read_curve(response, "time_ms"), read_curve(response, "x"),
                read_curve(response, "y"), read_curve(response, "model")};
  const json& present = field(r, "present");
  c.present = read_settings(present, present, present);
  const json& proposal = field(r, "proposal");
  c.proposal = read_settings(proposal, field(proposal, "stage"), field(proposal, "control"));
  c.configured_pixel_nm = read<double>(field(r, "pixel_size"), "configured_nm");
  c.pixel_ratio_sd = read<double>(field(r, "pixel_size"), "ratio_sd");
  return c;
}

std::optional<PixelSizeQuestion> pixel_size_question(const StageCalibration& c) {
  if (!c.image_to_stage || !c.configured_pixel_nm) return std::nullopt;
  const Matrix2& m = *c.image_to_stage;
  const double factor = std::sqrt(std::abs(determinant(m)));
  if (!(factor > 0)) return std::nullopt;
  // An element's own: at least as large as that of the factor, a mean over all of them.
  const double element_sd = c.image_to_stage_sd ? largest(*c.image_to_stage_sd) : 0;
  const double factor_sd = c.pixel_ratio_sd.value_or(element_sd);
  if (distance_from_turn(m) > std::max(kShape, kSds * element_sd / factor)) return std::nullopt;
  if (std::abs(factor - 1) <= std::max(kLeastFactor, kSds * factor_sd)) return std::nullopt;
  return PixelSizeQuestion{.configured_nm = *c.configured_pixel_nm,
                           .factor = factor,
                           .factor_sd = factor_sd,
                           .pixel_nm = *c.configured_pixel_nm * factor,
                           .stage_moves_by = 1 / factor};
}

std::string why_not_proposed(const StageCalibration& c) {
  constexpr double kClearlyWorse = 1.2;
  const StageSettings& p = c.proposal;
  const bool any =
      p.image_to_stage || p.delay_us || p.time_constant_us || p.integral || p.proportional;
  if (!any) return {};
  if (!p.residual_nm) return "what a lock would leave is not known";
  if (!(*p.residual_nm <= kRunsAwayNm)) return "a lock would not hold";
  if (c.present.residual_nm && *p.residual_nm > kClearlyWorse * *c.present.residual_nm) {
    return fmt::format("a lock would leave {:.2f} nm, and {:.2f} nm as configured", *p.residual_nm,
                       *c.present.residual_nm);
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> proposed_values(
    const StageCalibration& c, const std::optional<PixelSizeQuestion>& pixel) {
  std::vector<std::pair<std::string, std::string>> values;
  if (!why_not_proposed(c).empty()) return values;
  const StageSettings& p = c.proposal;
  if (pixel) values.emplace_back("optics.pixel_size_nm", rounded(pixel->pixel_nm, 3));
  if (p.image_to_stage) {
    Matrix2 matrix = *p.image_to_stage;
    for (auto& row : matrix) {
      for (double& element : row) element /= pixel ? pixel->factor : 1;
    }
    values.emplace_back("stage.image_to_stage", matrix_text(matrix));
  }
  const auto add = [&values](const char* key, std::optional<double> value, int decimals) {
    if (value) values.emplace_back(key, rounded(*value, decimals));
  };
  add("stage.delay_us", p.delay_us, 0);
  if (!p.is_second_order()) add("stage.time_constant_us", p.time_constant_us, 0);
  if (p.is_second_order() || c.present.is_second_order())
    add("stage.resonance_hz", p.resonance_hz, 3);
  if (p.is_second_order()) add("stage.damping", p.damping, 3);
  add("control.proportional", p.proportional, 3);
  add("control.integral", p.integral, 3);
  return values;
}

}  // namespace driftd::clients
