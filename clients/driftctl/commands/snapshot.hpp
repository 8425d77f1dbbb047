// SPDX-License-Identifier: MIT
// `driftctl snapshot`: the current frame with its ROIs as a PNG, once or kept fresh
// (keep_snapshot.hpp). One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Adds the command; `options` outlives the app.
void add_snapshot(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
