// SPDX-License-Identifier: MIT
// `driftctl status`: the state, the camera, the drift and the latency; `driftctl watch`: the same
// and the markers, live. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Add a command; `options` outlives the app.
void add_status(CLI::App& app, const CommonOptions& options);
void add_watch(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
