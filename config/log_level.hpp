// SPDX-License-Identifier: MIT
// What `log.level` is to spdlog. Pure.
#pragma once

#include <spdlog/common.h>

#include "config/config.hpp"

namespace driftd::config {

constexpr spdlog::level::level_enum log_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warning:
      return spdlog::level::warn;
    case LogLevel::Error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace driftd::config
