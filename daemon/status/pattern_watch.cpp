// SPDX-License-Identifier: MIT
#include "daemon/status/pattern_watch.hpp"

#include <algorithm>
#include <cmath>

#include "base/median.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

constexpr double kMilli = 1e3, kMillion = 1e6;  // of a radian, of a part

/// Whether its displacement is its own. An outlier may be one because the pattern turns.
bool is_of_pattern(const MarkersReport::Entry& entry) {
  using control::MarkerHealth;
  return entry.observation.fitted && (entry.result.health == MarkerHealth::Good ||
                                      entry.result.health == MarkerHealth::Outlier);
}

bool has_z(const MarkersReport::Entry& entry) {
  return entry.axial.referenced && std::isfinite(entry.reference.z_nm);
}

}  // namespace

void PatternWatch::Mean::forget(double kept) {
  weight *= kept;
  freshness *= kept;
  sum *= kept;
  variance_sum *= kept * kept;
}

void PatternWatch::Mean::add(double value, double variance) {
  weight += 1;
  freshness = 1;
  sum += value;
  variance_sum += variance;
}

void PatternWatch::see(const MarkersReport& report, double pixel_size_nm) {
  if (report.frame_id == frame_id_ && report.arrival_ns == arrival_ns_) return;
  const double passed_s = 1e-9 * static_cast<double>(report.arrival_ns - arrival_ns_);
  const double kept = passed_s > 0 ? std::exp(-passed_s / kForgetS) : 1;
  frame_id_ = report.frame_id;
  arrival_ns_ = report.arrival_ns;
  pixel_size_nm_ = pixel_size_nm;
  tracks_.resize(report.count);
  // What all markers have in common is the drift, which a marker may miss that is not always seen.
  std::vector<double> x_nm, y_nm, z_nm;
  for (std::size_t i = 0; i < report.count; ++i) {
    if (!is_of_pattern(report.entries[i])) continue;
    x_nm.push_back(report.entries[i].result.displacement_nm.x);
    y_nm.push_back(report.entries[i].result.displacement_nm.y);
    if (has_z(report.entries[i])) z_nm.push_back(report.entries[i].axial.displacement_nm);
  }
  const control::Vec2 common_nm = {median(std::move(x_nm)), median(std::move(y_nm))};
  const double common_z_nm = median(std::move(z_nm));
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& entry = report.entries[i];
    Track& track = tracks_[i];
    const control::Vec2 reference_px = entry.reference.place_px;
    if (track.id != entry.marker.id || track.reference_px.x != reference_px.x ||
        track.reference_px.y != reference_px.y)
      track = {.id = entry.marker.id, .reference_px = reference_px};
    track.reference_nm2 = entry.reference.variance_nm2;
    // Its z has a zero of its own, which may come later.
    if (!(track.z_reference_nm == entry.reference.z_nm)) track.z_nm = {};
    track.z_reference_nm = entry.reference.z_nm;
    track.z_reference_nm2 = entry.reference.z_variance_nm2;
    for (Mean* mean : {&track.x_nm, &track.y_nm, &track.z_nm}) mean->forget(kept);
    if (!is_of_pattern(entry)) continue;
    const control::MarkerObservation& o = entry.observation;
    track.x_nm.add(entry.result.displacement_nm.x - common_nm.x,
                   std::pow(o.x_sd_px * pixel_size_nm, 2));
    track.y_nm.add(entry.result.displacement_nm.y - common_nm.y,
                   std::pow(o.y_sd_px * pixel_size_nm, 2));
    if (has_z(entry))
      track.z_nm.add(entry.axial.displacement_nm - common_z_nm, std::pow(entry.axial.sd_nm, 2));
  }
}

control::PatternChange PatternWatch::change() const {
  constexpr double kSeldom = 0.05;  // of the one seen most often
  double most = 0;
  double most_z = 0;
  for (const Track& track : tracks_) most = std::max(most, track.x_nm.weight);
  for (const Track& track : tracks_) most_z = std::max(most_z, track.z_nm.weight);
  std::vector<control::PatternMarker> markers;
  for (const Track& track : tracks_) {
    if (!track.x_nm.is_of_now() || !(track.x_nm.weight > kSeldom * most)) continue;
    const double variance_nm2 =
        track.reference_nm2 + 0.5 * (track.x_nm.variance() + track.y_nm.variance());
    if (!(variance_nm2 > 0) || !std::isfinite(variance_nm2)) continue;
    markers.push_back(
        {.place_nm = {track.reference_px.x * pixel_size_nm_, track.reference_px.y * pixel_size_nm_},
         .moved_nm = {track.x_nm.value(), track.y_nm.value()},
         .variance_nm2 = variance_nm2});
    if (!track.z_nm.is_of_now() || !(track.z_nm.weight > kSeldom * most_z)) continue;
    markers.back().z_moved_nm = track.z_nm.value();
    markers.back().z_variance_nm2 = track.z_reference_nm2 + track.z_nm.variance();
  }
  return control::pattern_change(markers);
}

nlohmann::json pattern_json(const control::PatternChange& c) {
  if (!c.measured && !c.tilted) return nullptr;
  return {{"rotation_mrad", number_or_null(kMilli * c.rotation_rad, c.measured)},
          {"rotation_sd_mrad", number_or_null(kMilli * c.rotation_sd_rad, c.measured)},
          {"scale_ppm", number_or_null(kMillion * c.scale, c.measured)},
          {"scale_sd_ppm", number_or_null(kMillion * c.scale_sd, c.measured)},
          {"markers_used", c.measured ? nlohmann::json(c.markers) : nullptr},
          {"tilt_x_mrad", number_or_null(kMilli * c.tilt_rad.x, c.tilted)},
          {"tilt_x_sd_mrad", number_or_null(kMilli * c.tilt_sd_rad.x, c.tilted)},
          {"tilt_y_mrad", number_or_null(kMilli * c.tilt_rad.y, c.tilted)},
          {"tilt_y_sd_mrad", number_or_null(kMilli * c.tilt_sd_rad.y, c.tilted)}};
}

record::PatternRow pattern_row(const control::PatternChange& c, std::int64_t time_ns) {
  record::PatternRow row;
  row.time_ns = time_ns;
  if (c.measured) {
    row.markers_used = static_cast<std::uint16_t>(c.markers);
    row.rotation_mrad = kMilli * c.rotation_rad;
    row.rotation_sd_mrad = kMilli * c.rotation_sd_rad;
    row.scale_ppm = kMillion * c.scale;
    row.scale_sd_ppm = kMillion * c.scale_sd;
  }
  if (c.tilted) {
    row.tilt_x_mrad = kMilli * c.tilt_rad.x;
    row.tilt_x_sd_mrad = kMilli * c.tilt_sd_rad.x;
    row.tilt_y_mrad = kMilli * c.tilt_rad.y;
    row.tilt_y_sd_mrad = kMilli * c.tilt_sd_rad.y;
  }
  return row;
}

}  // namespace driftd::daemon
