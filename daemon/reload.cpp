// SPDX-License-Identifier: MIT
#include "daemon/reload.hpp"

#include <spdlog/spdlog.h>

#include "config/drop_ins.hpp"
#include "config/log_level.hpp"
#include "daemon/setup/axial_curve.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {

Outcome Reload::run() {
  try {
    config::Origins origins;
    config::Config after = with_curve(config::load(file_, &origins));
    const bool idle = loop_.report().lock.state == control::LockState::Idle && !orders_pending_();
    if (!have_other_curves(config_, after))
      after.axial.read = config_.axial.read;  // z keeps its zero
    else if (!idle)
      throw config::ConfigError(
          "axial.curve holds another curve: the lock must be idle (unlock it)");
    const auto fixed = config::not_reloadable_changes(config_, after, idle);
    if (!fixed.empty()) {
      const bool unlocked_is_enough =
          !idle && config::not_reloadable_changes(config_, after, true).empty();
      throw config::ConfigError(fmt::format(
          "{} to change {}",
          unlocked_is_enough ? "the lock must be idle (unlock it)" : "a restart is needed",
          fmt::join(fixed, ", ")));
    }
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

void Reload::check_start() const {
  try {
    config::read_access(with_curve(config::load(file_)).access);
  } catch (const config::ConfigError& error) {
    throw CommandRefused{
        Refusal::Refused,
        std::string("driftd would not start with this configuration: ") + error.what()};
  }
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
