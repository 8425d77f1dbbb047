// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/aliases.hpp"
#include "base/counted.hpp"
#include "clients/common/measure/measurement.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

json axis_json(const AxisReport& axis, double rate_hz) {
  constexpr std::size_t kTold = 16;
  json allan = json::array(), lines = json::array();
  for (const AllanPoint& p : axis.allan) allan.push_back({p.averaged_s, p.deviation_nm});
  for (const VibrationLine& l : axis.lines)
    lines.push_back({{"frequency_hz", l.frequency_hz},
                     {"amplitude_nm", l.amplitude_nm},
                     {"look_alikes_hz", look_alikes_hz(l.frequency_hz, rate_hz, kTold)}});
  return {{"drift_nm_per_min", axis.drift_nm_per_min},
          {"drift_sd_nm_per_min", axis.drift_sd_nm_per_min},
          {"about_line_nm", axis.about_line_nm},
          {"frame_noise_nm", axis.frame_noise_nm},
          {"promised_noise_nm", axis.promised_noise_nm},
          {"allan_s_nm", allan},
          {"lines", lines}};
}

std::string pair(const char* label, double x, double y, const char* rest = "") {
  return fmt::format("{:<26}{:>9.3f}{:>9.3f} nm{}", label, x, y, rest);
}

void add_lines(const char* axis, const std::vector<VibrationLine>& found, double rate_hz,
               std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 3;
  std::string text = fmt::format("vibrations in {:<12}", axis);
  if (found.empty()) text += "none stands out";
  for (std::size_t i = 0; i < std::min(found.size(), kMost); ++i) {
    const std::string others = look_alikes_text(found[i].frequency_hz, rate_hz);
    if (i > 0 && !others.empty()) {  // a row for each
      lines.push_back(text);
      text = std::string(26, ' ');
    } else if (i > 0) {
      text += ", ";
    }
    text +=
        fmt::format("{:.2f} nm {:.2f} Hz{}", found[i].amplitude_nm, found[i].frequency_hz, others);
  }
  lines.push_back(text);
}

}  // namespace

json to_json(const MeasurementReport& report) {
  json markers = json::array();
  for (const MarkerReport& m : report.markers)
    markers.push_back({{"id", m.id},
                       {"role", m.witness ? "witness" : "tracking"},
                       {"good_share", m.good_share},
                       {"fit_sd_nm", m.fit_sd_nm},
                       {"scatter_nm", m.scatter_nm},
                       {"expected_nm", m.expected_nm},
                       {"wander_nm", m.wander_nm},
                       {"remark", m.remark}});
  return {{"state", report.state},
          {"seconds", report.seconds},
          {"rate_hz", report.rate_hz},
          {"frames", report.frames},
          {"missing_share", report.missing_share},
          {"x", axis_json(report.axes[0], report.rate_hz)},
          {"y", axis_json(report.axes[1], report.rate_hz)},
          {"markers_allow_nm", report.markers_allow_nm},
          {"markers", markers}};
}

std::vector<std::string> to_lines(const MeasurementReport& report) {
  const AxisReport &x = report.axes[0], &y = report.axes[1];
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:.1f} s, {} at {:.1f} Hz, {:.2f} % without a position",
                              report.seconds, counted(report.frames, "frame"), report.rate_hz,
                              100 * report.missing_share));
  lines.push_back(report.state == "locked"
                      ? "locked: what the lock leaves, as it sees it itself"
                      : report.state + ": not corrected, the sample's own motion");
  lines.push_back(fmt::format("{:<26}{:>9}{:>9}", "", "x", "y"));
  lines.push_back(fmt::format("{:<26}{:>9.2f}{:>9.2f} nm/min, +-{:.2f} and +-{:.2f}", "drift",
                              x.drift_nm_per_min, y.drift_nm_per_min, x.drift_sd_nm_per_min,
                              y.drift_sd_nm_per_min));
  lines.push_back(pair("rms about that", x.about_line_nm, y.about_line_nm));
  lines.push_back(pair("noise of a frame", x.frame_noise_nm, y.frame_noise_nm,
                       ", from the spectrum's upper half"));
  lines.push_back(pair("  as the frames say", x.promised_noise_nm, y.promised_noise_nm));
  lines.push_back(
      pair("  as the markers allow", report.markers_allow_nm[0], report.markers_allow_nm[1]));
  add_lines("x", x.lines, report.rate_hz, lines);
  add_lines("y", y.lines, report.rate_hz, lines);
  for (std::size_t i = 0; i < x.allan.size(); ++i)
    lines.push_back(pair(fmt::format("{}{:>10.3f} s", i == 0 ? "Allan dev.  " : "            ",
                                     x.allan[i].averaged_s)
                             .c_str(),
                         x.allan[i].deviation_nm, y.allan[i].deviation_nm));
  lines.push_back("marker           fit sd x, y   scatter x, y    wander x, y   nm");
  for (const MarkerReport& m : report.markers) {
    lines.push_back(fmt::format("{:>4} {:<9}{:>7.2f}{:>7.2f}{:>8.2f}{:>7.2f}{:>8.2f}{:>7.2f}", m.id,
                                m.witness ? "witness" : "tracking", m.fit_sd_nm[0], m.fit_sd_nm[1],
                                m.scatter_nm[0], m.scatter_nm[1], m.wander_nm[0], m.wander_nm[1]));
    if (!m.remark.empty()) lines.push_back("       " + m.remark);
  }
  return lines;
}

}  // namespace driftd::clients
