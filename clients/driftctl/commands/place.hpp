// SPDX-License-Identifier: MIT
// The commands about saved places: `place save`, `list`, `show`, `remove`, and `lock --place`. Made
// by main(); one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// @param options  read when the command is run
void add_place(CLI::App& app, const CommonOptions& options);
/// Waits as long as the search in a large image takes. @returns the answer. @throws as send()
nlohmann::json lock_at_place(const CommonOptions& options, const std::string& name);
/// How far that was, of its answer.
void print_way_to_place(const std::string& name, const nlohmann::json& body);

}  // namespace driftd::clients
