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

/// "" where it is not known.
std::string time_in_words(const std::vector<double>& times_s, std::size_t frame) {
  if (frame >= times_s.size() || !std::isfinite(times_s[frame])) return {};
  return fmt::format("{:.9f}", times_s[frame]);
}

}  // namespace

void write_picasso_drift(const OutputFile& output, const DriftTrace& trace) {
  const std::vector<DriftPoint> points = without_gaps(trace.points);
  TextFile file(output);
  for (std::int64_t frame = 0; frame < trace.stack_frames; ++frame) {
    const auto last = static_cast<std::int64_t>(points.size()) - 1;
    const std::int64_t at = std::clamp<std::int64_t>(frame - trace.first_frame, 0, last);
    const DriftPoint& point = points[static_cast<std::size_t>(at)];
    file.write(fmt::format("{:.18e} {:.18e}\r\n", point.x_px, point.y_px));
  }
  file.finish();
}

void write_drift_csv(const OutputFile& output, const DriftTrace& trace) {
  TextFile file(output);
  const bool times = !trace.times_s.empty();
  file.write(fmt::format("frame,{}x_px,y_px,x_nm,y_nm,x_sd_nm,y_sd_nm,markers,missing\n",
                         times ? "time_s," : ""));
  const double nm = trace.pixel_nm;
  for (std::size_t i = 0; i < trace.points.size(); ++i) {
    const DriftPoint& p = trace.points[i];
    const std::int64_t number = trace.first_frame + static_cast<std::int64_t>(i);
    std::string frame = std::to_string(number);
    if (times) frame += "," + time_in_words(trace.times_s, static_cast<std::size_t>(number));
    if (p.markers > 0) {
      file.write(fmt::format("{},{:.6f},{:.6f},{:.4f},{:.4f},{:.4f},{:.4f},{},\n", frame, p.x_px,
                             p.y_px, p.x_px * nm, p.y_px * nm, p.x_sd_px * nm, p.y_sd_px * nm,
                             p.markers));
    } else {
      file.write(fmt::format("{},,,,,,,0,{}\n", frame, trace.reasons[i]));
    }
  }
  file.finish();
}

}  // namespace driftd::tools
