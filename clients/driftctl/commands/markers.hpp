// SPDX-License-Identifier: MIT
// driftctl markers: what they show, and which they are: as driftd chooses them, or as somebody does
// by their places in the picture. Main thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

void add_markers(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
