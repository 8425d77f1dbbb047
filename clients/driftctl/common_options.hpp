// SPDX-License-Identifier: MIT
// What all commands of driftctl share: where the daemon is, how long to wait for it, and the exit
// codes. Made by main(); one thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "clients/common/command_client.hpp"
#include "config/config.hpp"

namespace driftd::clients {

constexpr int kExitRefused = 1;
constexpr int kExitUsage = 2;
constexpr int kExitUnreachable = 3;
constexpr int kExitFailed = 4;

struct CommonOptions {
  std::filesystem::path config;                ///< the daemon's; empty: the defaults
  std::string instance;                        ///< of driftd@NAME; empty: of driftd
  std::string commands, publish, corrections;  ///< empty: as the configuration has them
  double timeout_s = 2;
  bool json = false;
};

/// The daemon's endpoints. @throws config::ConfigError
config::Wire wire_of(const CommonOptions& options);
/// To the daemon's command socket. @throws config::ConfigError, BadEndpoint, Unreachable
CommandClient client_of(const CommonOptions& options);
/// One command, answered. @throws as client_of() and CommandClient::request()
Reply send(const CommonOptions& options, const nlohmann::json& command);

}  // namespace driftd::clients
