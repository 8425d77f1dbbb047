// SPDX-License-Identifier: MIT
// `driftctl measure`: what the sample does by itself, from some seconds of positions; `driftctl
// advise`: what a lock leaves, and what would help. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Add a command; `options` outlives the app.
void add_measure(CLI::App& app, const CommonOptions& options);
void add_advise(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
