// SPDX-License-Identifier: MIT
#include "clients/common/shown/daemon_view.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/axial_lock.hpp"
#include "clients/common/shown/axial_lines.hpp"
#include "clients/common/shown/daemon_lines.hpp"
#include "clients/common/shown/fields.hpp"
#include "clients/common/shown/lock_lines.hpp"
#include "clients/common/shown/marker_lines.hpp"

namespace driftd::clients {

namespace {

using nlohmann::json;

constexpr std::size_t kEventsKept = 4;

}  // namespace

void DaemonView::update(const Message& message, std::int64_t now_ns) {
  lost_ += message.lost;
  if (message.restarted) {
    // One restart shows on every topic; the start of the new session's status counts it once.
    if (message.topic == "status") ++restarts_;
    if (message.topic == "position") correction_ = axial_ = nullptr;
  }
  last_ns_ = now_ns;
  const json* state = shown::find(message.body, "/state");
  const bool of_xy = shown::text(message.body, "/code") != "axial_state_changed";
  if (of_xy && state != nullptr && state->is_string()) state_ = state->get<std::string>();
  if (message.topic == "status") {
    status_ = message.body;
    status_ns_ = now_ns;
    // No frames come: the last position tells of a past.
    const json* rate = shown::find(status_, "/camera/rate_hz");
    if (rate != nullptr && rate->is_null()) position_ = nullptr;
  }
  if (message.topic == "position") position_ = message.body;
  if (message.topic == "correction") correction_ = message.body;
  if (message.topic == "axial") axial_ = message.body;
  if (message.topic == "markers") markers_ = message.body;
  if (message.topic == "event") {
    const std::string level = shown::text(message.body, "/level");
    const Tone tone = level == "error" ? Tone::Bad : level == "warning" ? Tone::Warning : Tone::Dim;
    events_.push_back({shown::text(message.body, "/text"), tone});
    if (events_.size() > kEventsKept) events_.pop_front();
  }
}

void DaemonView::set_status(const json& status, std::int64_t now_ns) {
  Message message;
  message.topic = "status";
  message.body = status;
  update(message, now_ns);
}

double DaemonView::silence_s(std::int64_t now_ns) const noexcept {
  return last_ns_ == 0 ? -1.0 : static_cast<double>(now_ns - last_ns_) * 1e-9;
}

Line DaemonView::state_line(std::int64_t now_ns) const {
  const double silence_s = this->silence_s(now_ns);
  if (silence_s > shown::kSilentAfter_s) {
    return {
        fmt::format("state       unknown: no message for {:.0f} s (last: {})", silence_s, state_),
        Tone::Bad};
  }
  std::string line = "state       " + state_;
  // The status may be older than the state; its reason then belongs to another state.
  if (shown::text(status_, "/state") == state_)
    line += shown::since_and_why(status_, shown::find(status_, "/time_ns"),
                                 static_cast<double>(now_ns - status_ns_) * 1e-9) +
            fmt::format("   lock {}", shown::number(status_, "/lock_id"));
  return {line, shown::tone_of_state(state_)};
}

std::vector<Line> DaemonView::summary(std::int64_t now_ns) const {
  std::vector<Line> lines;
  const json* uptime = shown::find(status_, "/uptime_s");
  lines.push_back(
      {fmt::format(
           "driftd {}   up {}", shown::text(status_, "/version"),
           uptime != nullptr && uptime->is_number() ? shown::duration(uptime->get<double>()) : "-"),
       Tone::Heading});
  if (lost_ > 0 || restarts_ > 0) {
    lines.push_back({fmt::format("received    {} messages missing, {} restarts of driftd seen",
                                 lost_, restarts_),
                     Tone::Warning});
  }
  lines.push_back(state_line(now_ns));
  if (shown::text(status_, "/state") == state_)
    shown::add_text(status_, "/cure", Tone::Warning, lines);
  shown::add_text(status_, "/acquaintance/text", Tone::Plain, lines);
  shown::add_text(status_, "/interrupted/text", Tone::Warning, lines);
  lines.push_back(shown::camera_line(status_));
  shown::add_text(status_, "/camera/problem", Tone::Bad, lines);  // why there is none
  shown::add_camera_warnings(status_, lines);
  lines.push_back(shown::frames_line(status_));
  lines.push_back(shown::markers_line(status_));
  lines.push_back({fmt::format("{:<12}{:>11}{:>11}", "", "x", "y"), Tone::Dim});
  // Live when subscribed to positions, else as of the last status.
  const json drift =
      shown::find(status_, "/drift") != nullptr ? status_.at("drift") : json(nullptr);
  const json& newest = position_.is_object() ? position_ : drift;
  lines.push_back(shown::drift_line(newest, status_));
  shown::add_set_point(status_, lines);
  shown::add_z(status_, position_, lines);
  lines.push_back(shown::pair("drift rms", shown::number(drift, "/rms_x_nm", "{:.3f}"),
                              shown::number(drift, "/rms_y_nm", "{:.3f}"), "   last seconds"));
  shown::add_residual(status_, lines);
  lines.push_back(shown::gate_line("in lock", status_, silence_s(now_ns) > shown::kSilentAfter_s));
  shown::add_law("law", status_, lines);
  if (position_.is_object()) {
    const std::string z = shown::number(position_, "/witness_z_nm", "{:+.3f}");
    lines.push_back(shown::pair("witnesses", shown::number(position_, "/witness_x_nm", "{:+.3f}"),
                                shown::number(position_, "/witness_y_nm", "{:+.3f}"),
                                z == "-" || !shown::has_axial(status_) ? "" : "   z " + z + " nm"));
  }
  shown::add_pattern(status_, lines);
  const json& total = correction_.is_object() ? correction_ : drift;
  lines.push_back(shown::pair("correction", shown::number(total, "/total_x_nm", "{:+.3f}"),
                              shown::number(total, "/total_y_nm", "{:+.3f}"),
                              shown::limits(correction_)));
  shown::add_stage("stage", status_, lines);
  shown::add_axial_lock(status_, axial_, static_cast<double>(now_ns - status_ns_) * 1e-9, lines);
  shown::add_record(status_, lines);
  lines.push_back(shown::latency_line(status_));
  lines.push_back(shown::fitter_line(status_));
  shown::add_text(status_, "/fitter/size_reason", Tone::Plain, lines);
  shown::add_text(status_, "/fitter/reason", Tone::Plain, lines);
  shown::add_words(shown::text(status_, "/fitter/estimator") + ", " +
                       shown::text(status_, "/fitter/estimator_reason"),
                   Tone::Plain, lines);
  return lines;
}

std::vector<Line> DaemonView::marker_table(std::size_t max_lines) const {
  return shown::marker_table(markers_, max_lines);
}

std::vector<Line> DaemonView::events() const {
  return {events_.begin(), events_.end()};
}

std::string DaemonView::one_line(std::int64_t now_ns) const {
  const double silence_s = this->silence_s(now_ns);
  if (silence_s > shown::kSilentAfter_s) {
    return fmt::format("no message for {:.0f} s (last state: {})", silence_s, state_);
  }
  std::string z = shown::has_axial(status_)
                      ? fmt::format("  z {:>8} nm", shown::number(position_, "/z_nm", "{:+.2f}"))
                      : "";
  if (const std::string lock = shown::text(axial_lock(status_), "/state");
      lock != "-" && lock != "idle")
    z += " " + lock;
  return fmt::format(
      "{:<11} drift {:>8} {:>8} nm{}  rms {:>6} {:>6} nm  markers {}/{}  {} Hz  p50 {} p99 {} us",
      state_, shown::number(position_, "/x_nm", "{:+.2f}"),
      shown::number(position_, "/y_nm", "{:+.2f}"), z,
      shown::number(status_, "/drift/rms_x_nm", "{:.2f}"),
      shown::number(status_, "/drift/rms_y_nm", "{:.2f}"), shown::number(status_, "/markers/used"),
      shown::number(status_, "/markers/tracking"),
      shown::number(status_, "/camera/rate_hz", "{:.1f}"),
      shown::number(status_, "/latency_us/total/p50"),
      shown::number(status_, "/latency_us/total/p99"));
}

}  // namespace driftd::clients
