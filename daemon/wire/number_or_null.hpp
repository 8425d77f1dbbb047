// SPDX-License-Identifier: MIT
// Numbers as messages have them. Pure.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace driftd::daemon {

/// A finite number, or null.
inline nlohmann::json number_or_null(double value, bool exists = true) {
  return exists && std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace driftd::daemon
