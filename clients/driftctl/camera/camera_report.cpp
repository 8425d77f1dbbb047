// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/camera_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/counted.hpp"

namespace driftd::clients {
namespace {

constexpr std::size_t kColumns = 100;

/// As many digits as the uncertainty has a use for, at most six.
std::string rounded(double value, double sd) {
  const double least = sd > 0 ? std::max(sd / 3, std::abs(value) * 1e-6) : std::abs(value) * 1e-3;
  const int decimals =
      least > 0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(least))), 0, 6) : 0;
  return fmt::format("{:.{}f}", value, decimals);
}
std::string rounded(const Estimate& e) {
  return rounded(e.value, e.sd);
}
std::string with_sd(const Estimate& e, const char* unit) {
  return fmt::format("{} +- {:.2g} {}", rounded(e), e.sd, unit);
}

std::vector<std::string> wrapped(const std::string& first, const std::string& text) {
  std::vector<std::string> lines;
  std::string line = first;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (line.size() + word.size() + 1 > kColumns) {
      lines.push_back(line);
      line = std::string(first.size(), ' ');
    }
    line += (line.empty() || line.back() == ' ' ? "" : " ") + word;
    at = space + 1;
  }
  lines.push_back(line);
  return lines;
}

int step_of(const CameraReport& report) {
  return report.light ? report.light->step_adu : report.dark->step_adu;
}

/// The gain that was measured, or else the configuration's.
std::optional<double> gain_of(const CameraReport& report) {
  if (report.light) return report.light->gain_e_per_adu.value;
  if (report.configured && report.configured->gain_e_per_adu > 0)
    return report.configured->gain_e_per_adu;
  return std::nullopt;
}

std::optional<Estimate> read_noise_of(const CameraReport& report) {
  if (report.light) return report.light->read_noise_e;
  const auto gain = gain_of(report);
  if (!gain || !report.dark || !report.dark->read_noise_adu) return std::nullopt;
  const Estimate& adu = *report.dark->read_noise_adu;
  return Estimate{adu.value * *gain, adu.sd * *gain};
}

/// A pixel's noise in the dark as fits meet it: rounding to levels is part of it.
std::optional<Estimate> dark_noise_of(const CameraReport& report) {
  const auto read = read_noise_of(report);
  if (!read) return std::nullopt;
  return Estimate{std::hypot(read->value, *gain_of(report) * step_of(report) / std::sqrt(12.0)),
                  read->sd};
}

std::optional<int> saturation_of(const CameraReport& report) {
  return report.light ? report.light->saturation_adu : std::nullopt;
}

void add_row(std::vector<std::string>& lines, const CameraReport& report, const char* name,
             const std::string& found, double configured) {
  std::string beside;
  if (report.configured) beside = configured != 0 ? fmt::format("{:g}", configured) : "not set";
  lines.push_back(fmt::format("{:<14}{:<34}{}", name, found, beside));
}

bool is_possible(double offset_adu, const LightResult& light) {
  constexpr double kMarginAdu = 2;
  return offset_adu >= light.least_offset_adu - kMarginAdu &&
         offset_adu <= light.most_offset_adu + kMarginAdu;
}

void add_line_without_dark(std::vector<std::string>& lines, const CameraReport& report) {
  const LightResult& light = *report.light;
  const double low = std::max(0.0, light.least_offset_adu);
  lines.push_back(
      fmt::format("{:<14}between {:.1f} and {:.1f} ADU", "offset", low, light.most_offset_adu));
  lines.push_back(fmt::format("{:<14}below {:.3g} e-", "read noise", light.most_read_noise_e));
  std::string text =
      "Light alone does not tell the offset: more of it and more read noise look the same. "
      "Measure the dark, too (--dark).";
  if (report.configured && report.configured->offset_adu > 0) {
    const double offset = report.configured->offset_adu;
    if (!is_possible(offset, light)) {
      text += fmt::format(" The configuration's offset of {:g} ADU is not possible.", offset);
    } else {
      text += fmt::format(
          " With the configuration's offset of {:g} ADU the read noise would be {:.2g} e-.", offset,
          read_noise_at(light, offset));
    }
  }
  for (const std::string& line : wrapped("  ", text)) lines.push_back(line);
}

void add_values(std::vector<std::string>& lines, const CameraReport& report) {
  const config::Camera* configured = report.configured ? &*report.configured : nullptr;
  const auto beside = [&](auto member) {
    return configured != nullptr ? static_cast<double>(configured->*member) : 0.0;
  };
  if (configured != nullptr) lines.push_back(fmt::format("{:<48}configured", ""));
  if (report.light) {
    add_row(lines, report, "gain", with_sd(report.light->gain_e_per_adu, "e-/ADU"),
            beside(&config::Camera::gain_e_per_adu));
  }
  if (report.dark) {
    add_row(lines, report, "offset", with_sd(report.dark->offset_adu, "ADU"),
            beside(&config::Camera::offset_adu));
    const auto read = read_noise_of(report);
    const std::string found =
        read ? with_sd(*read, "e-")
        : report.dark->read_noise_adu
            ? with_sd(*report.dark->read_noise_adu, "ADU")
            : fmt::format("below {:.2g} ADU", report.dark->most_read_noise_adu);
    add_row(lines, report, "read noise", found, beside(&config::Camera::read_noise_e));
    if (const auto noise = dark_noise_of(report)) {
      lines.push_back(fmt::format("{:<14}{}", "  and rounding", " " + rounded(*noise) + " e-"));
    }
    lines.push_back(fmt::format("{:<14}{:.2f} ADU rms among the pixels' offsets", "pattern",
                                report.dark->pattern_adu));
  } else {
    add_line_without_dark(lines, report);
  }
  if (report.light) {
    const auto saturation = saturation_of(report);
    add_row(lines, report, "saturation",
            saturation ? fmt::format("{} ADU", *saturation) : "not reached",
            beside(&config::Camera::saturation_adu));
    for (const std::string& line : wrapped("  ", report.light->saturation_text))
      lines.push_back(line);
  }
}

template <typename Value>
const Value* address(const std::optional<Value>& value) {
  return value ? &*value : nullptr;
}
nlohmann::json number_or_null(const Estimate* e) {
  return e != nullptr ? nlohmann::json(e->value) : nlohmann::json();
}
nlohmann::json sd_or_null(const Estimate* e) {
  return e != nullptr ? nlohmann::json(e->sd) : nlohmann::json();
}

nlohmann::json dark_json(const DarkResult& dark) {
  return {{"frames", dark.frames},
          {"width_px", dark.shape.width_px},
          {"height_px", dark.shape.height_px},
          {"bits", dark.shape.bits},
          {"step_adu", dark.step_adu},
          {"offset_adu", dark.offset_adu.value},
          {"offset_sd_adu", dark.offset_adu.sd},
          {"read_noise_adu", number_or_null(address(dark.read_noise_adu))},
          {"read_noise_sd_adu", sd_or_null(address(dark.read_noise_adu))},
          {"most_read_noise_adu", dark.most_read_noise_adu},
          {"pattern_adu", dark.pattern_adu},
          {"clipped_share", dark.clipped_share},
          {"only_bound", dark.only_bound},
          {"hot_pixels", dark.hot_pixels},
          {"warnings", dark.warnings}};
}

nlohmann::json light_json(const LightResult& light) {
  nlohmann::json curve = nlohmann::json::array();
  for (const TransferPoint& point : light.curve) {
    curve.push_back({{"mean_adu", point.mean_adu},
                     {"variance_adu2", point.variance_adu2},
                     {"sd_adu2", point.sd_adu2},
                     {"pixels", point.pixels}});
  }
  return {{"frames", light.frames},
          {"width_px", light.shape.width_px},
          {"height_px", light.shape.height_px},
          {"bits", light.shape.bits},
          {"step_adu", light.step_adu},
          {"least_offset_adu", light.least_offset_adu},
          {"most_offset_adu", light.most_offset_adu},
          {"most_read_noise_e", light.most_read_noise_e},
          {"brightest_adu", light.brightest_adu},
          {"saturation_text", light.saturation_text},
          {"nonlinear_share", light.nonlinear_share},
          {"neighbour_noise", {light.neighbours.right, light.neighbours.below}},
          {"disturbed_share", light.disturbed_share},
          {"curve", curve}};
}

std::vector<std::string> warnings_of(const CameraReport& report) {
  return report.light ? report.light->warnings : report.dark->warnings;
}

}  // namespace

KeysAndValues proposal(const CameraReport& report) {
  KeysAndValues values;
  if (report.light) {
    values.emplace_back("camera.gain_e_per_adu", rounded(report.light->gain_e_per_adu));
  }
  if (report.dark && !report.dark->only_bound) {
    values.emplace_back("camera.offset_adu", rounded({std::max(0.0, report.dark->offset_adu.value),
                                                      std::max(0.01, report.dark->offset_adu.sd)}));
  }
  if (const auto noise = dark_noise_of(report)) {
    values.emplace_back("camera.read_noise_e", rounded(*noise));
  }
  if (const auto saturation = saturation_of(report)) {
    values.emplace_back("camera.saturation_adu", std::to_string(*saturation));
  }
  // They are of the gain that the camera has now, which it would not have after its next start.
  if (!values.empty() && report.configured && report.gain_db &&
      std::abs(report.configured->gain_db - *report.gain_db) > kSameGainDb)
    values.emplace_back("camera.gain_db", fmt::format("{:.4g}", *report.gain_db));
  return values;
}

std::string why_not_written(const CameraReport& report) {
  if (proposal(report).empty()) return "nothing is proposed";
  if (!report.light || (report.dark && !report.dark->only_bound)) return {};
  const double configured = report.configured ? report.configured->offset_adu : 0;
  if (!(configured > 0)) {
    return report.dark ? "a gain without an offset is worse than none: the dark series does not "
                         "tell it (black level too low), and the file has no camera.offset_adu"
                       : "a gain without an offset is worse than none: measure the dark, too "
                         "(--dark), or set camera.offset_adu";
  }
  if (report.dark || is_possible(configured, *report.light)) return {};
  return fmt::format(
      "the file's camera.offset_adu of {:g} is not possible with this light, and a "
      "gain without an offset is worse than none: measure the dark, too (--dark)",
      configured);
}

std::vector<std::string> to_lines(const CameraReport& report) {
  std::vector<std::string> lines;
  const FrameShape& shape = report.light ? report.light->shape : report.dark->shape;
  const auto frames = [](int count, const char* what) {
    return count > 0 ? ", " + counted(count, std::string(what) + " frame") : "";
  };
  lines.push_back(fmt::format("{}, {} {} x {} px{}{}", report.camera, report.pixel_format,
                              shape.width_px, shape.height_px,
                              frames(report.dark ? report.dark->frames : 0, "dark"),
                              frames(report.light ? report.light->frames : 0, "light")));
  add_values(lines, report);
  for (const std::string& text : warnings_of(report)) {
    for (const std::string& line : wrapped("warning: ", text)) lines.push_back(line);
  }
  const KeysAndValues values = proposal(report);
  if (values.empty()) return lines;
  lines.emplace_back("proposed for the configuration:");
  lines.emplace_back("camera:");
  for (const auto& [key, value] : values) {
    lines.push_back(fmt::format("  {}: {}", key.substr(key.find('.') + 1), value));
  }
  if (!report.dark) {
    lines.emplace_back(
        "  # and the offset of a dark series: a gain without it counts the offset as");
    lines.emplace_back("  # light, and the fits' uncertainties come out too large");
  }
  return lines;
}

nlohmann::json to_json(const CameraReport& report) {
  const auto read = read_noise_of(report);
  const auto noise = dark_noise_of(report);
  const Estimate* gain = report.light ? &report.light->gain_e_per_adu : nullptr;
  const Estimate* offset = report.dark ? &report.dark->offset_adu : nullptr;
  const auto saturation = saturation_of(report);
  nlohmann::json json{
      {"camera", report.camera},
      {"pixel_format", report.pixel_format},
      {"exposure_us", report.exposure_us ? nlohmann::json(*report.exposure_us) : nlohmann::json()},
      {"gain_db", report.gain_db ? nlohmann::json(*report.gain_db) : nlohmann::json()},
      {"gain_e_per_adu", number_or_null(gain)},
      {"gain_sd_e_per_adu", sd_or_null(gain)},
      {"offset_adu", number_or_null(offset)},
      {"offset_sd_adu", sd_or_null(offset)},
      {"read_noise_e", number_or_null(address(read))},
      {"read_noise_sd_e", sd_or_null(address(read))},
      {"dark_noise_e", number_or_null(address(noise))},
      {"saturation_adu", saturation ? nlohmann::json(*saturation) : nlohmann::json()},
      {"dark", report.dark ? dark_json(*report.dark) : nlohmann::json()},
      {"light", report.light ? light_json(*report.light) : nlohmann::json()},
      {"warnings", warnings_of(report)}};
  if (report.configured) {
    const config::Camera& c = *report.configured;
    json["configured"] = {{"gain_e_per_adu", c.gain_e_per_adu},
                          {"offset_adu", c.offset_adu},
                          {"read_noise_e", c.read_noise_e},
                          {"saturation_adu", c.saturation_adu},
                          {"gain_db", c.gain_db}};
  }
  json["why_not_written"] = why_not_written(report);
  json["proposal"]["camera"] = nlohmann::json::object();
  for (const auto& [key, value] : proposal(report)) {
    json["proposal"]["camera"][key.substr(key.find('.') + 1)] = nlohmann::json::parse(value);
  }
  return json;
}

}  // namespace driftd::clients
