// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tools/driftfit/drift_trace.hpp"

namespace driftd::tools {
namespace {

/// The drift in every frame, gaps filled.
std::vector<DriftPoint> without_gaps(std::vector<DriftPoint> points) {
  const auto known = [](const DriftPoint& p) { return p.markers > 0; };
  auto left = std::find_if(points.begin(), points.end(), known);
  if (left == points.end()) return points;
  std::fill(points.begin(), left, *left);
  while (true) {
    const auto right = std::find_if(std::next(left), points.end(), known);
    if (right == points.end()) break;
    const auto span = static_cast<double>(std::distance(left, right));
    for (auto at = std::next(left); at != right; ++at) {
      const double share = static_cast<double>(std::distance(left, at)) / span;
      at->x_px = left->x_px + share * (right->x_px - left->x_px);
      at->y_px = left->y_px + share * (right->y_px - left->y_px);
    }
    left = right;
  }
  std::fill(std::next(left), points.end(), *left);
  return points;
}

/// The same of z, which some frame has.
std::vector<double> without_gaps(const std::vector<AxialPoint>& points) {
  std::vector<double> z_nm(points.size());
  std::size_t last = points.size();
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].markers == 0) continue;
    z_nm[i] = points[i].z_nm;
    const std::size_t begin = last == points.size() ? 0 : last + 1;
    const double from_nm = last == points.size() ? z_nm[i] : z_nm[last];
    for (std::size_t k = begin; k < i; ++k) {
      const double share = static_cast<double>(k + 1 - begin) / static_cast<double>(i + 1 - begin);
      z_nm[k] = from_nm + share * (z_nm[i] - from_nm);
    }
    last = i;
  }
  for (std::size_t k = last + 1; k < points.size(); ++k) z_nm[k] = z_nm[last];
  return z_nm;
}

/// "" where it is not known.
std::string time_in_words(const std::vector<double>& times_s, std::size_t frame) {
  if (frame >= times_s.size() || !std::isfinite(times_s[frame])) return {};
  return fmt::format("{:.9f}", times_s[frame]);
}

std::string axial_columns(const DriftTrace& trace, std::size_t i) {
  const AxialPoint& p = trace.axial[i];
  if (p.markers == 0) return fmt::format(",,,0,{}", trace.axial_reasons[i]);
  return fmt::format(",{:.4f},{:.4f},{},", p.z_nm, p.sd_nm, p.markers);
}

}  // namespace

void write_picasso_drift(const OutputFile& output, const DriftTrace& trace) {
  const std::vector<DriftPoint> points = without_gaps(trace.points);
  const std::vector<double> z_nm = without_gaps(trace.axial);
  TextFile file(output);
  for (std::int64_t frame = 0; frame < trace.stack_frames; ++frame) {
    const auto last = static_cast<std::int64_t>(points.size()) - 1;
    const std::int64_t at = std::clamp<std::int64_t>(frame - trace.first_frame, 0, last);
    const DriftPoint& point = points[static_cast<std::size_t>(at)];
    file.write(fmt::format("{:.18e} {:.18e}", point.x_px, point.y_px));
    if (!z_nm.empty()) file.write(fmt::format(" {:.18e}", z_nm[static_cast<std::size_t>(at)]));
    file.write("\r\n");
  }
  file.finish();
}

void write_drift_csv(const OutputFile& output, const DriftTrace& trace) {
  TextFile file(output);
  const bool times = !trace.times_s.empty();
  file.write(fmt::format("frame,{}x_px,y_px,x_nm,y_nm,x_sd_nm,y_sd_nm,markers,missing{}\n",
                         times ? "time_s," : "",
                         trace.axial.empty() ? "" : ",z_nm,z_sd_nm,z_markers,z_missing"));
  const double nm = trace.pixel_nm;
  for (std::size_t i = 0; i < trace.points.size(); ++i) {
    const DriftPoint& p = trace.points[i];
    const std::int64_t number = trace.first_frame + static_cast<std::int64_t>(i);
    std::string frame = std::to_string(number);
    if (times) frame += "," + time_in_words(trace.times_s, static_cast<std::size_t>(number));
    if (p.markers > 0) {
      file.write(fmt::format("{},{:.6f},{:.6f},{:.4f},{:.4f},{:.4f},{:.4f},{},", frame, p.x_px,
                             p.y_px, p.x_px * nm, p.y_px * nm, p.x_sd_px * nm, p.y_sd_px * nm,
                             p.markers));
    } else {
      file.write(fmt::format("{},,,,,,,0,{}", frame, trace.reasons[i]));
    }
    if (!trace.axial.empty()) file.write(axial_columns(trace, i));
    file.write("\n");
  }
  file.finish();
}

}  // namespace driftd::tools
