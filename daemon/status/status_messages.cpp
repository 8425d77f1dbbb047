// SPDX-License-Identifier: MIT
#include "daemon/status/status_messages.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/aliases.hpp"
#include "control/law/observer/observer_tuner.hpp"
#include "daemon/loop/messages.hpp"
#include "daemon/status/cure.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

bool is_current(const StatusInputs& in, std::int64_t arrival_ns) {
  return in.counters.connected && in.loop.is_current(arrival_ns, in.time_ns);
}

template <typename T>
json value_or_null(const T& value, bool exists) {
  return exists ? json(value) : json(nullptr);
}

json latency_json(const LatencySummary& latency) {
  const bool any = latency.count > 0;
  return {{"n", latency.count},
          {"p50", number_or_null(latency.p50_us, any)},
          {"p99", number_or_null(latency.p99_us, any)},
          {"p99_9", number_or_null(latency.p99_9_us, any)},
          {"max", number_or_null(latency.max_us, any)},
          {"sum", latency.sum_us},
          {"at_most", latency.at_most}};
}

json camera_json(const StatusInputs& in) {
  const camera::SourceCounters& c = in.counters;
  const bool known = in.source.width_px > 0;  // one was connected
  const bool sends = is_current(in, in.loop.frame_ns) && in.loop.frame_rate_hz > 0;
  json notes = json::array();
  for (const camera::CameraNote& note : in.source.camera_notes) notes.push_back(note_json(note));
  return {{"connected", c.connected},
          {"problem", in.camera_problem},
          {"description", value_or_null(in.source.description, known)},
          {"pixel_format", value_or_null(camera::name_of(in.source.format), known)},
          {"width_px", value_or_null(in.source.width_px, known)},
          {"height_px", value_or_null(in.source.height_px, known)},
          {"rate_hz", number_or_null(in.loop.frame_rate_hz, sends)},
          {"frames", c.frames},
          {"superseded", c.superseded},
          {"lost", c.lost},
          {"incomplete", c.incomplete},
          {"underruns", c.underruns},
          {"missing_packets", c.missing_packets},
          {"resent_packets", c.resent_packets},
          {"disconnects", c.disconnects},
          {"reconnects", c.reconnects},
          {"temperature_c", number_or_null(c.temperature_c, c.connected)},
          {"notes", notes},
          {"clock",
           {{"trust", name_of(in.loop.clock_trust)},
            {"steps", in.loop.clock_steps},
            {"jumps", in.loop.clock_jumps}}}};
}

/// `total` stays: the stage has been told so, whatever the camera does.
json drift_json(const StatusInputs& in) {
  const LoopReport& loop = in.loop;
  const control::DriftEstimate& d = loop.drift;
  const bool current = is_current(in, loop.tracked_ns);
  const bool valid = current && d.valid;
  const std::int64_t gone_ns = loop.markers_gone_since_ns;
  const bool has_rms = current && loop.valid > 0 && (gone_ns == 0 || is_current(in, gone_ns));
  const bool locked_once = loop.lock_id > 0;
  return {{"x_nm", number_or_null(d.drift_nm.x, valid)},
          {"y_nm", number_or_null(d.drift_nm.y, valid)},
          {"x_sd_nm", number_or_null(std::sqrt(d.covariance_nm2.xx), valid)},
          {"y_sd_nm", number_or_null(std::sqrt(d.covariance_nm2.yy), valid)},
          {"rms_x_nm", number_or_null(loop.rms_x_nm, has_rms)},
          {"rms_y_nm", number_or_null(loop.rms_y_nm, has_rms)},
          {"total_x_nm", number_or_null(loop.total_nm.x, locked_once)},
          {"total_y_nm", number_or_null(loop.total_nm.y, locked_once)}};
}

LockTrouble trouble_of(const StatusInputs& in) {
  const LoopReport& loop = in.loop;
  const bool reports = in.stage_driver.is_object();
  const bool ready = reports && in.stage_driver.value("state", "") == "ready";
  return {.lock = loop.lock,
          .stage = loop.stage,
          .driver_reports = reports,
          .driver_ready = ready,
          .driver_says = reports && !ready ? in.stage_driver.value("text", "") : "",
          .has_frames = is_current(in, loop.frame_ns),
          .sees_markers = is_current(in, loop.tracked_ns) && loop.drift.valid,
          .resumed = loop.resumed,
          .jumped_nm = loop.jumped_nm,
          .max_jump_nm = in.max_jump_nm,
          .at_start = in.at_start_waits,
          .offered = !in.interrupted.is_null()};
}

/// Without the residual, whose axes have names.
json gate_json(const control::GateState& gate, bool current, const StatusInputs& in) {
  const bool ended = gate.in_lock && !current;  // with the last frame
  const std::int64_t since_ns = ended ? in.loop.tracked_ns : gate.since_ns;
  return {{"in_lock", gate.in_lock && current},
          {"reason", ended ? "no_frames" : control::name_of(gate.reason)},
          {"since_ns", since_ns > 0 ? since_ns : in.start_ns},
          {"tolerance_nm", number_or_null(gate.tolerance_nm)},
          {"closed", gate.closed}};
}

/// Whether every lock that is engaged holds still, and why the one of x and y does or does not.
json gate_json(const StatusInputs& in) {
  const control::GateState& gate = in.loop.gate;
  const bool current = is_current(in, in.loop.tracked_ns);
  json now = gate_json(gate, current, in);
  now["in_lock"] = in.loop.all_in_lock() && current;
  if (gate.in_lock && current && now["in_lock"] == false) now["reason"] = "axial";
  if (now["in_lock"] == true) now["reason"] = control::name_of(control::GateReason::InLock);
  now["residual_x_nm"] = number_or_null(gate.residual_nm.x, current);
  now["residual_y_nm"] = number_or_null(gate.residual_nm.y, current);
  return now;
}

json forecast_json(const std::optional<control::ResidualForecast>& forecast) {
  const bool known = forecast.has_value();
  const control::ResidualForecast f = forecast.value_or(control::ResidualForecast{});
  return {{"total_nm", number_or_null(std::sqrt(f.total_nm2()), known)},
          {"motion_nm", number_or_null(std::sqrt(f.motion_nm2), known)},
          {"markers_nm", number_or_null(std::sqrt(f.markers_nm2), known)},
          {"stage_nm", number_or_null(std::sqrt(f.stage_nm2), known)},
          {"lag_nm", number_or_null(std::sqrt(f.lag_nm2), known)},
          {"stage_known_in_s", number_or_null(f.stage_known_in_s, known)}};
}

/// Frames until the first model is looked for.
std::uint64_t frames_to_learn(const control::AxisMotion& axis) {
  constexpr std::uint64_t kNeeded = control::ObserverTuner::kLeastFrames;
  return axis.frames < kNeeded ? kNeeded - axis.frames : 0;
}

json motion_json(const char* name, const control::AxisMotion& axis,
                 const std::optional<control::ResidualForecast>& forecast) {
  json lines = json::array();
  for (std::size_t i = 0; axis.tuned && i < axis.model.line_count; ++i) {
    constexpr std::size_t kTold = 4;
    const double rate_hz = axis.period_s > 0 ? 1 / axis.period_s : 0;
    const control::Line& line = axis.model.lines[i];
    const bool is_alias = line.origin == control::LineOrigin::Alias;
    const bool is_known = line.origin != control::LineOrigin::Unknown;
    lines.push_back(
        {{"frequency_hz", is_alias ? seen_hz(line.frequency_hz, rate_hz) : line.frequency_hz},
         {"amplitude_nm", axis.amplitudes_nm[i]},
         {"q", number_or_null(std::numbers::pi * line.frequency_hz / line.fade_per_s, true)},
         {"followed", line.followed},
         {"verified", is_known},
         {"alias_of_hz", number_or_null(line.frequency_hz, is_alias)},
         {"look_alikes_hz",
          is_known ? std::vector<double>{} : look_alikes_hz(line.frequency_hz, rate_hz, kTold)}});
  }
  const bool learnt = axis.tuned;  // else the model is what the observer begins with
  return {{"axis", name},
          {"learnt", learnt},
          {"frames_to_learn", learnt ? 0 : frames_to_learn(axis)},
          {"walk_nm_per_sqrt_s", number_or_null(std::sqrt(axis.model.walk_nm2_per_s), learnt)},
          {"noise_nm", number_or_null(std::sqrt(axis.model.noise_nm2), learnt)},
          {"sd_nm", number_or_null(axis.sd_nm, learnt)},
          {"surprise", number_or_null(axis.surprise, learnt)},
          {"stage_gain", number_or_null(axis.stage.gain, learnt)},
          {"stage_late_us", number_or_null(1e6 * axis.stage.late_s, learnt)},
          {"lines", lines},
          {"forecast", forecast_json(forecast)}};
}

/// `law` only of a lock, `axes` of one that the observer sees: it holds it, or rests while PI does.
json control_json(const LockReport& lock, AxisGroup group) {
  const control::LawState& law = lock.law;
  const bool holds = lock.holds();
  const bool judged = holds && law.left_nm > 0;
  const bool seen = law.observer || law.reason == control::LawReason::WorseThanPi ||
                    law.reason == control::LawReason::DriverTooSlow;
  json axes = json::array();
  const bool axial = group == AxisGroup::Axial;
  if (holds && seen && lock.motion[0].sd_nm > 0)
    for (std::size_t i = 0; i < (axial ? 1 : control::kAxes); ++i)
      axes.push_back(motion_json(
          axial    ? "z"
          : i == 0 ? "x"
                   : "y",
          lock.motion[i], law.observer ? lock.forecast[i] : std::nullopt));  // of its own holding
  return {{"law", !holds         ? ""
                  : law.observer ? "observer"
                                 : "pi"},
          {"reason", control::name_of(law.reason)},
          {"left_nm", number_or_null(law.left_nm, judged)},
          {"pi_left_nm", number_or_null(law.pi_left_nm, judged)},
          {"axes", axes}};
}

/// An octave is told once so many differences make its deviation worth something.
constexpr std::uint32_t kDifferencesToTell = 4;

json allan_json(const control::StillnessMeasure& measure, double frame_s) {
  json list = json::array();
  double tau_s = frame_s;
  for (const control::AllanOctave& octave : measure.allan) {
    if (frame_s > 0 && octave.differences >= kDifferencesToTell) {
      list.push_back({{"tau_s", tau_s},
                      {"x_nm", std::sqrt(octave.variance_nm2.x)},
                      {"y_nm", std::sqrt(octave.variance_nm2.y)},
                      {"differences", octave.differences}});
    }
    tau_s *= 2;
  }
  return list;
}

json measure_json(const control::StillnessMeasure& measure, double frame_s, bool current) {
  const bool any = current && measure.frames > 0;
  return {{"frames", current ? measure.frames : 0},
          {"rms_x_nm", number_or_null(measure.rms_nm.x, any)},
          {"rms_y_nm", number_or_null(measure.rms_nm.y, any)},
          {"mean_x_nm", number_or_null(measure.mean_nm.x, any)},
          {"mean_y_nm", number_or_null(measure.mean_nm.y, any)},
          {"noise_x_nm", number_or_null(measure.noise_nm.x, any)},
          {"noise_y_nm", number_or_null(measure.noise_nm.y, any)},
          {"allan", any ? allan_json(measure, frame_s) : json::array()}};
}

/// What the witnesses show beyond their noise is the sample's own.
double beyond_noise_nm(double rms_nm, double noise_nm) {
  return std::sqrt(std::max(0.0, rms_nm * rms_nm - noise_nm * noise_nm));
}

json residual_json(const StatusInputs& in) {
  const control::StillnessMeasure& out = in.loop.residual.out_of_loop;
  const double frame_s = in.loop.frame_rate_hz > 0 ? 1 / in.loop.frame_rate_hz : 0;
  const bool current = is_current(in, in.loop.tracked_ns);
  const bool has_witness = current && out.frames > 0;
  json witnesses = measure_json(out, frame_s, current);
  witnesses["sample_x_nm"] =
      number_or_null(beyond_noise_nm(out.rms_nm.x, out.noise_nm.x), has_witness);
  witnesses["sample_y_nm"] =
      number_or_null(beyond_noise_nm(out.rms_nm.y, out.noise_nm.y), has_witness);
  return {{"in_loop", measure_json(in.loop.residual.in_loop, frame_s, current)},
          {"out_of_loop", witnesses}};
}

json marker_counts_json(const StatusInputs& in) {
  std::size_t witnesses = 0, excluded = 0;
  for (std::size_t i = 0; i < in.markers.count; ++i) {
    if (in.markers.entries[i].marker.role == control::MarkerRole::Witness) ++witnesses;
    if (in.markers.entries[i].standing.excluded) ++excluded;
  }
  return {{"tracking", in.markers.count - witnesses},
          {"witness", witnesses},
          {"used", value_or_null(in.loop.drift.markers_used, is_current(in, in.loop.tracked_ns))},
          {"excluded", excluded},
          {"chosen", in.markers_chosen},
          {"searches", in.marker_searches},
          {"found_again", in.markers_found_again}};
}

LockTrouble axial_trouble_of(const StatusInputs& in) {
  const LockReport& z = in.loop.z;
  const bool reports = in.axial_driver.is_object();
  const bool ready = reports && in.axial_driver.value("state", "") == "ready";
  return {.lock = z.lock,
          .stage = z.stage,
          .driver_reports = reports,
          .driver_ready = ready,
          .driver_says = reports && !ready ? in.axial_driver.value("text", "") : "",
          .has_frames = is_current(in, in.loop.frame_ns),
          .sees_markers = is_current(in, in.loop.tracked_ns) && z.drift.valid,
          .resumed = z.resumed,
          .jumped_nm = z.jumped_nm,
          .max_jump_nm = in.axial_max_jump_nm,
          .while_idle = in.axial_waits.empty() ? in.axial_idle : in.axial_waits,
          .at_start = in.axial_at_start_waits,
          .of_z = true,
          .no_z = in.axial.is_object() ? in.axial.value("text", "") : ""};
}

/// `status.axial.lock`, called as `status` calls what is of the lock of x and y.
json axial_lock_json(const StatusInputs& in) {
  const LockReport& z = in.loop.z;
  const bool current = is_current(in, in.loop.tracked_ns);
  json gate = gate_json(z.gate, current, in);
  gate["residual_z_nm"] = number_or_null(z.gate.residual_nm.x, current);
  return {{"state", control::name_of(z.lock.state)},
          {"reason", control::name_of(z.lock.reason)},
          {"cure", cure_of(axial_trouble_of(in))},
          {"held_for", control::name_of(z.lock.held_for)},
          {"held_first", control::name_of(control::held_before(z.lock))},
          {"state_since_ns", z.lock.since_ns > 0 ? z.lock.since_ns : in.start_ns},
          {"reference_frames_left", z.reference_left},
          {"lock_id", z.lock_id},
          {"stage", control::name_of(z.stage)},
          {"acquaintance", in.axial_acquaintance},
          {"stage_driver", in.axial_driver},
          {"gate", gate},
          {"control", control_json(z, AxisGroup::Axial)},
          {"rms_z_nm", number_or_null(z.rms_x_nm, current && z.drift.valid)},
          {"total_z_nm", number_or_null(z.total_nm.x, z.lock_id > 0)},
          {"corrections", z.corrections},
          {"waits", in.axial_waits},
          {"hold", in.axial_held},
          {"warning", in.axial_lock_warning},
          {"move", in.axial_move}};
}

json axial_status(const StatusInputs& in) {
  json axial = in.axial;
  if (axial.is_object())
    axial["lock"] = in.axial_held || in.loop.z.lock_id > 0 ? axial_lock_json(in) : json(nullptr);
  return axial;
}

}  // namespace

nlohmann::json note_json(const camera::CameraNote& note) {
  const bool warning = note.severity == camera::CameraNote::Severity::Warning;
  return {{"key", note.key},
          {"asked", note.asked},
          {"got", note.got},
          {"severity", warning ? "warning" : "info"},
          {"text", note.text}};
}

const char* name_of(control::MarkerRole role) noexcept {
  return role == control::MarkerRole::Witness ? "witness" : "tracking";
}

nlohmann::json status_json(const StatusInputs& in) {
  const LoopReport& loop = in.loop;
  return {{"time_ns", in.time_ns},
          {"version", kVersion},
          {"uptime_s", static_cast<double>(in.time_ns - in.start_ns) * 1e-9},
          {"state", control::name_of(loop.lock.state)},
          {"reason", control::name_of(loop.lock.reason)},
          {"cure", cure_of(trouble_of(in))},
          {"held_for", control::name_of(loop.lock.held_for)},
          {"held_first", control::name_of(control::held_before(loop.lock))},
          {"state_since_ns", loop.lock.since_ns > 0 ? loop.lock.since_ns : in.start_ns},
          {"reference_frames_left", loop.reference_left},
          {"lock_id", loop.lock_id},
          {"stage", control::name_of(loop.stage)},
          {"acquaintance", in.acquaintance},
          {"stage_driver", in.stage_driver},
          {"interrupted", in.interrupted},
          {"gate", gate_json(in)},
          {"control", control_json(loop, AxisGroup::Lateral)},
          {"move", in.move},
          {"camera", camera_json(in)},
          {"loop",
           {{"fitted", loop.fitted},
            {"stale", loop.stale},
            {"valid", loop.valid},
            {"corrections", loop.corrections},
            {"withheld", in.withheld},
            {"expired", in.expired},
            {"refused", in.refused},
            {"queue_dropped", loop.queue_dropped}}},
          {"drift", drift_json(in)},
          {"axial", axial_status(in)},
          {"residual", residual_json(in)},
          {"markers", marker_counts_json(in)},
          {"pattern", is_current(in, in.loop.tracked_ns) ? in.pattern : json(nullptr)},
          {"record", in.record},
          {"raw_frames", in.raw_frames},
          {"wire",
           {{"connections_ended", in.connections_ended},
            {"connections_revoked", in.connections_revoked},
            {"peers_refused", in.peers_refused}}},
          {"fitter",
           {{"backend", in.fitter_description.substr(0, in.fitter_description.find(' '))},
            {"description", in.fitter_description},
            {"roi_px", in.roi_px},
            {"spot_sigma_px", in.size ? nlohmann::json(in.size->sigma_px) : nullptr},
            {"size_reason", in.size ? in.size->reason : ""},
            {"reason", in.fitter_reason},
            {"estimator", in.estimator},
            {"estimator_reason", in.estimator_reason}}},
          {"realtime",
           {{"mode", in.realtime.mode},
            {"scheduled", in.realtime.scheduled},
            {"memory_locked", in.realtime.memory_locked},
            {"notes", in.realtime.notes}}},
          {"latency_edges_us", kLatencyEdges_us},
          {"latency_us",
           {{"total", latency_json(in.total)},
            {"cut", latency_json(in.cut)},
            {"fit", latency_json(in.fit)},
            {"control", latency_json(in.control)},
            {"publish", latency_json(in.publish)}}}};
}

nlohmann::json markers_json(const MarkersReport& report, double pixel_size_nm) {
  json list = json::array();
  const bool widths = report.measures_z;
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& e = report.entries[i];
    const control::MarkerObservation& o = e.observation;
    const control::MarkerStanding& standing = e.standing;
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
                    {"residual_y_nm", number_or_null(e.result.residual_nm.y, referenced)},
                    {"reputation", standing.reputation},
                    {"reputation_reason", control::name_of(standing.reason)},
                    {"excluded", standing.excluded},
                    {"good_share", standing.good_share},
                    {"chi_square", standing.chi_square},
                    {"moved_x_nm", number_or_null(standing.moved_nm.x, referenced)},
                    {"moved_y_nm", number_or_null(standing.moved_nm.y, referenced)},
                    {"walk_x_nm_per_min", number_or_null(standing.walk_nm_per_min.x, referenced)},
                    {"walk_y_nm_per_min", number_or_null(standing.walk_nm_per_min.y, referenced)},
                    {"sigma_x_px", number_or_null(o.sigma_x_px, widths && o.fitted)},
                    {"sigma_y_px", number_or_null(o.sigma_y_px, widths && o.fitted)},
                    {"z_nm", number_or_null(e.axial.z_nm, e.axial.read)},
                    {"z_sd_nm", number_or_null(e.axial.sd_nm, e.axial.read)},
                    {"dz_nm", number_or_null(e.axial.displacement_nm, e.axial.referenced)},
                    {"residual_z_nm", number_or_null(e.axial.residual_nm, e.axial.referenced)},
                    {"z_reason", widths ? json(control::name_of(e.axial.reason)) : nullptr}});
  }
  return {{"frame_id", report.frame_id}, {"arrival_ns", report.arrival_ns}, {"markers", list}};
}

}  // namespace driftd::daemon
