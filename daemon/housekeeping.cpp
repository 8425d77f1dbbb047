// SPDX-License-Identifier: MIT
#include "daemon/housekeeping.hpp"

#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <random>
#include <utility>

#include "base/monotonic.hpp"
#include "config/endpoint.hpp"
#include "daemon/orders/engaged_lock.hpp"
#include "daemon/setup/axial_curve.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/status/axial_words.hpp"
#include "daemon/status/stage_words.hpp"
#include "daemon/status/status_line.hpp"
#include "daemon/status/status_messages.hpp"
#include "daemon/wire/command_rights.hpp"

namespace driftd::daemon {
namespace {

constexpr int kTurnMs = 10;
constexpr int kTurnWhileAskedMs = 2;  // somebody waits for what the loop answers

CommandRefused stopping() {
  return {Refusal::Stopping, "driftd is stopping"};
}

std::string new_session() {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32) | device();
  return fmt::format("{:016x}", bits);
}

/// A request for this, which has no fields but one flag.
bool is_alone(const nlohmann::json& request, const char* command, const char* flag) {
  if (request["command"] != command) return false;
  for (const auto& [key, value] : request.items()) {
    if (key == "command" || key == "id" || (key == flag && value.is_boolean())) continue;
    throw CommandRefused{Refusal::BadRequest,
                         fmt::format("`{}` has no fields but `{}`, true or false", command, flag)};
  }
  return true;
}

std::uint64_t watchdog_period_us() {
  std::uint64_t period_us = 0;
  return sd_watchdog_enabled(0, &period_us) > 0 ? period_us : 0;
}

}  // namespace

Housekeeping::Housekeeping(config::Config config, const std::filesystem::path& file,
                           std::unique_ptr<camera::FrameSource> source)
    : config_(with_curve(std::move(config))),
      start_ns_(monotonic_ns()),
      session_(new_session()),
      wire_(config::read_access(config_.access)),
      pipeline_(wire_, config_, session_, std::move(source)),
      loop_(pipeline_.ports()),
      events_(
          [this](TextMessage message) { return pipeline_.publisher().send(std::move(message)); }),
      hook_(config_.hook, file, events_),
      reporter_(
          config_, events_,
          [this](TextMessage message) { return pipeline_.publisher().send(std::move(message)); },
          [this] {
            nlohmann::json now = status();
            sd_notifyf(0, "STATUS=%s", status_line(now).c_str());
            return now;
          }),
      camera_(config_, pipeline_.source(), loop_, events_),
      camera_network_(events_),
      stage_(config_, session_, pipeline_.ports(), loop_, events_),
      z_stage_(config_, session_, pipeline_.ports(), loop_, events_, AxisGroup::Axial),
      memory_(config_, session_, camera_, loop_, stage_, z_stage_, events_,
              [this] { return markers_.sizes(); }),
      stage_memory_(config_, camera_, loop_, stage_, events_),
      sweep_memory_(config_, loop_, z_stage_, events_),
      interrupted_(config_, memory_, camera_, loop_, stage_, z_stage_, events_,
                   [this](AxisGroup group) { return pipeline_.publisher().has_driver(group); }),
      markers_(config_, pipeline_.chosen(), camera_, loop_, events_, &interrupted_),
      exposure_(config_, pipeline_.source(), camera_, loop_, markers_, events_,
                [this] { return orders_pending(); }),
      lock_(
          {.recording = is_recording(config_),
           .at_start = config_.lock.at_start,
           .newest_id = newest_lock_},
          pipeline_.publisher().gate(), loop_, [this] { return nothing_to_lock_by(); },
          [this] { return stage_for_lock(stage_); }),
      z_lock_(
          {.recording = is_recording(config_),
           .at_start = config_.lock.at_start && config_.axial.hold,
           .group = AxisGroup::Axial,
           .newest_id = newest_lock_},
          pipeline_.publisher().gate(AxisGroup::Axial), loop_, [this] { return no_z_to_lock_by(); },
          [this] { return stage_for_lock(z_stage_); }),
      moves_(config_, loop_, events_, AxisGroup::Lateral, newest_move_),
      z_moves_(config_, loop_, events_, AxisGroup::Axial, newest_move_),
      places_(config_, places_folder(),
              {.camera = camera_,
               .loop = loop_,
               .memory = memory_,
               .interrupted = interrupted_,
               .markers = markers_,
               .lock = lock_,
               .z_lock = config_.axial.method == control::AxialMethod::None ? nullptr : &z_lock_},
              events_),
      snapshots_([this] { return pipeline_.chosen().fitter->roi_px(); }, camera_, loop_),
      calibration_(
          config_, lock_, camera_, loop_, events_, [this] { return nothing_to_lock_by(); },
          [this] { return stage_.timing(); }),
      sweep_(
          config_, z_lock_, camera_, loop_, events_, [this] { return nothing_to_lock_by(); },
          sweep_memory_, [this] { return z_stage_.axial_travel(); }),
      record_(config_, session_, pipeline_.ports().record, pipeline_.source(), camera_, loop_,
              stage_, pattern_, events_),
      raw_frames_(config_, session_, loop_, events_),
      handlers_(
          lock_, moves_, interrupted_, markers_, exposure_, snapshots_, calibration_, stage_,
          record_, raw_frames_, places_, [this] { return status(); }, axial_handlers()),
      commands_(wire_, config_.wire.commands,
                [this](const config::Client& client, const nlohmann::json& request, Answer answer) {
                  if (stop_) throw stopping();
                  if (request["command"] == "access") return answer(access(client));
                  if (is_alone(request, "reload", "check"))
                    return request.value("check", false) ? answer(reload_.compare())
                                                         : ask_reload(answer);
                  if (is_alone(request, "restart", "check"))
                    return ask_start_anew(request.value("check", false), answer);
                  handlers_.carry_out(request, std::move(answer), monotonic_ns());
                }),
      reload_(config_, file, wire_, camera_, loop_, events_, [this] { return orders_pending(); }),
      watchdog_(watchdog_period_us(), [] { sd_notify(0, "WATCHDOG=1"); }) {
  record_.hear_of_z(z_stage_);
}

/// Nothing where z is not measured.
std::optional<CommandHandlers::Axial> Housekeeping::axial_handlers() {
  if (config_.axial.method == control::AxialMethod::None) return std::nullopt;
  return CommandHandlers::Axial{
      .lock = z_lock_, .moves = z_moves_, .stage = z_stage_, .sweep = sweep_, .is_held = [this] {
        return config_.axial.hold;
      }};
}

Housekeeping::~Housekeeping() {
  pipeline_.stop();
  if (signal_fd_ >= 0) close(signal_fd_);
}

void Housekeeping::run() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  signal_fd_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  start();
  sd_notify(0, "READY=1");
  while (!stop_) turn(is_asked() ? kTurnWhileAskedMs : kTurnMs);
  sd_notify(0, starts_anew_ ? "RELOADING=1" : "STOPPING=1");
  bring_back();
  for (const std::int64_t end_ns = monotonic_ns() + kMostWayBackNs;
       is_coming_back() && monotonic_ns() < end_ns;)
    turn(kTurnWhileAskedMs);
  finish();
}

void Housekeeping::bring_back() {
  stop_ = true;
  calibration_.bring_back();
  sweep_.bring_back();
}

void Housekeeping::finish() {
  stop_ = true;
  refuse_pending();
  calibration_.end_with_daemon();
  sweep_.end_with_daemon();
  pipeline_.stop();  // seconds, where the camera does not answer
  refuse_pending();
  collect();
  memory_.write_last();
  stage_memory_.turn();
  raw_frames_.finish();
  record_.finish();
  commands_.end();  // those who asked while files were written are answered, too
}

void Housekeeping::start() {
  interrupted_.take(memory_.recall());
  stage_memory_.recall();
  sweep_memory_.recall();
  pipeline_.start(config_);
  raw_frames_.begin(pipeline_.ports().raw_frames);
  camera_.look();
  if (is_recording(config_) && config_.replay.wait_for_subscriber_s > 0) {
    hold_until_ns_ = monotonic_ns() + std::llround(config_.replay.wait_for_subscriber_s * 1e9);
    pipeline_.ports().held.store(true);
  }
  pipeline_.start_loop();
  const camera::SourceInfo& camera = camera_.info();
  if (camera.width_px > 0) {
    spdlog::info("{}: {}x{} {} at ({}, {})", camera.description, camera.width_px, camera.height_px,
                 camera::name_of(camera.format), camera.offset_x_px, camera.offset_y_px);
    for (const std::string& note : camera.notes) spdlog::info("{}", note);
  } else {
    spdlog::warn("no camera yet; waiting for one");
  }
  if (const std::string warning = limit_warning(config_); config_.axial.hold && !warning.empty())
    spdlog::warn("{}", warning);
  const ChosenFitter& chosen = pipeline_.chosen();
  spdlog::info("fits by {} ({}) with {} ({})", chosen.fitter->description(), chosen.reason,
               name_of(chosen.estimator), chosen.estimator_reason);
  const auto places = [this](const char* key) {
    return fmt::format("{}", fmt::join(wire_.bound(key), " and "));
  };
  spdlog::info("publishing on {}, corrections on {}, commands on {}", places("wire.publish"),
               places("wire.corrections"), places("wire.commands"));
}

/// A subscriber needs a moment to connect, and a recording's first frames would be gone by then.
void Housekeeping::hold_recording() {
  if (hold_until_ns_ == 0) return;
  if (monotonic_ns() < hold_until_ns_ && !pipeline_.publisher().has_subscriber()) return;
  hold_until_ns_ = 0;
  pipeline_.ports().held.store(false, std::memory_order_release);
}

/// Who waits for an answer, and whose request is still unread, is told.
void Housekeeping::refuse_pending() {
  places_.refuse_pending(stopping());
  lock_.refuse_pending(stopping());
  z_lock_.refuse_pending(stopping());
  moves_.refuse_pending(stopping());
  z_moves_.refuse_pending(stopping());
  exposure_.refuse_pending(stopping());
  markers_.refuse_pending(stopping());
  snapshots_.refuse_pending(stopping());
  sweep_.refuse_pending(stopping());
  record_.refuse_pending(stopping());
  commands_.serve(0, signal_fd_);
}

bool Housekeeping::is_asked() const noexcept {
  return orders_pending() || moves_.pending() || z_moves_.pending() || record_.pending() ||
         snapshots_.pending() || markers_.find_pending() || exposure_.pending() ||
         places_.pending();
}

void Housekeeping::turn(int patience_ms) {
  if (patience_ms >= 0 && commands_.serve(patience_ms, signal_fd_)) take_signals();
  if (!reload_asked_.empty()) reload();
  hold_recording();
  collect();
  stage_.turn(monotonic_ns());
  z_stage_.turn(monotonic_ns());
  stage_memory_.turn();
  sweep_memory_.turn(monotonic_ns());
  places_.turn(monotonic_ns());
  const bool is_asked_first = interrupted_.asks() || places_.was_asked() || markers_.are_chosen();
  lock_.hold_back_at_start(is_asked_first);
  z_lock_.hold_back_at_start(is_asked_first || interrupted_.asks_axial() ||
                             sweep_memory_.is_displaced());
  for (LockOrders* lock : {&lock_, &z_lock_}) lock->turn(monotonic_ns());
  moves_.turn(monotonic_ns());
  z_moves_.turn(monotonic_ns());
  interrupted_.turn(lock_, monotonic_ns(), &z_lock_);
  memory_.turn(monotonic_ns());
  calibration_.turn();
  sweep_.turn(monotonic_ns());
  markers_.turn(monotonic_ns());
  exposure_.turn(monotonic_ns());
  snapshots_.turn(monotonic_ns());
  record_.turn(monotonic_ns());
  raw_frames_.turn(monotonic_ns());
  reporter_.publish(loop_.markers(), monotonic_ns());
  Publisher& publisher = pipeline_.publisher();
  publisher.poke();  // without frames nothing else makes it take subscriptions
  watchdog_.turn({.loop_turns = loop_.report().turns,
                  .loop_ended = loop_.report().ended,
                  .messages_sent = publisher.sent(),
                  .publisher_idle = publisher.idle()},
                 monotonic_ns());
  if (loop_.report().ended && publisher.idle()) {
    events_.raise(EventLog::Level::Info, "stream_ended", "the recording is over");
    stop_ = true;
  }
}

void Housekeeping::take_signals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      reload();
    } else {
      spdlog::info("stopping: {}", info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
      stop_ = true;
      starts_anew_ = false;  // a restart that was ordered in the same turn
    }
  }
}

/// Where no request is being served: it may end connections.
void Housekeeping::reload() {
  sd_notify(0, "RELOADING=1");
  const Outcome outcome = reload_.run();
  sd_notify(0, "READY=1");
  for (const Answer& answer : std::exchange(reload_asked_, {})) answer(outcome);
}

/// @param checks  only tells what would come of it
void Housekeeping::ask_start_anew(bool checks, const Answer& answer) {
  if (!loop_.report().all_idle() || orders_pending())
    throw CommandRefused{Refusal::Refused,
                         fmt::format("driftd starts anew only while {} is idle (unlock it)",
                                     busy_lock(loop_.report()).name)};
  const config::Config after = reload_.check_start();
  const Reply reply{.fields = {{"loses", lost_with(after)},
                               {"stays_unlocked", after.lock.at_start && stays_unlocked()}}};
  if (checks) return answer(reply);
  spdlog::info("stopping, to start anew: by command");
  starts_anew_ = stop_ = true;
  answer(reply);
}

/// What was set by command and is over with this process, for people.
nlohmann::json Housekeeping::lost_with(const config::Config& after) {
  nlohmann::json lost = nlohmann::json::array();
  if (markers_.are_chosen() && !interrupted_.asks() && !markers_.are_listed(after))
    lost.push_back("the markers that were chosen (`driftctl markers --write` keeps them)");
  if (const std::string exposure = exposure_.lost_with(after); !exposure.empty())
    lost.push_back(exposure);
  if (const std::string calibration = calibration_.lost_with(after); !calibration.empty())
    lost.push_back(calibration);
  const nlohmann::json record = record_.status(monotonic_ns());
  if (record["recording"] == true)
    lost.push_back(
        fmt::format("the recording to {}, which ends", record["file"].get<std::string>()));
  return lost;
}

void Housekeeping::collect() {
  loop_.refresh();
  LockChange change;
  while (loop_.next_change(change)) {
    reporter_.tell(change);
    record_.follow(change, monotonic_ns());
    raw_frames_.follow(change);
  }
  camera_.turn();
  camera_network_.look(camera_.info().description);
  pattern_.see(loop_.markers(), config_.optics.pixel_size_nm);
  reporter_.tell_changes(loop_.report(), loop_.markers(), monotonic_ns());
  reporter_.tell_connections(wire_.ended(), monotonic_ns());
  reporter_.tell_refusals(wire_.refusals().take());
  hook_.turn();
  events_.turn();
}

/// A lock whose stage may not obey is the user's to allow.
StageForLock Housekeeping::stage_for_lock(StageChannel& driver) {
  StageForLock stage{.problem = driver.problem(), .waiting_us = driver.waiting_us()};
  stage.refuses = !stage.problem.empty() && config_.stage.require_driver;
  if (!stage.refuses) driver.forget_silent();
  return stage;
}

/// Why no lock of z may begin now; "": one may. Its reference may still be under way.
std::string Housekeeping::no_z_to_lock_by() {
  if (exposure_.pending()) return "the camera's exposure is being set";
  const LoopReport& loop = loop_.report();
  const bool current = camera_.connected() && loop.is_current(loop.tracked_ns, monotonic_ns());
  if (loop.axial.valid || (current && loop.axial.reason == control::AxialReason::NoReference))
    return "";
  return "z is not measured now: " + why_no_z(loop, config_, current);
}

/// Why no lock and no calibration may begin now, as far as camera and markers go; "": they may.
std::string Housekeeping::nothing_to_lock_by() const {
  return exposure_.pending() ? "the camera's exposure is being set" : markers_.too_few();
}

/// What else people are to know of a lock of z that is idle; "": nothing.
std::string Housekeeping::why_z_is_idle() const {
  if (!places_.axial_left().empty()) return places_.axial_left();
  std::string offer = interrupted_.axial_offer();
  if (!offer.empty()) return offer;
  std::string displaced = z_lock_.is_at_start_over() ? std::string() : sweep_memory_.cure();
  if (!displaced.empty() || !loop_.report().z_missing) return displaced;
  return "axial.hold asks for z, and it is not held: until it is, `in_lock` of frames is false. "
         "`driftctl lock --axes z` holds it where it is, `driftctl unlock --axes z` leaves it";
}

/// What a client may do, and where it finds the other sockets from where it is.
Reply Housekeeping::access(const config::Client& client) const {
  nlohmann::json ports = nlohmann::json::object();
  for (const char* socket : {"publish", "corrections", "commands"}) {
    ports[socket] = nullptr;
    for (const std::string& endpoint : wire_.bound(std::string("wire.") + socket)) {
      if (ports[socket].is_null() && config::is_tcp(endpoint))
        ports[socket] = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
    }
  }
  return {.fields = {{"name", client.name},
                     {"roles", config::text_of(client.roles)},
                     {"corrections", may_connect(client.roles, "corrections")},
                     {"commands", commands_of(client.roles)},
                     {"ports", ports}}};
}

nlohmann::json Housekeeping::status() {
  loop_.refresh();
  const camera::SourceCounters counters = pipeline_.source().counters();
  const RealTimeReport realtime = pipeline_.realtime().report();
  const ChosenFitter& chosen = pipeline_.chosen();
  const LoopReport& loop = loop_.report();
  const LoopPorts& ports = pipeline_.ports();
  const Publisher& publisher = pipeline_.publisher();
  return status_json(
      {.time_ns = monotonic_ns(),
       .start_ns = start_ns_,
       .loop = loop,
       .markers = loop_.markers(),
       .source = camera_.info(),
       .counters = counters,
       .camera_problem = camera_.problem(),
       .realtime = realtime,
       .fitter_description = *loop.fitter != '\0' ? loop.fitter : chosen.fitter->description(),
       .fitter_reason = loop.fitter_error != nullptr ? loop.fitter_error : chosen.reason,
       .estimator = name_of(chosen.estimator),
       .estimator_reason = chosen.estimator_reason,
       .roi_px = chosen.fitter->roi_px(),
       .acquaintance = acquaintance_json(loop, config_.stage),
       .max_jump_nm = config_.lock.max_jump_nm,
       .at_start_waits = lock_.waits_for(),
       .size = markers_.size(),
       .withheld = publisher.withheld(),
       .expired = publisher.expired(),
       .refused = publisher.refused(),
       .stage_driver = stage_.status(monotonic_ns()),
       .interrupted = interrupted_.status(),
       .move = moves_.status(),
       .record = record_.status(monotonic_ns()),
       .raw_frames = raw_frames_.status(),
       .connections_ended = wire_.ended(),
       .connections_revoked = wire_.revoked(),
       .peers_refused = wire_.refusals().count(),
       .marker_searches = markers_.searches(),
       .markers_found_again = markers_.found_again(),
       .markers_chosen = markers_.are_chosen(),
       .pattern = pattern_json(pattern_.change()),
       .axial = axial_json(loop, config_,
                           counters.connected && loop.is_current(loop.tracked_ns, monotonic_ns()),
                           sweep_memory_.text()),
       .axial_held = config_.axial.hold,
       .axial_max_jump_nm = config_.axial.max_jump_nm,
       .axial_at_start_waits = z_lock_.waits_for(),
       .axial_waits = places_.axial_waits(),
       .axial_idle = why_z_is_idle(),
       .axial_acquaintance =
           acquaintance_json(loop.z, stage_of(config_, AxisGroup::Axial), AxisGroup::Axial),
       .axial_driver = z_stage_.status(monotonic_ns()),
       .axial_move = z_moves_.status(),
       .axial_lock_warning = limit_warning(config_),
       .total = publisher.total_latency().summary(),
       .cut = ports.cut.summary(),
       .fit = ports.fit.summary(),
       .control = ports.control.summary(),
       .publish = publisher.publish_latency().summary()});
}

}  // namespace driftd::daemon
