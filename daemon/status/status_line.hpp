// SPDX-License-Identifier: MIT
// The sentence that `systemctl status driftd` shows: what a person asks first, from the message
// `status`. Housekeeping thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace driftd::daemon {

/// "locked (reference taken): 12 of 13 markers, drift 0.5 / 0.5 nm rms, 500 frames/s"
/// @param status  the fields of `status`, as status_json() makes them
std::string status_line(const nlohmann::json& status);

}  // namespace driftd::daemon
