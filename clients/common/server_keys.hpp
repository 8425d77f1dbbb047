// SPDX-License-Identifier: MIT
// The keys of a connection to a daemon on another computer: one's own pair and the daemon's public
// key, from the user's folder ~/.config/driftd unless told otherwise (docs/use/security.md). Any
// thread.
#pragma once

#include <filesystem>
#include <string>
#include <zmq.hpp>

namespace driftd::clients {

struct ServerKeys {
  std::string server;                  ///< the daemon's public key
  std::string public_key, secret_key;  ///< one's own

  bool empty() const { return server.empty(); }
};

/// $XDG_CONFIG_HOME/driftd, or ~/.config/driftd; empty where there is no home.
std::filesystem::path user_folder();

struct KeyFiles {
  std::filesystem::path key;     ///< one's own; empty: client.key_secret in the user's folder
  std::filesystem::path server;  ///< empty: servers/HOST.key there
};
/// @param address  "tcp://HOST:PORT". @throws config::ConfigError, one sentence
ServerKeys read_server_keys(const KeyFiles& files, const std::string& address);

/// Gives keys to a socket before it connects. Without keys it stays as it is.
void use_keys(zmq::socket_t& socket, const ServerKeys& keys);

}  // namespace driftd::clients
