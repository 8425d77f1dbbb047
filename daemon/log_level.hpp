// SPDX-License-Identifier: MIT
// What `log.level` is to spdlog. Pure.
#pragma once

#include <spdlog/common.h>

#include "config/config.hpp"

namespace driftd::daemon {

constexpr spdlog::level::level_enum log_level(config::LogLevel level) noexcept {
  switch (level) {
    case config::LogLevel::Debug:
      return spdlog::level::debug;
    case config::LogLevel::Info:
      return spdlog::level::info;
    case config::LogLevel::Warning:
      return spdlog::level::warn;
    case config::LogLevel::Error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace driftd::daemon
