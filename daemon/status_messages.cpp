// SPDX-License-Identifier: MIT
#include "daemon/status_messages.hpp"

#include <algorithm>
#include <cmath>

#include "daemon/messages.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

json latency_json(const LatencySummary& latency) {
  return {{"n", latency.count},
          {"p50", latency.p50_us},
          {"p99", latency.p99_us},
          {"p99_9", latency.p99_9_us},
          {"max", latency.max_us}};
}

json camera_json(const StatusInputs& in) {
  const camera::SourceCounters& c = in.counters;
  return {{"connected", c.connected},
          {"description", in.source.description},
          {"pixel_format", camera::name_of(in.source.format)},
          {"width_px", in.source.width_px},
          {"height_px", in.source.height_px},
          {"rate_hz", number_or_null(in.loop.frame_rate_hz)},
          {"frames", c.frames},
          {"superseded", c.superseded},
          {"lost", c.lost},
          {"incomplete", c.incomplete},
          {"underruns", c.underruns},
          {"missing_packets", c.missing_packets},
          {"resent_packets", c.resent_packets},
          {"disconnects", c.disconnects},
          {"reconnects", c.reconnects}};
}

json drift_json(const LoopReport& loop) {
  const control::DriftEstimate& d = loop.drift;
  return {{"x_nm", number_or_null(d.drift_nm.x, d.valid)},
          {"y_nm", number_or_null(d.drift_nm.y, d.valid)},
          {"x_sd_nm", number_or_null(std::sqrt(d.covariance_nm2.xx), d.valid)},
          {"y_sd_nm", number_or_null(std::sqrt(d.covariance_nm2.yy), d.valid)},
          {"rms_x_nm", number_or_null(loop.rms_x_nm, loop.valid > 0)},
          {"rms_y_nm", number_or_null(loop.rms_y_nm, loop.valid > 0)},
          {"total_x_nm", loop.total_nm.x},
          {"total_y_nm", loop.total_nm.y}};
}

json marker_counts_json(const StatusInputs& in) {
  std::size_t witnesses = 0;
  for (std::size_t i = 0; i < in.markers.count; ++i) {
    if (in.markers.entries[i].marker.role == control::MarkerRole::Witness) ++witnesses;
  }
  return {{"tracking", in.markers.count - witnesses},
          {"witness", witnesses},
          {"used", in.loop.drift.markers_used},
          {"searches", in.marker_searches},
          {"found_again", in.markers_found_again}};
}

}  // namespace

nlohmann::json number_or_null(double value, bool exists) {
  return exists && std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

const char* name_of(control::MarkerRole role) noexcept {
  return role == control::MarkerRole::Witness ? "witness" : "tracking";
}

nlohmann::json status_json(const StatusInputs& in) {
  const LoopReport& loop = in.loop;
  return {{"time_ns", in.time_ns},
          {"version", kVersion},
          {"uptime_s", in.uptime_s},
          {"state", control::name_of(loop.lock.state)},
          {"reason", control::name_of(loop.lock.reason)},
          {"state_since_ns", loop.lock.since_ns},
          {"lock_id", loop.lock_id},
          {"camera", camera_json(in)},
          {"loop",
           {{"fitted", loop.fitted},
            {"stale", loop.stale},
            {"valid", loop.valid},
            {"corrections", loop.corrections},
            {"withheld", in.withheld},
            {"queue_dropped", loop.queue_dropped}}},
          {"drift", drift_json(loop)},
          {"markers", marker_counts_json(in)},
          {"fitter",
           {{"backend", in.fitter_description.substr(0, in.fitter_description.find(' '))},
            {"description", in.fitter_description},
            {"roi_px", in.roi_px},
            {"reason", in.fitter_reason},
            {"estimator", in.estimator},
            {"estimator_reason", in.estimator_reason}}},
          {"realtime",
           {{"mode", in.realtime.mode},
            {"scheduled", in.realtime.scheduled},
            {"memory_locked", in.realtime.memory_locked},
            {"notes", in.realtime.notes}}},
          {"latency_us",
           {{"total", latency_json(in.total)},
            {"cut", latency_json(in.cut)},
            {"fit", latency_json(in.fit)},
            {"control", latency_json(in.control)},
            {"publish", latency_json(in.publish)}}}};
}

nlohmann::json markers_json(const MarkersReport& report, double pixel_size_nm) {
  json list = json::array();
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& e = report.entries[i];
    const control::MarkerObservation& o = e.observation;
    const bool referenced = o.fitted && e.result.health != control::MarkerHealth::Unreferenced;
    list.push_back({{"id", e.marker.id},
                    {"role", name_of(e.marker.role)},
                    {"health", control::name_of(e.result.health)},
                    {"x_px", number_or_null(o.x_px, o.fitted)},
                    {"y_px", number_or_null(o.y_px, o.fitted)},
                    {"x_sd_nm", number_or_null(o.x_sd_px * pixel_size_nm, o.fitted)},
                    {"y_sd_nm", number_or_null(o.y_sd_px * pixel_size_nm, o.fitted)},
                    {"sigma_px", number_or_null(o.sigma_px, o.fitted)},
                    {"amplitude_adu", number_or_null(o.amplitude_adu, o.fitted)},
                    {"background_adu", number_or_null(o.background_adu, o.fitted)},
                    {"dx_nm", number_or_null(e.result.displacement_nm.x, referenced)},
                    {"dy_nm", number_or_null(e.result.displacement_nm.y, referenced)},
                    {"residual_x_nm", number_or_null(e.result.residual_nm.x, referenced)},
                    {"residual_y_nm", number_or_null(e.result.residual_nm.y, referenced)}});
  }
  return {{"frame_id", report.frame_id}, {"arrival_ns", report.arrival_ns}, {"markers", list}};
}

}  // namespace driftd::daemon
