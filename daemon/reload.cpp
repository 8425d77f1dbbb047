// SPDX-License-Identifier: MIT
#include "daemon/reload.hpp"

#include <spdlog/spdlog.h>

#include "daemon/compose.hpp"
#include "daemon/log_level.hpp"

namespace driftd::daemon {

void Reload::run() {
  try {
    config::Config after = config::load(file_);
    const bool idle = loop_.report().lock.state == control::LockState::Idle && !orders_pending_();
    const auto fixed = config::not_reloadable_changes(config_, after, idle);
    if (!fixed.empty()) {
      const bool unlocked_is_enough =
          !idle && config::not_reloadable_changes(config_, after, true).empty();
      throw config::ConfigError(fmt::format(
          "{} to change {}",
          unlocked_is_enough ? "the lock must be idle (unlock it)" : "a restart is needed",
          fmt::join(fixed, ", ")));
    }
    config_ = std::move(after);
    loop_.change_settings(std::make_unique<LoopSettings>(loop_settings(config_, camera_.info())));
    spdlog::set_level(log_level(config_.log.level));
    events_.raise(EventLog::Level::Info, "configuration_reloaded", file_.string());
  } catch (const config::ConfigError& error) {
    events_.raise(EventLog::Level::Error, "configuration_rejected",
                  std::string("the old configuration keeps running: ") + error.what());
  }
}

}  // namespace driftd::daemon
