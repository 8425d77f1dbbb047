// SPDX-License-Identifier: MIT
// What a lock found out of its stage, in words and for `status`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/config.hpp"
#include "control/lock/supervisor.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// "the stage answers 9.1 ms late, configured are 3.0 ms: `driftctl calibrate --write` keeps it".
std::string stage_in_words(const control::StageKnowledge& found, const config::Stage& told,
                           AxisGroup group = AxisGroup::Lateral);
/// `status.acquaintance`.
nlohmann::json acquaintance_json(const LockReport& lock, const config::Stage& told,
                                 AxisGroup group = AxisGroup::Lateral);
/// What is told of the stage of a group; that of z as one whose x is z.
config::Stage stage_of(const config::Config& config, AxisGroup group);

}  // namespace driftd::daemon
