// SPDX-License-Identifier: MIT
// driftctl move: the sample to another place while it is locked, one place or a file of them.
// Made by main(); one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// The places of a file with `x,y` or `x,y,dwell` a line, nm and s, as `path` of the command
/// `move`. Empty lines, and those that begin with # or a letter, are none. @throws
/// std::runtime_error
nlohmann::json read_places(const std::filesystem::path& file);

void add_move(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
