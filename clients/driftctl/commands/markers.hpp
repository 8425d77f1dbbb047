// SPDX-License-Identifier: MIT
// `driftctl markers`: the table of markers; with --find they are looked for anew. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Adds the command; `options` outlives the app.
void add_markers(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
