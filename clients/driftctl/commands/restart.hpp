// SPDX-License-Identifier: MIT
// `driftctl restart`: has driftd start anew, after what is lost by it was told. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Adds the command; `options` outlives the app.
void add_restart(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
