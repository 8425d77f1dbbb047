// SPDX-License-Identifier: MIT
// `driftctl calibrate z`: has the daemon take the stage of z through a range, prints what came out,
// and on request writes the curve and its place in the configuration. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Adds `z` to the command `calibrate`; `common` outlives the app.
void add_calibrate_axial(CLI::App& calibrate_command, const CommonOptions& common);

}  // namespace driftd::clients
