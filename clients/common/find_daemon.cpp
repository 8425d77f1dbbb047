// SPDX-License-Identifier: MIT
#include "clients/common/find_daemon.hpp"

#include <spdlog/fmt/fmt.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include "config/local_sockets.hpp"

namespace driftd::clients {
namespace {

using State = config::Listener::State;

std::string no_permission(const std::string& endpoint, const std::string& group) {
  return fmt::format("no permission to connect to {}: that takes a member of the group `{}`",
                     endpoint, group);
}

std::string nobody(const std::string& places) {
  return "no driftd is there (nobody listens at " + places + "); is it running?";
}

bool can_be_connected_to(std::string_view endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.starts_with(kIpc)) return endpoint.size() > kIpc.size() && endpoint.back() != '/';
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon <= kTcp.size()) return false;
  const std::string_view digits = endpoint.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc{} && end == digits.data() + digits.size() && port >= 1 && port <= 65535;
}

}  // namespace

std::string find_endpoint(const std::string& endpoint) {
  if (!can_be_connected_to(endpoint)) {
    throw BadEndpoint(fmt::format(
        "`{}` cannot be connected to: an endpoint is ipc://NAME, ipc:///PATH or tcp://HOST:PORT "
        "with a port of 1 to 65535",
        endpoint));
  }
  if (!config::is_named(endpoint)) return endpoint;
  std::string places;
  std::string forbidden;
  for (const auto& folder : config::runtime_directories()) {
    if (folder == config::fallback_directory() && !config::is_private(folder)) continue;
    std::string place = config::endpoint_in(folder, endpoint);
    const config::Listener listener = config::probe(place);
    if (listener.state == State::Listening) return place;
    if (listener.state == State::NoPermission) forbidden = no_permission(place, listener.group);
    places += (places.empty() ? "" : " or ") + place;
  }
  throw Unreachable(forbidden.empty() ? nobody(places) : forbidden);
}

std::string listener_at(const std::string& endpoint) {
  const config::Listener listener = config::probe(endpoint);
  if (listener.state == State::Nobody) {
    throw Unreachable(nobody(endpoint));
  }
  if (listener.state == State::NoPermission) {
    throw Unreachable(no_permission(endpoint, listener.group));
  }
  return listener.pid == 0 ? "driftd" : fmt::format("driftd (process {})", listener.pid);
}

}  // namespace driftd::clients
