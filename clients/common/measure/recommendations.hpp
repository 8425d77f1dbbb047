// SPDX-License-Identifier: MIT
// What some seconds of measurement say should be done before a lock, in words: light and exposure,
// markers, frame rate, stage, law. Pure.
#pragma once

#include <optional>
#include <vector>

#include "clients/common/measure/advice.hpp"
#include "clients/common/measure/measurement.hpp"
#include "config/config.hpp"

namespace driftd::clients {

/// @param config  of the daemon; nothing: not known, and what it says of stage, law and exposure
///   is not spoken of
/// @returns at least one
std::vector<Advice> recommendations(const MeasurementReport& report,
                                    const std::optional<config::Config>& config);

}  // namespace driftd::clients
