// SPDX-License-Identifier: MIT
// `driftctl calibrate camera`: fetches frames from the daemon, measures the camera by them
// (photon_transfer.hpp), prints what came out beside what the configuration says, and proposes
// values. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "clients/common/command_client.hpp"

namespace driftd::clients {

/// What the program gives its commands; called when the command line has been read.
struct CameraCommandSetUp {
  std::function<Reply(const nlohmann::json& command)> request;  ///< to the daemon
  std::function<std::filesystem::path()> config;                ///< empty: none was named
  std::function<bool()> json;
};

/// Adds `camera` to the subcommand `calibrate`.
void add_calibrate_camera(CLI::App& calibrate, CameraCommandSetUp set_up);

}  // namespace driftd::clients
