// SPDX-License-Identifier: MIT
// The commands about saved places: `place save`, `list`, `show`, `remove`, and `lock --place`. Made
// by main(); one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "clients/driftctl/common_options.hpp"

namespace driftd::clients {

/// @param options  read when the command is run
void add_place(CLI::App& app, const CommonOptions& options);
/// Waits as long as the search in a large image takes. @throws as send()
void lock_at_place(const CommonOptions& options, const std::string& name);

}  // namespace driftd::clients
