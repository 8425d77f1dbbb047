// SPDX-License-Identifier: MIT
// `driftctl keygen`: makes the keys for daemons and clients on a network, and says what to do with
// them; `driftctl access`: who one is to a daemon. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

void add_keygen(CLI::App& app);
void add_access(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
