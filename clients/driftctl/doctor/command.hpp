// SPDX-License-Identifier: MIT
// `driftctl doctor`: looks at this computer and the daemon, and prints what is wrong with either
// and what to do. `driftctl cameras`: the cameras that a search finds. Both change nothing. One
// thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

struct DoctorOptions {
  bool list = false;
  bool failed = false;  ///< set by the command: something has to be mended
};

/// Add a command; the structs outlive the app.
void add_doctor(CLI::App& app, const CommonOptions& common, DoctorOptions& options);
void add_cameras(CLI::App& app, const CommonOptions& common);

}  // namespace driftd::clients
