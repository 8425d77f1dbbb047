// SPDX-License-Identifier: MIT
// `driftctl record start|stop|status|frames`: what the daemon writes of its frames to its disk. One
// thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Adds the command; `options` outlives the app.
void add_record(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
