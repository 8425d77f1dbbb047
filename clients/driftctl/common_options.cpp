// SPDX-License-Identifier: MIT
#include "clients/driftctl/common_options.hpp"

#include <string_view>

#include "clients/common/find_daemon.hpp"
#include "config/local_sockets.hpp"

namespace driftd::clients {

config::Wire wire_of(const CommonOptions& options) {
  config::Wire wire =
      (options.config.empty() ? config::default_config() : config::load(options.config)).wire;
  for (std::string* endpoint : {&wire.commands, &wire.publish, &wire.corrections}) {
    if (!options.instance.empty() && config::is_named(*endpoint))
      endpoint->insert(std::string_view("ipc://").size(), options.instance + '/');
  }
  if (!options.commands.empty()) wire.commands = options.commands;
  if (!options.publish.empty()) wire.publish = options.publish;
  if (!options.corrections.empty()) wire.corrections = options.corrections;
  return wire;
}

CommandClient client_of(const CommonOptions& options) {
  return CommandClient(find_endpoint(wire_of(options).commands),
                       std::chrono::milliseconds(static_cast<long>(options.timeout_s * 1000)));
}

Reply send(const CommonOptions& options, const nlohmann::json& command) {
  CommandClient client = client_of(options);
  return client.request(command);
}

}  // namespace driftd::clients
