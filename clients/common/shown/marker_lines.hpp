// SPDX-License-Identifier: MIT
// The markers as a table. Pure; any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/shown/line.hpp"

namespace driftd::clients::shown {

/// One line a marker below a heading. @param listed  what `markers` tells
std::vector<Line> marker_table(const nlohmann::json& listed, std::size_t max_lines);

}  // namespace driftd::clients::shown
