// SPDX-License-Identifier: MIT
#include "clients/web/recent_places.hpp"

#include <cmath>
#include <vector>

#include "clients/common/measure/measurement.hpp"
#include "clients/web/messages.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestGap = 64;  // frames: across more nothing is drawn
constexpr std::size_t kFewest = 64;

}  // namespace

void RecentPlaces::add(std::uint64_t frame_id, double t_s, const Pair& place_nm) {
  if (!frames_.empty()) {
    const Frame& last = frames_.back();
    if (frame_id <= last.id || frame_id - last.id > kLongestGap || t_s <= last.t_s) clear();
  }
  if (!std::isfinite(t_s) || !std::isfinite(place_nm[0]) || !std::isfinite(place_nm[1])) return;
  frames_.push_back({frame_id, t_s, place_nm});
  while (frames_.size() > kMostFrames || t_s - frames_.front().t_s > kSeconds) frames_.pop_front();
}

std::optional<json> RecentPlaces::spectrum() const {
  if (frames_.size() < kFewest) return std::nullopt;
  const std::uint64_t frames = frames_.back().id - frames_.front().id;
  if (frames > 2 * frames_.size()) return std::nullopt;
  const double seconds = frames_.back().t_s - frames_.front().t_s;
  const double rate_hz = static_cast<double>(frames) / seconds;
  json message = {{"kind", "spectrum"},
                  {"rate_hz", number_or_null(rate_hz)},
                  {"seconds", number_or_null(seconds)}};
  for (const char* key : {"density_nm2_per_hz", "lines", "allan", "noise_nm"})
    message[key] = json::array();
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::vector<double> places_nm;  // a missing frame's between those around it
    for (const Frame& frame : frames_) {
      const std::uint64_t from = frames_.front().id + places_nm.size();
      const double before_nm = places_nm.empty() ? frame.nm[axis] : places_nm.back();
      const auto steps = static_cast<double>(frame.id + 1 - from);
      for (std::uint64_t id = from; id <= frame.id; ++id)
        places_nm.push_back(before_nm + (frame.nm[axis] - before_nm) *
                                            static_cast<double>(id + 1 - from) / steps);
    }
    const clients::AxisReport report = clients::analyse_axis(places_nm, rate_hz);
    json density = json::array();
    for (const double value : report.spectrum.density_nm2_per_hz)
      density.push_back(static_cast<float>(value));
    json lines = json::array();
    for (const clients::VibrationLine& line : report.lines)
      lines.push_back({{"frequency_hz", number_or_null(line.frequency_hz)},
                       {"amplitude_nm", number_or_null(line.amplitude_nm)}});
    json allan = json::array();
    for (const clients::AllanPoint& point : report.allan)
      allan.push_back(
          {{"averaged_s", point.averaged_s}, {"deviation_nm", number_or_null(point.deviation_nm)}});
    message["density_nm2_per_hz"].push_back(std::move(density));
    message["lines"].push_back(std::move(lines));
    message["allan"].push_back(std::move(allan));
    message["noise_nm"].push_back(number_or_null(report.frame_noise_nm));
    message["spacing_hz"] = report.spectrum.spacing_hz;
  }
  return message;
}

}  // namespace driftd::web
