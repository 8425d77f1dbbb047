// SPDX-License-Identifier: MIT
// driftctl exposure: the camera's exposure time and gain, and others while nothing is locked. Main
// thread.
#pragma once

#include <CLI/CLI.hpp>

#include "clients/driftctl/shared/common_options.hpp"

namespace driftd::clients {

void add_exposure(CLI::App& app, const CommonOptions& options);

}  // namespace driftd::clients
