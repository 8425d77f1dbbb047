// SPDX-License-Identifier: MIT
// The stage of driftd-sim (`--stage-input PATH`): a UNIX datagram socket that takes "move X Y" and
// answers "read". Its axes are named x and y.
#pragma once

#include <memory>

#include "clients/stage/stage.hpp"

namespace driftd::stage {

/// @throws std::invalid_argument
std::unique_ptr<Stage> make_simulator(const StageOptions& options);

}  // namespace driftd::stage
