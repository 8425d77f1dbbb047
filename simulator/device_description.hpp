// SPDX-License-Identifier: MIT
// The GenICam description of the simulated camera in a dialect.
#pragma once

#include <string>

#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// genicam.xml with the parts that the dialect has: what stands between "<!-- only: NAME -->" and
/// "<!-- end -->" belongs to the names that are active.
std::string describe(const CameraDialect& dialect);

}  // namespace driftd::simulator
