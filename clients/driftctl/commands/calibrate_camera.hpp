// SPDX-License-Identifier: MIT
// `driftctl calibrate camera`: fetches frames from the daemon, measures the camera by them
// (photon_transfer.hpp), prints what came out beside what the configuration says, and proposes
// values. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "clients/common/command_client.hpp"

namespace driftd::clients {

/// What the program gives its commands; called when the command line has been read.
struct CameraCommandSetUp {
  std::function<Reply(const nlohmann::json& command)> request;  ///< to the daemon
  std::function<std::filesystem::path()> config;                ///< empty: none was named
  std::function<bool()> json;
  /// Sets values of a YAML file in place, the keys as "camera.offset_adu". Empty: there is no
  /// --write.
  std::function<void(const std::filesystem::path& file,
                     const std::vector<std::pair<std::string, std::string>>& keys_and_values)>
      set_values;
};

/// Adds `camera` to the subcommand `calibrate`.
void add_calibrate_camera(CLI::App& calibrate, CameraCommandSetUp set_up);

}  // namespace driftd::clients
