// SPDX-License-Identifier: MIT
#include "clients/driftctl/shared/common_options.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "clients/common/find_daemon.hpp"
#include "config/endpoint.hpp"
#include "config/local_sockets.hpp"

namespace driftd::clients {

namespace {

/// The endpoint for clients on this computer, out of several that a socket is bound to.
std::string local_one(const config::Endpoints& endpoints) {
  const auto local = std::ranges::find_if_not(endpoints, config::is_tcp);
  return local != endpoints.end() ? *local : endpoints.front();
}

bool is_remote(const CommonOptions& options) {
  return !options.connect.empty();
}

}  // namespace

Sockets sockets_of(const CommonOptions& options) {
  Sockets sockets;
  if (is_remote(options)) {
    sockets.commands = options.connect;
  } else {
    const config::Wire wire =
        (options.config.empty() ? config::default_config() : config::load(options.config)).wire;
    sockets.commands = local_one(wire.commands);
    sockets.publish = local_one(wire.publish);
    sockets.corrections = local_one(wire.corrections);
    for (std::string* endpoint : {&sockets.commands, &sockets.publish, &sockets.corrections}) {
      if (!options.instance.empty() && config::is_named(*endpoint))
        endpoint->insert(std::string_view("ipc://").size(), options.instance + '/');
    }
  }
  if (!options.commands.empty()) sockets.commands = options.commands;
  if (!options.publish.empty()) sockets.publish = options.publish;
  if (!options.corrections.empty()) sockets.corrections = options.corrections;
  if (is_remote(options) || !options.keys.key.empty() || !options.keys.server.empty())
    sockets.keys = read_server_keys(options.keys, sockets.commands);
  return sockets;
}

std::vector<std::string> publishers_of(const CommonOptions& options, bool corrections) {
  Sockets sockets = sockets_of(options);
  nlohmann::json access = {{"corrections", true}};
  try {
    access = send(options, {{"command", "access"}}).body;
  } catch (const Refused& refused) {  // a daemon from before there were roles does not know it
    if (refused.code != "bad_request" || sockets.publish.empty()) throw;
  }
  const auto there = [&](std::string& endpoint, const char* socket) {
    if (!endpoint.empty()) return find_endpoint(endpoint);
    const nlohmann::json& port = access.at("ports").at(socket);
    if (port.is_null())
      throw Unreachable(std::string("that driftd has no tcp:// in its wire.") + socket);
    return sockets.commands.substr(0, sockets.commands.rfind(':') + 1) +
           std::to_string(port.get<int>());
  };
  std::vector<std::string> endpoints = {there(sockets.publish, "publish")};
  if (corrections && access.at("corrections").get<bool>())
    endpoints.push_back(there(sockets.corrections, "corrections"));
  return endpoints;
}

CommandClient client_of(const CommonOptions& options) {
  Sockets sockets = sockets_of(options);
  return CommandClient(find_endpoint(sockets.commands),
                       std::chrono::milliseconds(static_cast<long>(options.timeout_s * 1000)),
                       std::move(sockets.keys));
}

Reply send(const CommonOptions& options, const nlohmann::json& command) {
  CommandClient client = client_of(options);
  return client.request(command);
}

}  // namespace driftd::clients
