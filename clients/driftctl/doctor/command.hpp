// SPDX-License-Identifier: MIT
// `driftctl doctor`: looks at this computer and the daemon, and prints what is wrong with either
// and what to do. Changes nothing. One thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/common_options.hpp"

namespace driftd::clients {

struct DoctorOptions {
  bool list = false;
  bool failed = false;  ///< set by the command: something has to be mended
};

/// Adds the command; both structs outlive the app.
void add_doctor(CLI::App& app, const CommonOptions& common, DoctorOptions& options);

}  // namespace driftd::clients
