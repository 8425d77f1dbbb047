// SPDX-License-Identifier: MIT
// `driftctl lock`: engages the lock, and waits on request until it holds; `driftctl unlock` and
// `driftctl reset` end it. One thread.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

/// Add a command; `options` outlives the app.
void add_lock(CLI::App& app, const CommonOptions& options);
void add_unlock(CLI::App& app, const CommonOptions& options);  ///< and `reset`
/// "holding (too few markers): see light, ...", from `status`, or from the lock of z in it.
std::string lock_in_words(const nlohmann::json& status);
/// "state: idle", that of z where the order was for both, and the warning of the answer if there is
/// one; with --json the answer.
void print_state(const CommonOptions& options, const nlohmann::json& body,
                 const char* of = "state");

}  // namespace driftd::clients
