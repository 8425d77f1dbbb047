// SPDX-License-Identifier: MIT
#include "daemon/service.hpp"

#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "control/lock_state.hpp"
#include "daemon/clock.hpp"
#include "daemon/compose.hpp"
#include "daemon/fitter_choice.hpp"
#include "daemon/realtime.hpp"

namespace driftd::daemon {
namespace {

constexpr int kTurnMs = 10;
// Noise makes any good marker an outlier in some frame every few seconds.
constexpr std::int64_t kHealthSettlesNs = 200 * kMillisecond;

std::string new_session() {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32) | device();
  return fmt::format("{:016x}", bits);
}

}  // namespace

Service::Service(config::Config config, std::filesystem::path file)
    : config_(std::move(config)),
      file_(std::move(file)),
      recording_(is_recording(config_)),
      session_(new_session()),
      start_ns_(monotonic_ns()),
      publisher_({config_.wire.publish, config_.wire.send_queue_messages, session_}),
      events_(publisher_),
      commands_(config_.wire.commands,
                [this](const Json& request, Json& reply, std::vector<std::uint8_t>& attachment) {
                  carry_out(request, reply, attachment);
                }) {
  realtime_.mode = config_.realtime.mode;
  check_real_time();
  source_ = make_source(config_, [this] {
    schedule(config_.realtime.stream_priority, config_.realtime.stream_cpu, "camera");
  });
}

Service::~Service() {
  stop_threads();
  if (signal_fd_ >= 0) close(signal_fd_);
}

/// Tries on a thread of its own what the loop will need, so that `require` fails before the start.
void Service::check_real_time() {
  if (realtime_.mode == "off") return;
  std::optional<std::string> refused = lock_memory();
  realtime_.memory_locked = !refused;
  if (refused) realtime_.notes.push_back(*refused);
  std::optional<std::string> unscheduled;
  std::thread([&] {
    unscheduled = schedule_this_thread(config_.realtime.loop_priority, config_.realtime.loop_cpu,
                                       "driftd-probe");
  }).join();
  if (realtime_.mode == "require" && (refused || unscheduled)) {
    throw RealTimeError("realtime.mode is `require`: " + (refused ? *refused : *unscheduled));
  }
}

void Service::schedule(int priority, int cpu, const char* thread_name) {
  if (realtime_.mode == "off") return;
  const auto refused = schedule_this_thread(priority, cpu, thread_name);
  const std::lock_guard guard(realtime_mutex_);
  if (refused) {
    realtime_.notes.push_back(*refused);
    spdlog::warn("{}", *refused);
  }
  if (std::string_view(thread_name) == "driftd-loop") realtime_.scheduled = !refused;
}

void Service::run() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  signal_fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  source_->start();
  source_info_ = source_->info();
  start_threads();
  if (source_info_.width_px > 0) {
    spdlog::info("{}: {}x{} {} at ({}, {})", source_info_.description, source_info_.width_px,
                 source_info_.height_px, camera::name_of(source_info_.format),
                 source_info_.offset_x_px, source_info_.offset_y_px);
  } else {
    spdlog::warn("no camera yet; waiting for one");
  }
  spdlog::info("fits by {} ({}) with {} ({})", fitter_->description(), fitter_reason_,
               name_of(estimator_), estimator_reason_);
  spdlog::info("publishing on {}, commands on {}", config_.wire.publish, config_.wire.commands);
  sd_watchdog_enabled(0, &watchdog_us_);
  sd_notify(0, "READY=1");
  while (!stop_) turn();
  sd_notify(0, "STOPPING=1");
  stop_threads();
  collect();
}

void Service::start_threads() {
  const bool connected = recording_ || source_info_.connection > 0;
  const auto format = connected ? source_info_.format : configured_format(config_);
  ChosenFitter chosen = choose_fitter(
      fitter_wish(config_, format),
      [&](fitter::Estimator estimator) { return fitter_makers(config_, format, estimator); });
  fitter_ = std::move(chosen.fitter);
  fitter_reason_ = std::move(chosen.reason);
  estimator_ = chosen.estimator;
  estimator_reason_ = std::move(chosen.estimator_reason);
  loop_ = std::make_unique<TrackingLoop>(*source_, *fitter_, publisher_, ports_,
                                         loop_settings(config_, source_info_), recording_);
  publisher_.start([this] {
    schedule(config_.realtime.publisher_priority, config_.realtime.loop_cpu, "driftd-publish");
  });
  if (recording_) wait_for_subscriber();
  if (config_.markers.mode == "list") {
    LoopCommand markers{.kind = LoopCommand::Kind::Markers};
    markers.markers = make_marker_set(config_, listed_markers(config_));
    command(std::move(markers));
    has_markers_ = true;
    ports_.markers_settled.store(true, std::memory_order_release);
  }
  loop_thread_ = std::thread([this] {
    schedule(config_.realtime.loop_priority, config_.realtime.loop_cpu, "driftd-loop");
    loop_->run();
  });
}

void Service::stop_threads() noexcept {
  publisher_.gate().close();
  ports_.stop.store(true);
  if (loop_thread_.joinable()) loop_thread_.join();
  if (source_) source_->stop();
  publisher_.stop();
}

/// A subscriber needs a moment to connect, and a recording's first frames would be gone by then.
void Service::wait_for_subscriber() {
  const std::int64_t until_ns =
      monotonic_ns() + static_cast<std::int64_t>(config_.replay.wait_for_subscriber_s * 1e9);
  while (!publisher_.has_subscriber() && monotonic_ns() < until_ns && take_signals()) {
    publisher_.poke();
    commands_.serve(kTurnMs, signal_fd_);
  }
}

void Service::turn() {
  if (commands_.serve(kTurnMs, signal_fd_) && !take_signals()) stop_ = true;
  try {
    collect();
    look_for_markers();
  } catch (const CommandRefused& refused) {  // the loop's queue is full: it does not get on
    spdlog::error("housekeeping: {}", refused.text);
  }
  publish_at_intervals();
  feed_watchdog();
  if (ports_.report.reading().ended && publisher_.idle()) {
    events_.raise(EventLog::Level::Info, "stream_ended", "the recording is over");
    stop_ = true;
  }
}

bool Service::take_signals() {
  signalfd_siginfo info{};
  bool go_on = !stop_;
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      reload();
    } else {
      spdlog::info("stopping: {}", info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
      stop_ = true;
      go_on = false;
    }
  }
  return go_on;
}

void Service::collect() {
  std::unique_ptr<MarkerSet> set;
  while (ports_.retired_sets.pop(set)) set.reset();
  std::unique_ptr<LoopSettings> settings;
  while (ports_.retired_settings.pop(settings)) settings.reset();
  ports_.report.refresh();
  ports_.markers.refresh();
  LockChange change;
  while (ports_.lock_changes.pop(change)) tell_lock_change(change);
  tell_source_events();
  tell_health_changes();
}

void Service::tell_lock_change(const LockChange& change) {
  using control::LockState;
  const bool bad = change.state == LockState::Holding || change.state == LockState::Lost ||
                   change.state == LockState::Fault;
  const auto level = change.state == LockState::Fault ? EventLog::Level::Error
                     : bad                            ? EventLog::Level::Warning
                                                      : EventLog::Level::Info;
  std::string reason = control::name_of(change.reason);
  std::string words = reason;
  std::replace(words.begin(), words.end(), '_', ' ');
  events_.raise(level, "state_changed", std::string(control::name_of(change.state)) + ": " + words,
                {{"state", control::name_of(change.state)},
                 {"previous", control::name_of(change.previous)},
                 {"reason", reason},
                 {"frame_id", change.frame_id}});
}

void Service::tell_source_events() {
  for (const camera::SourceEvent& event : source_->take_events()) {
    using Kind = camera::SourceEvent::Kind;
    const auto [level, code] = [&]() -> std::pair<EventLog::Level, const char*> {
      switch (event.kind) {
        case Kind::Connected:
          return {EventLog::Level::Info, "camera_connected"};
        case Kind::Disconnected:
        case Kind::ReconnectFailed:
          return {EventLog::Level::Warning, "camera_disconnected"};
        case Kind::Note:
          break;
      }
      return {EventLog::Level::Info, "camera_note"};
    }();
    events_.raise(level, code, event.text);
    if (event.kind != Kind::Connected) continue;
    // The camera may have come back with another exposure than before.
    source_info_ = source_->info();
    LoopCommand settings{.kind = LoopCommand::Kind::Settings};
    settings.settings = std::make_unique<LoopSettings>(loop_settings(config_, source_info_));
    command(std::move(settings));
  }
}

void Service::tell_health_changes() {
  const MarkersReport& report = ports_.markers.reading();
  const std::int64_t now_ns = monotonic_ns();
  if (health_.size() != report.count) {
    health_.assign(report.count, Settled(control::MarkerHealth::Good));
  }
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& entry = report.entries[i];
    if (!health_[i].update(entry.result.health, now_ns, kHealthSettlesNs)) continue;
    const bool good = entry.result.health == control::MarkerHealth::Good;
    events_.raise(
        good ? EventLog::Level::Info : EventLog::Level::Warning, "marker_health",
        fmt::format("marker {}: {}", entry.marker.id, control::name_of(entry.result.health)),
        {{"id", entry.marker.id}, {"health", control::name_of(entry.result.health)}});
  }
  const LoopReport& loop = ports_.report.reading();
  if (loop.fitter_error != nullptr && !told_fitter_failed_) {
    told_fitter_failed_ = true;
    fitter_reason_ = loop.fitter_error;
    events_.raise(EventLog::Level::Error, "fitter_failed",
                  fmt::format("{}; from now on {}", loop.fitter_error, loop.fitter));
  }
  if (loop.queue_dropped != known_dropped_) {
    events_.raise(EventLog::Level::Error, "slow_publisher",
                  fmt::format("{} records were dropped: the publisher does not get on",
                              loop.queue_dropped - known_dropped_));
    known_dropped_ = loop.queue_dropped;
  }
  const std::uint8_t limited = loop.limited;
  if (limited != known_limited_) {
    known_limited_ = limited;
    if (limited != control::kLimitNone) {
      events_.raise(EventLog::Level::Warning, "correction_limited",
                    fmt::format("the correction is held back by its{}{}{} limit",
                                limited & control::kLimitStep ? " step" : "",
                                limited & control::kLimitRate ? " rate" : "",
                                limited & control::kLimitRange ? " range" : ""));
    }
  }
}

void Service::publish_at_intervals() {
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns >= next_status_ns_) {
    next_status_ns_ = now_ns + config_.wire.status_interval_ms * kMillisecond;
    publisher_.send({TextMessage::Topic::Status, fields_of(status())});
  }
  const MarkersReport& report = ports_.markers.reading();
  if (report.count == 0 || now_ns < next_markers_ns_ || report.frame_id == markers_frame_id_)
    return;
  next_markers_ns_ = now_ns + config_.wire.markers_interval_ms * kMillisecond;
  markers_frame_id_ = report.frame_id;
  publisher_.send(
      {TextMessage::Topic::Markers, fields_of(markers_json(report, config_.optics.pixel_size_nm))});
}

/// Fed only while the loop turns (it does so without frames, too) and the publisher gets on.
void Service::feed_watchdog() {
  const std::int64_t now_ns = monotonic_ns();
  if (watchdog_us_ == 0 || now_ns < next_watchdog_ns_) return;
  next_watchdog_ns_ = now_ns + static_cast<std::int64_t>(watchdog_us_) * 1000 / 4;
  const std::uint64_t turns = ports_.report.reading().turns;
  const std::uint64_t sent = publisher_.sent();
  const bool loop_turns = turns != fed_turns_ || ports_.report.reading().ended;
  const bool publisher_sends = sent != fed_sent_ || publisher_.idle();
  fed_turns_ = turns;
  fed_sent_ = sent;
  if (loop_turns && publisher_sends) sd_notify(0, "WATCHDOG=1");
}

void Service::reload() {
  sd_notify(0, "RELOADING=1");
  try {
    config::Config after = config::load(file_);
    const auto fixed = config::not_reloadable_changes(config_, after);
    if (!fixed.empty()) {
      throw config::ConfigError(
          fmt::format("a restart is needed to change {}", fmt::join(fixed, ", ")));
    }
    config_ = std::move(after);
    LoopCommand settings{.kind = LoopCommand::Kind::Settings};
    settings.settings = std::make_unique<LoopSettings>(loop_settings(config_, source_info_));
    command(std::move(settings));
    spdlog::set_level(spdlog::level::from_str(config_.log.level));
    events_.raise(EventLog::Level::Info, "configuration_reloaded", file_.string());
  } catch (const config::ConfigError& error) {
    events_.raise(EventLog::Level::Error, "configuration_rejected",
                  std::string("the old configuration keeps running: ") + error.what());
  }
  sd_notify(0, "READY=1");
}

}  // namespace driftd::daemon
