// SPDX-License-Identifier: MIT
// Where z stands, in words and for `status`. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// `status.axial`; null without axial.method.
/// @param current  frames come, and are measured
nlohmann::json axial_json(const LoopReport& loop, const config::Config& config, bool current);

}  // namespace driftd::daemon
