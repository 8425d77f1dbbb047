// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <vector>

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

/// A number of each axis, z last where it is measured.
using Values = std::vector<double>;

std::string row(const std::string& label, const Values& values, int decimals = 3,
                const char* rest = " nm") {
  std::string line = fmt::format("{:<26}", label);
  for (const double value : values) line += fmt::format("{:>9.{}f}", value, decimals);
  return line + rest;
}

/// Of each axis by a member of its report.
Values of_axes(const std::vector<const AxisReport*>& axes, double AxisReport::*member) {
  Values values;
  for (const AxisReport* axis : axes) values.push_back(axis->*member);
  return values;
}

void add_drift(const std::vector<const AxisReport*>& axes, std::vector<std::string>& lines) {
  const Values sd = of_axes(axes, &AxisReport::drift_sd_nm_per_min);
  const Values drift = of_axes(axes, &AxisReport::drift_nm_per_min);
  if (axes.size() == 2) {
    const std::string rest = fmt::format(" nm/min, +-{:.2f} and +-{:.2f}", sd[0], sd[1]);
    lines.push_back(row("drift", drift, 2, rest.c_str()));
    return;
  }
  lines.push_back(row("drift", drift, 2, " nm/min"));
  lines.push_back(row("  +-", sd, 2, " nm/min"));
}

void add_markers_z(const MeasurementReport& report, std::vector<std::string>& lines) {
  lines.push_back("marker           fit sd z   scatter z    wander z   nm");
  for (const MarkerReport& m : report.markers) {
    const char* role = m.witness ? "witness" : "tracking";
    lines.push_back(m.z ? fmt::format("{:>4} {:<9}{:>11.2f}{:>12.2f}{:>12.2f}", m.id, role,
                                      m.z->fit_sd_nm, m.z->scatter_nm, m.z->wander_nm)
                        : fmt::format("{:>4} {:<9}  its z was not measured", m.id, role));
  }
}

json marker_z_json(const std::optional<MarkerAxial>& z) {
  if (!z) return nullptr;
  return {{"fit_sd_nm", z->fit_sd_nm},
          {"scatter_nm", z->scatter_nm},
          {"expected_nm", z->expected_nm},
          {"wander_nm", z->wander_nm}};
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
                       {"remark", m.remark},
                       {"z", marker_z_json(m.z)}});
  return {{"state", report.state},
          {"z_state", report.z_state.empty() ? json(nullptr) : json(report.z_state)},
          {"seconds", report.seconds},
          {"rate_hz", report.rate_hz},
          {"frames", report.frames},
          {"missing_share", report.missing_share},
          {"x", axis_json(report.axes[0], report.rate_hz)},
          {"y", axis_json(report.axes[1], report.rate_hz)},
          {"z", report.z ? axis_json(*report.z, report.rate_hz) : json(nullptr)},
          {"z_missing_share", report.z ? json(report.z_missing_share) : json(nullptr)},
          {"markers_allow_nm", report.markers_allow_nm},
          {"markers_allow_z_nm", report.z ? json(report.markers_allow_z_nm) : json(nullptr)},
          {"markers", markers}};
}

std::vector<std::string> to_lines(const MeasurementReport& report) {
  std::vector<const AxisReport*> axes = {&report.axes[0], &report.axes[1]};
  if (report.z) axes.push_back(&*report.z);
  const AxisReport &x = report.axes[0], &y = report.axes[1];
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:.1f} s, {} at {:.1f} Hz, {:.2f} % without a position",
                              report.seconds, counted(report.frames, "frame"), report.rate_hz,
                              100 * report.missing_share));
  lines.push_back(report.state == "locked"
                      ? "locked: what the lock leaves, as it sees it itself"
                      : report.state + ": not corrected, the sample's own motion");
  if (report.z && report.z_state == "locked")
    lines.push_back("z locked: what its lock leaves, as it sees it itself");
  else if (report.z && !report.z_state.empty() && report.state == "locked")
    lines.push_back("z " + report.z_state + ": not corrected, the sample's own motion");
  if (report.z && report.z_missing_share > 0)
    lines.push_back(fmt::format("{:.2f} % of these without z", 100 * report.z_missing_share));
  lines.push_back(fmt::format("{:<26}{:>9}{:>9}", "", "x", "y") +
                  (report.z ? fmt::format("{:>9}", "z") : ""));
  add_drift(axes, lines);
  lines.push_back(row("rms about that", of_axes(axes, &AxisReport::about_line_nm)));
  lines.push_back(
      row("noise of a frame", of_axes(axes, &AxisReport::frame_noise_nm), 3,
          report.z ? " nm, spectrum's upper half" : " nm, from the spectrum's upper half"));
  lines.push_back(row("  as the frames say", of_axes(axes, &AxisReport::promised_noise_nm)));
  Values allow = {report.markers_allow_nm[0], report.markers_allow_nm[1]};
  if (report.z) allow.push_back(report.markers_allow_z_nm);
  lines.push_back(row("  as the markers allow", allow));
  add_lines("x", x.lines, report.rate_hz, lines);
  add_lines("y", y.lines, report.rate_hz, lines);
  if (report.z) add_lines("z", report.z->lines, report.rate_hz, lines);
  for (std::size_t i = 0; i < x.allan.size(); ++i) {
    Values deviations;
    for (const AxisReport* axis : axes)  // of z the last frames may be missing
      if (i < axis->allan.size()) deviations.push_back(axis->allan[i].deviation_nm);
    lines.push_back(row(fmt::format("{}{:>10.3f} s", i == 0 ? "Allan dev.  " : "            ",
                                    x.allan[i].averaged_s),
                        deviations));
  }
  lines.push_back("marker           fit sd x, y   scatter x, y    wander x, y   nm");
  for (const MarkerReport& m : report.markers) {
    lines.push_back(fmt::format("{:>4} {:<9}{:>7.2f}{:>7.2f}{:>8.2f}{:>7.2f}{:>8.2f}{:>7.2f}", m.id,
                                m.witness ? "witness" : "tracking", m.fit_sd_nm[0], m.fit_sd_nm[1],
                                m.scatter_nm[0], m.scatter_nm[1], m.wander_nm[0], m.wander_nm[1]));
    if (!m.remark.empty()) lines.push_back("       " + m.remark);
  }
  if (report.z) add_markers_z(report, lines);
  return lines;
}

}  // namespace driftd::clients
