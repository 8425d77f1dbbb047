// SPDX-License-Identifier: MIT
#include "daemon/reload.hpp"

#include <spdlog/spdlog.h>

#include "daemon/compose.hpp"
#include "daemon/log_level.hpp"

namespace driftd::daemon {

void Reload::run() {
  try {
    config::Config after = config::load(file_);
    const auto fixed = config::not_reloadable_changes(config_, after);
    if (!fixed.empty()) {
      throw config::ConfigError(
          fmt::format("a restart is needed to change {}", fmt::join(fixed, ", ")));
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
