// SPDX-License-Identifier: MIT
// Values that are each allowed and make no sense together. Private to config/; pure.
#pragma once

#include <vector>

#include "config/table.hpp"

namespace driftd::config {

/// Empty for a configuration that makes sense. Sections that the configuration does not use (replay
/// with a camera, the list in mode auto) are not looked at.
std::vector<Conflict> find_conflicts(const Config& config);

}  // namespace driftd::config
