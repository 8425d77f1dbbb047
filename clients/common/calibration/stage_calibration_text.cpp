// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/yaml/scalar.hpp"
#include "clients/common/calibration/stage_calibration.hpp"
#include "clients/common/measure/spectrum.hpp"

namespace driftd::clients {
namespace {

constexpr const char* kUnknown = "-";
constexpr double kAgreeSds = 2;

std::string number(std::optional<double> value, int decimals, const char* unit = "") {
  if (!value) return kUnknown;
  return fmt::format("{:.{}f}{}", *value == 0 ? 0.0 : *value, decimals, unit);
}

/// Whether a configured value lies within the uncertainty of the measured one.
std::string verdict(std::optional<double> found, std::optional<double> sd,
                    std::optional<double> configured) {
  if (!found || !sd || !configured) return "";
  return std::abs(*found - *configured) <= kAgreeSds * *sd ? "   agrees" : "   differs";
}

struct Format {
  int decimals;
  const char* unit;
};

void add_row(const std::string& label, const FoundValue& found, std::optional<double> configured,
             Format format, std::vector<std::string>& lines, bool comparable = true) {
  std::string line =
      fmt::format("{:<24}{:>12}{:>12}", label, number(found.value, format.decimals, format.unit),
                  number(found.sd, format.decimals, format.unit));
  if (configured) {
    line += fmt::format("{:>12}{}", number(configured, format.decimals, format.unit),
                        comparable ? verdict(found.value, found.sd, configured) : "");
  }
  lines.push_back(line);
}

void add_matrix(const StageCalibration& c, std::vector<std::string>& lines) {
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      const auto element = [&](const std::optional<Matrix2>& m) {
        return m ? std::optional((*m)[row][column]) : std::nullopt;
      };
      const std::string label =
          fmt::format("{:<15}[{}][{}]", row + column == 0 ? "image_to_stage" : "", row, column);
      add_row(label, {element(c.image_to_stage), element(c.image_to_stage_sd)},
              element(c.present.image_to_stage), {4, ""}, lines);
    }
  }
}

void add_delays(const StageCalibration& c, std::vector<std::string>& lines) {
  // A delay means something else where the response is of another order.
  const bool first = !c.present.is_second_order();
  const bool comparable = c.order.value_or(1) == (first ? 1 : 2);
  FoundValue delay_us = c.delay_us;
  const double waiting_us = c.waiting_us.value_or(0);
  if (delay_us.value) *delay_us.value -= waiting_us;
  add_row("dead time", delay_us, c.present.delay_us, {0, " us"}, lines, comparable);
  if (waiting_us > 0) {
    lines.push_back(fmt::format("  {:<22}{:>9.0f} us for the turn of a command, known to driftd",
                                "and waiting", waiting_us));
  }
  if (first || c.time_constant_us.value)
    add_row("time constant", c.time_constant_us, first ? c.present.time_constant_us : std::nullopt,
            {0, " us"}, lines, comparable);
  if (first && !c.resonance_hz.value) return;
  add_row("resonance", c.resonance_hz, first ? std::nullopt : c.present.resonance_hz, {1, " Hz"},
          lines);
  add_row("damping", c.damping, first ? std::nullopt : c.present.damping, {3, ""}, lines);
}

bool is_mirrored(const Matrix2& m) {
  return m[0][0] * m[1][1] - m[0][1] * m[1][0] < 0;
}

/// Degrees from the image's x axis to the stage's, from x towards y, of the turn that is nearest.
double rotation_of(const Matrix2& image_to_stage) {
  const Matrix2& m = image_to_stage;
  // The inverse, apart from a positive factor: what the image shows of the stage's moves.
  const double side = is_mirrored(m) ? -1 : 1;
  const Matrix2 seen{{{side * m[1][1], -side * m[0][1]}, {-side * m[1][0], side * m[0][0]}}};
  return std::atan2(seen[1][0] - side * seen[0][1], seen[0][0] + side * seen[1][1]) * 180 /
         std::numbers::pi;
}

std::string turned(double degrees, bool mirrored) {
  return fmt::format("turned by {:.2f} degrees, {}", std::abs(degrees) < 0.005 ? 0.0 : degrees,
                     mirrored ? "mirrored" : "not mirrored");
}

void add_handedness(const StageCalibration& c, std::vector<std::string>& lines) {
  if (!c.image_to_stage) {
    lines.emplace_back("Nothing is known of how the axes lie.");
    return;
  }
  const bool mirrored = c.mirrored.value_or(is_mirrored(*c.image_to_stage));
  const double degrees = c.rotation_deg.value_or(rotation_of(*c.image_to_stage));
  lines.push_back("The stage's axes in the image: " + turned(degrees, mirrored) + '.');
  if (!c.present.image_to_stage) return;
  const Matrix2& present = *c.present.image_to_stage;
  lines.push_back(
      "  as configured:               " + turned(rotation_of(present), is_mirrored(present)) + '.');
}

std::string dynamics(const StageCalibration& c) {
  if (!c.order) return "Nothing is known of how the stage responds.";
  return fmt::format("The stage responds in the {} order.", *c.order == 1 ? "first"
                                                            : *c.order == 2
                                                                ? "second"
                                                                : std::to_string(*c.order) + ".");
}

void add_axes(const char* label, const std::optional<PerAxis2>& value, Format format,
              std::vector<std::string>& lines, double factor = 1) {
  const auto axis = [&](std::size_t i) {
    return number(value ? std::optional((*value)[i] * factor) : std::nullopt, format.decimals);
  };
  lines.push_back(
      fmt::format("{:<24}{:>12}{:>12}{}", label, axis(0), axis(1), value ? format.unit : ""));
}

void add_vibrations(const char* axis, const std::vector<double>& frequency_hz,
                    std::vector<double> density, std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 3;
  if (frequency_hz.size() < 2 || density.size() != frequency_hz.size()) return;
  Spectrum spectrum;
  spectrum.spacing_hz = frequency_hz[1] - frequency_hz[0];
  if (!(spectrum.spacing_hz > 0)) return;
  std::ranges::replace_if(
      density, [](double d) { return !std::isfinite(d); }, 0.0);
  const auto left_out =
      static_cast<std::size_t>(std::max(0.0, std::round(frequency_hz[0] / spectrum.spacing_hz)));
  constexpr std::size_t kMostLeftOut = 1000;
  if (left_out > kMostLeftOut) return;
  density.insert(density.begin(), left_out, density.front());
  spectrum.density_nm2_per_hz = std::move(density);
  const std::vector<VibrationLine> found = vibration_lines(spectrum, kMost);
  std::string text = fmt::format("vibrations in {:<10}", axis);
  if (found.empty()) text += "none stands out";
  for (std::size_t i = 0; i < found.size(); ++i) {
    text += fmt::format("{}{:.2f} nm {:.2f} Hz", i == 0 ? "" : ", ", found[i].amplitude_nm,
                        found[i].frequency_hz);
  }
  lines.push_back(text);
}

void add_markers(std::vector<MarkerNoise> markers, std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 4;
  if (markers.empty()) return;
  std::ranges::sort(markers, std::ranges::greater(), &MarkerNoise::noise_nm);
  std::string text = fmt::format("{:<24}", "noisiest markers");
  for (std::size_t i = 0; i < std::min(kMost, markers.size()); ++i) {
    text += fmt::format("{}{}: {:.2f}", i == 0 ? "" : ", ", markers[i].id, markers[i].noise_nm);
  }
  lines.push_back(text + fmt::format(" nm; median of {}: {:.2f}", markers.size(),
                                     markers[markers.size() / 2].noise_nm));
}

std::string configured(const StageCalibration& c, const std::string& key) {
  const StageSettings& p = c.present;
  const auto text = [](std::optional<double> value) {
    return value ? yaml::format_real(*value) : std::string(kUnknown);
  };
  if (key == "optics.pixel_size_nm") return text(c.configured_pixel_nm);
  if (key == "stage.delay_us") return text(p.delay_us);
  if (key == "stage.time_constant_us") return text(p.time_constant_us);
  if (key == "stage.resonance_hz") return text(p.resonance_hz);
  if (key == "stage.damping") return text(p.damping);
  if (key == "control.integral") return text(p.integral);
  if (key == "control.proportional") return text(p.proportional);
  if (!p.image_to_stage) return kUnknown;
  const Matrix2& m = *p.image_to_stage;
  return fmt::format("[[{}, {}], [{}, {}]]", yaml::format_real(m[0][0]), yaml::format_real(m[0][1]),
                     yaml::format_real(m[1][0]), yaml::format_real(m[1][1]));
}

/// What a lock would leave. Where the loop runs away the number means nothing.
std::string forecast(std::optional<double> residual_nm) {
  if (residual_nm && *residual_nm > kRunsAwayNm) return "it would not hold";
  return number(residual_nm, 2) + " nm";
}

}  // namespace

std::vector<std::string> findings(const StageCalibration& c) {
  std::vector<std::string> lines;
  std::string first = fmt::format("{}, {} positions", number(c.seconds, 1, " s"),
                                  c.samples ? std::to_string(*c.samples) : kUnknown);
  if (c.returned_nm) {
    first += fmt::format("; the sample is {:.1f}, {:.1f} nm from where it was", (*c.returned_nm)[0],
                         (*c.returned_nm)[1]);
  }
  lines.push_back(first);
  lines.push_back(fmt::format("{:<24}{:>12}{:>12}{:>12}", "", "found", "+-", "configured"));
  add_matrix(c, lines);
  add_delays(c, lines);
  add_row("bandwidth", c.bandwidth_hz, std::nullopt, {1, " Hz"}, lines);
  add_handedness(c, lines);
  lines.push_back(dynamics(c));
  lines.push_back(fmt::format("{:<24}{:>12}{:>12}", "", "x", "y"));
  add_axes("scale", c.scale, {4, ""}, lines);
  add_axes("cross-talk", c.cross_talk, {2, " %, on the other axis"}, lines, 100);
  add_axes("hysteresis", c.hysteresis, {2, " %"}, lines, 100);
  add_axes("drift", c.drift_nm_per_s, {2, " nm/s"}, lines);
  add_axes("noise of a frame", c.noise_nm, {3, " nm"}, lines);
  add_axes("left by the fit", c.fit_residual_nm, {3, " nm"}, lines);
  lines.push_back(fmt::format("{:<24}{:>12}{}", "noise of the stage", number(c.stage_noise_nm, 3),
                              c.stage_noise_nm ? " nm" : ""));
  add_vibrations("x", c.spectrum.frequency_hz, c.spectrum.x_nm2_per_hz, lines);
  add_vibrations("y", c.spectrum.frequency_hz, c.spectrum.y_nm2_per_hz, lines);
  add_markers(c.markers, lines);
  return lines;
}

std::vector<std::string> proposal_lines(
    const StageCalibration& c, const std::vector<std::pair<std::string, std::string>>& values) {
  if (values.empty()) {
    const std::string why = why_not_proposed(c);
    return {"Nothing is proposed" + (why.empty() ? "" : ": " + why) + '.'};
  }
  std::vector<std::string> lines{"Proposed instead of what is configured:"};
  for (const auto& [key, value] : values) {
    const std::string now = configured(c, key);
    const std::string line = fmt::format("  {:<24}{}", key + ':', value);
    lines.push_back(now == value ? line + "  (as it is)"
                                 : fmt::format("{:<50} instead of {}", line, now));
    constexpr std::size_t kColumns = 80;
    if (lines.back().size() > kColumns) {
      lines.back() = line;
      lines.push_back(fmt::format("  {:<24}instead of {}", "", now));
    }
  }
  lines.push_back(fmt::format("Residual that it should leave: {}; as configured now: {}.",
                              forecast(c.proposal.residual_nm), forecast(c.present.residual_nm)));
  return lines;
}

std::vector<std::string> question_lines(const PixelSizeQuestion& q) {
  return {fmt::format("The matrix is a turn times {:.4f} +-{:.4f}. Which of these is it?", q.factor,
                      q.factor_sd),
          fmt::format("- The stage is right: a pixel is {:.3f} nm instead of {} nm.", q.pixel_nm,
                      yaml::format_real(q.configured_nm)),
          fmt::format("- The pixel is right: the stage moves by {:.4f} nm for each nm it is told.",
                      q.stage_moves_by)};
}

}  // namespace driftd::clients
