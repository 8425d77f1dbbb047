// SPDX-License-Identifier: MIT
#include "daemon/reload.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "config/drop_ins.hpp"
#include "config/endpoint.hpp"
#include "config/local_sockets.hpp"
#include "config/log_level.hpp"
#include "config/options.hpp"
#include "daemon/orders/engaged_lock.hpp"
#include "daemon/orders/stage_limits.hpp"
#include "daemon/setup/axial_curve.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/wire/socket_path.hpp"
#include "fitter/cuda_fitter.hpp"

namespace driftd::daemon {
namespace {

/// "tcp://127.0.0.1:" of "tcp://127.0.0.1:5555"
std::string before_port(const std::string& tcp) {
  return tcp.substr(0, tcp.rfind(':') + 1);
}

/// "5555"
std::string port_of(const std::string& tcp) {
  return tcp.substr(before_port(tcp).size());
}

bool is_of_all_addresses(const std::string& tcp) {
  const std::string address = before_port(tcp);
  return address == "tcp://0.0.0.0:" || address == "tcp://[::]:" || address == "tcp://*:";
}

/// A lock that stands beyond a limit is taken back within it, and moves the sample.
void check_limits(const config::Config& before, const config::Config& after,
                  const LoopReport& loop) {
  const auto check = [](const std::optional<LimitPassed>& was, const std::optional<LimitPassed>& is,
                        const char* lock) {
    if (!is || was) return;
    throw config::ConfigError(fmt::format(
        "the stage is {}: {} would move the sample back; unlock it first, or allow more",
        in_words(*is), lock));
  };
  const auto check_move = [](const MoveReport& move, bool is_narrowed, const char* lock) {
    const bool goes_on = move.moving || move.phase != control::SetPointPhase::Resting;
    if (goes_on && is_narrowed)
      throw config::ConfigError(
          fmt::format("{} moves the sample: narrower limits once it is there, or stopped", lock));
  };
  const auto narrows = [](const auto& was, const auto& is) {
    return is.range_limit_nm < was.range_limit_nm || is.travel_limit_nm < was.travel_limit_nm;
  };
  const auto sum = [](Vec2 from_nm, Vec2 nm) { return Vec2{from_nm.x + nm.x, from_nm.y + nm.y}; };
  if (loop.holds()) {
    check_move(loop.move, narrows(before.control, after.control), "the lock");
    const Vec2 from_lock_nm = sum(loop.carried_nm, loop.total_nm);
    const Vec2 from_start_nm = sum(loop.travelled_nm, loop.total_nm);
    check(limit_passed(before.control, from_lock_nm, from_start_nm),
          limit_passed(after.control, from_lock_nm, from_start_nm), "the lock");
  }
  if (loop.z.holds()) {
    check_move(loop.z.move, narrows(before.axial, after.axial), "the lock of z");
    const double from_lock_nm = sum(loop.z.carried_nm, loop.z.total_nm).x;
    const double from_start_nm = sum(loop.z.travelled_nm, loop.z.total_nm).x;
    check(limit_passed(before.axial, from_lock_nm, from_start_nm),
          limit_passed(after.axial, from_lock_nm, from_start_nm), "the lock of z");
  }
}

}  // namespace

Outcome Reload::run() {
  try {
    config::Origins origins;
    config::Config after = with_curve(config::load(file_, &origins));
    // A curve that was made since may say which ROI `auto` has chosen: that one is no change.
    if (config_.fitter.roi_px == 0 && after.fitter.roi_px == loop_.report().roi_px)
      config_.fitter.roi_px = after.fitter.roi_px;
    const bool idle = loop_.report().all_idle() && !orders_pending_();
    const char* lock = busy_lock(loop_.report()).name;
    if (!have_other_curves(config_, after))
      after.axial.read = config_.axial.read;  // z keeps its zero
    else if (!idle)
      throw config::ConfigError(
          fmt::format("axial.curve holds another curve: {} must be idle (unlock it)", lock));
    const auto fixed = config::not_reloadable_changes(config_, after, idle);
    if (!fixed.empty()) {
      const bool unlocked_is_enough =
          !idle && config::not_reloadable_changes(config_, after, true).empty();
      throw config::ConfigError(fmt::format("{} to change {}",
                                            unlocked_is_enough
                                                ? fmt::format("{} must be idle (unlock it)", lock)
                                                : "a restart is needed",
                                            fmt::join(fixed, ", ")));
    }
    check_limits(config_, after, loop_.report());
    config::AccessRules rules = config::read_access(after.access);
    config_ = std::move(after);
    tell_access(wire_.replace(std::move(rules)));
    loop_.change_settings(std::make_unique<LoopSettings>(loop_settings(config_, camera_.info())));
    spdlog::set_level(config::log_level(config_.log.level));
    const std::string files = config::with_drop_ins(file_, origins);
    events_.raise(EventLog::Level::Info, "configuration_reloaded", files);
    return Reply{.fields = {{"text", files}}};
  } catch (const config::ConfigError& error) {
    const std::string why = std::string("the old configuration keeps running: ") + error.what();
    events_.raise(EventLog::Level::Error, "configuration_rejected", why);
    return CommandRefused{Refusal::Refused, why};
  }
}

Reply Reload::compare() const {
  nlohmann::json differs = nlohmann::json::array();
  try {
    const config::Config files = with_curve(config::load(file_));
    for (const config::Option& option : config::options())
      if (option.get(config_) != option.get(files) ||
          (std::string_view(option.key) == "axial.curve" && have_other_curves(config_, files)))
        differs.push_back(option.key);
  } catch (const config::ConfigError& error) {
    throw CommandRefused{Refusal::Refused, error.what()};
  }
  return {.fields = {{"differs", differs}}};
}

config::Config Reload::check_start() const {
  try {
    config::Config after = with_curve(config::load(file_));
    config::read_access(after.access);
    for (const auto& [key, endpoints] : {std::pair{"wire.publish", &after.wire.publish},
                                         std::pair{"wire.corrections", &after.wire.corrections},
                                         std::pair{"wire.commands", &after.wire.commands}}) {
      for (const std::string& endpoint : *endpoints) {
        if (const auto why = obstacle_once_ended(endpoint))
          throw config::ConfigError(fmt::format("{}: {} cannot be bound: {}", key, endpoint, *why));
      }
    }
    if (after.fitter.backend == config::Backend::Cuda) {
      if (const std::string why = fitter::cuda_obstacle(after.cuda.device); !why.empty())
        throw config::ConfigError("fitter.backend is `cuda`: " + why);
    }
    return after;
  } catch (const config::ConfigError& error) {
    throw CommandRefused{
        Refusal::Refused,
        std::string("driftd would not start with this configuration: ") + error.what()};
  }
}

/// Why it could not be bound though this daemon itself had let go of what it has. What cannot be
/// tried while it has it: whether another program has a part of a port that is bound or wanted on
/// all addresses.
std::optional<std::string> Reload::obstacle_once_ended(const std::string& endpoint) const {
  const auto folders = config::runtime_directories();
  if (config::is_tcp(endpoint)) {  // is the address there?
    if (auto why = obstacle(before_port(endpoint) + "*")) return why;
  }
  for (const char* key : {"wire.publish", "wire.corrections", "wire.commands"}) {
    for (const std::string& bound : wire_.bound(key)) {
      if (config::is_tcp(bound) && config::is_tcp(endpoint)) {
        const bool all = is_of_all_addresses(bound) || is_of_all_addresses(endpoint);
        if (port_of(bound) == port_of(endpoint) && (all || bound == endpoint)) return std::nullopt;
      }
      const auto is_bound = [&](const auto& folder) {
        return config::endpoint_in(folder, endpoint) == bound;
      };
      // libzmq would replace whatever lies there by now.
      if (std::ranges::any_of(folders, is_bound)) return obstacle_to_bind_anew(bound);
    }
  }
  return obstacle(endpoint);
}

void Reload::tell_access(const AccessBook::Change& change) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, fmt::join(names, ", "));
  };
  add("let in", change.added);
  add("no longer let in", change.revoked);
  add("in another role", change.changed);
  if (text.empty()) return;
  events_.raise(
      EventLog::Level::Info, "access_changed", text,
      {{"added", change.added}, {"revoked", change.revoked}, {"changed", change.changed}});
}

}  // namespace driftd::daemon
