// SPDX-License-Identifier: MIT
// `driftctl export`: a record, or its drift in each frame of another camera, in the formats of
// other programs. Needs no daemon. One thread.
#pragma once

#include <CLI/CLI.hpp>

namespace driftd::clients {

void add_export(CLI::App& app);

}  // namespace driftd::clients
