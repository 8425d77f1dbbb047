// SPDX-License-Identifier: MIT
// What all commands of driftctl share: where the daemon is, how long to wait for it, and the exit
// codes. Made by main(); one thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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
  std::string connect;                         ///< "tcp://HOST:PORT"; empty: on this computer
  KeyFiles keys;
  double timeout_s = 2;
  bool json = false;
};

/// Where a daemon is reached.
struct Sockets {
  std::string commands, publish, corrections;
  ServerKeys keys;
};
/// The daemon's; of one on another computer that of commands alone. @throws config::ConfigError
Sockets sockets_of(const CommonOptions& options);
/// The endpoints that publish to this user: the daemon is asked which, and where they are. First
/// `publish`, then `corrections` where they are wanted and the role allows it.
/// @throws as client_of() and CommandClient::request()
std::vector<std::string> publishers_of(const CommonOptions& options, bool corrections);
/// To the daemon's command socket. @throws config::ConfigError, BadEndpoint, Unreachable
CommandClient client_of(const CommonOptions& options);
/// One command, answered. @throws as client_of() and CommandClient::request()
Reply send(const CommonOptions& options, const nlohmann::json& command);

}  // namespace driftd::clients
