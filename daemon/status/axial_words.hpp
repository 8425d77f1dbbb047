// SPDX-License-Identifier: MIT
// Where z stands, in words and for `status`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/config.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// `status.axial`; null without axial.method.
/// @param current  frames come, and are measured
/// @param left  what people are to know of the stage of z beside that: SweepMemory::text()
nlohmann::json axial_json(const LoopReport& loop, const config::Config& config, bool current,
                          const std::string& left = {});

/// Why z is not measured, for people; "": it is. @param current  as above
std::string why_no_z(const LoopReport& loop, const config::Config& config, bool current);
/// That the limits of z let it leave the curve; "": they do not.
std::string limit_warning(const config::Config& config);

}  // namespace driftd::daemon
