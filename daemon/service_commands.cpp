// SPDX-License-Identifier: MIT
// The commands of docs/protocol.md.
#include <chrono>
#include <set>
#include <thread>

#include "control/lock_state.hpp"
#include "daemon/clock.hpp"
#include "daemon/compose.hpp"
#include "daemon/service.hpp"

namespace driftd::daemon {
namespace {

constexpr int kAnswerMs = 500;  // the loop takes commands every 5 ms at the latest
constexpr int kFrameMs = 2000;

void allow_only(const nlohmann::json& request, const std::set<std::string>& fields) {
  for (const auto& [key, value] : request.items()) {
    if (key == "command" || key == "id" || fields.count(key) != 0) continue;
    throw CommandRefused{"bad_request", "unknown field `" + key + "` for command `" +
                                            request["command"].get<std::string>() + "`"};
  }
}

}  // namespace

void Service::carry_out(const Json& request, Json& reply, std::vector<std::uint8_t>& attachment) {
  const auto name = request["command"].get<std::string>();
  if (name == "markers") {
    allow_only(request, {"find"});
    return markers(request, reply);
  }
  allow_only(request, {});
  if (name == "status") {
    reply["status"] = status();
  } else if (name == "lock") {
    lock(reply);
  } else if (name == "unlock") {
    unlock(reply);
  } else if (name == "reset") {
    reset(reply);
  } else if (name == "snapshot") {
    snapshot(reply, attachment);
  } else {
    throw CommandRefused{
        "bad_request",
        "unknown command `" + name + "`; there are status, lock, unlock, reset, markers, snapshot"};
  }
}

void Service::lock(Json& reply) {
  if (recording_) throw CommandRefused{"refused", "a recording cannot be held still"};
  if (!has_markers_) throw CommandRefused{"refused", "no markers are known yet"};
  ports_.report.refresh();
  const control::LockState state = ports_.report.reading().lock.state;
  if (state == control::LockState::Fault) {
    throw CommandRefused{"refused", "the lock is in `fault`: reset it first"};
  }
  if (state != control::LockState::Idle && state != control::LockState::Lost) {
    throw CommandRefused{"refused",
                         std::string("the lock is `") + control::name_of(state) + "` already"};
  }
  const std::uint64_t lock_id = ++lock_id_;
  publisher_.gate().open(lock_id);
  LoopCommand order{.kind = LoopCommand::Kind::Lock};
  order.lock_id = lock_id;
  command(std::move(order));
  wait_for([&] { return ports_.report.reading().lock_id == lock_id; }, kAnswerMs);
  reply["lock_id"] = lock_id;
  reply["state"] = control::name_of(ports_.report.reading().lock.state);
}

void Service::unlock(Json& reply) {
  publisher_.gate().close();  // from here on nothing leaves, whatever the loop is doing
  command(LoopCommand{.kind = LoopCommand::Kind::Unlock});
  wait_for([&] { return ports_.report.reading().lock.state == control::LockState::Idle; },
           kAnswerMs);
  reply["state"] = control::name_of(ports_.report.reading().lock.state);
}

void Service::reset(Json& reply) {
  publisher_.gate().close();
  command(LoopCommand{.kind = LoopCommand::Kind::Reset});
  wait_for([&] { return ports_.report.reading().lock.state == control::LockState::Idle; },
           kAnswerMs);
  reply["state"] = control::name_of(ports_.report.reading().lock.state);
}

void Service::markers(const Json& request, Json& reply) {
  if (request.contains("find") && !request["find"].is_boolean()) {
    throw CommandRefused{"bad_request", "`find` is true or false"};
  }
  if (request.value("find", false)) {
    ports_.report.refresh();
    if (ports_.report.reading().lock.state != control::LockState::Idle) {
      throw CommandRefused{"refused", "markers are looked for while the lock is `idle` only"};
    }
    if (config_.markers.mode == "list") {
      throw CommandRefused{"refused", "markers.mode is `list`"};
    }
    if (!fetch_frame()) throw CommandRefused{"timeout", "no frame came"};
    const std::uint64_t before = ports_.markers.reading().frame_id;
    adopt_markers();
    wait_for(
        [&] { return ports_.markers.refresh() && ports_.markers.reading().frame_id > before + 1; },
        kAnswerMs);
    Json rejected = Json::array();
    for (const control::Rejection& r : rejected_) {
      rejected.push_back({{"x_px", r.x_px}, {"y_px", r.y_px}, {"reason", r.reason}});
    }
    reply["rejected"] = rejected;
  }
  ports_.markers.refresh();
  reply["markers"] =
      markers_json(ports_.markers.reading(), config_.optics.pixel_size_nm)["markers"];
}

void Service::snapshot(Json& reply, std::vector<std::uint8_t>& attachment) {
  if (!fetch_frame()) throw CommandRefused{"timeout", "no frame came"};
  const camera::Frame& frame = ports_.frame_copy.frame();
  Json rois = Json::array();
  const MarkersReport& report = ports_.markers.reading();
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& e = report.entries[i];
    rois.push_back({{"id", e.marker.id},
                    {"role", name_of(e.marker.role)},
                    {"health", control::name_of(e.result.health)},
                    {"x_px", e.roi.x_px},
                    {"y_px", e.roi.y_px},
                    {"side_px", fitter_->roi_px()}});
  }
  reply["frame"] = {{"frame_id", frame.id},
                    {"width_px", frame.width_px},
                    {"height_px", frame.height_px},
                    {"offset_x_px", frame.offset_x_px},
                    {"offset_y_px", frame.offset_y_px},
                    {"bits", camera::bits_per_pixel(frame.format)},
                    {"rois", rois}};
  const auto& pixels = ports_.frame_copy.pixels();
  attachment.reserve(pixels.size() * 2);
  for (const std::uint16_t value : pixels) {  // little-endian, whatever this machine is
    attachment.push_back(static_cast<std::uint8_t>(value & 0xff));
    attachment.push_back(static_cast<std::uint8_t>(value >> 8));
  }
}

void Service::command(LoopCommand command) {
  if (!ports_.commands.push(std::move(command))) {
    throw CommandRefused{"timeout", "the loop does not take commands"};
  }
}

/// A copy of the next frame, with source_info_ and markers report of about the same moment.
bool Service::fetch_frame() {
  source_info_ = source_->info();
  ports_.frame_copy.ask(static_cast<std::size_t>(source_info_.width_px) *
                        static_cast<std::size_t>(source_info_.height_px));
  const bool came = wait_for([&] { return ports_.frame_copy.filled(); }, kFrameMs);
  ports_.markers.refresh();
  return came && ports_.frame_copy.fits();
}

/// Waits, refreshing the loop's report; housekeeping may, the loop never does.
template <typename Condition>
bool Service::wait_for(Condition condition, int timeout_ms) {
  const std::int64_t until_ns = monotonic_ns() + std::int64_t{timeout_ms} * 1'000'000;
  for (;;) {
    ports_.report.refresh();
    if (condition()) return true;
    if (monotonic_ns() > until_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

nlohmann::json Service::status() {
  ports_.report.refresh();
  ports_.markers.refresh();
  const camera::SourceCounters counters = source_->counters();
  const std::lock_guard guard(realtime_mutex_);
  return status_json({.time_ns = monotonic_ns(),
                      .uptime_s = static_cast<double>(monotonic_ns() - start_ns_) * 1e-9,
                      .loop = ports_.report.reading(),
                      .markers = ports_.markers.reading(),
                      .source = source_info_,
                      .counters = counters,
                      .realtime = realtime_,
                      .fitter_description = ports_.report.reading().fitter,
                      .fitter_reason = fitter_reason_,
                      .estimator = name_of(estimator_),
                      .estimator_reason = estimator_reason_,
                      .roi_px = config_.fitter.roi_px,
                      .withheld = publisher_.withheld(),
                      .marker_searches = marker_searches_,
                      .markers_found_again = markers_found_again_,
                      .total = publisher_.total_latency().summary(),
                      .cut = ports_.cut.summary(),
                      .fit = ports_.fit.summary(),
                      .control = ports_.control.summary(),
                      .publish = publisher_.publish_latency().summary()});
}

}  // namespace driftd::daemon
