// SPDX-License-Identifier: MIT
#include "clients/common/server_keys.hpp"

#include <cstdlib>

#include "config/key_file.hpp"

namespace driftd::clients {
namespace {

using std::filesystem::path;

path environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value != nullptr && *value == '/' ? path(value) : path();
}

/// "scope" of "tcp://scope:5555"
std::string host_of(const std::string& address) {
  const std::size_t begin = address.find("://");
  const std::size_t first = begin == std::string::npos ? 0 : begin + 3;
  return address.substr(first, address.rfind(':') - first);
}

void check_there(const path& file, const std::string& what) {
  if (std::filesystem::exists(file)) return;
  throw config::ConfigError(file.string() + ": there is no such file; " + what);
}

}  // namespace

path user_folder() {
  if (const path config = environment("XDG_CONFIG_HOME"); !config.empty()) return config / "driftd";
  const path home = environment("HOME");
  return home.empty() ? path() : home / ".config" / "driftd";
}

ServerKeys read_server_keys(const KeyFiles& files, const std::string& address) {
  const path own = files.key.empty() ? user_folder() / "client.key_secret" : files.key;
  const path server =
      files.server.empty() ? user_folder() / "servers" / (host_of(address) + ".key") : files.server;
  check_there(own, "your own key is made by `driftctl keygen client NAME`");
  check_there(server,
              "the public key of the daemon comes from its computer: server.key, which "
              "`driftctl keygen server` made there");
  const config::KeyFile pair = config::read_secret_key_file(own, config::Readers::Nobody);
  return {.server = config::read_public_key_file(server).public_key,
          .public_key = pair.public_key,
          .secret_key = pair.secret_key};
}

void use_keys(zmq::socket_t& socket, const ServerKeys& keys) {
  if (keys.empty()) return;
  // A client that is refused does not ask again twenty times a second.
  constexpr int kLongestPauseMs = 1000;
  socket.set(zmq::sockopt::reconnect_ivl_max, kLongestPauseMs);
  socket.set(zmq::sockopt::curve_serverkey, keys.server);
  socket.set(zmq::sockopt::curve_publickey, keys.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
}

}  // namespace driftd::clients
