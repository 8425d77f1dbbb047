// SPDX-License-Identifier: MIT
#include "base/routes.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <sstream>

namespace driftd {
namespace {

struct Network {
  std::uint32_t address, mask;
};
constexpr Network kLinkLocal{0xa9fe0000, 0xffff0000};

std::optional<std::uint32_t> number_of(const std::string& address) {
  in_addr parsed{};
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) return std::nullopt;
  return parsed.s_addr;
}

}  // namespace

std::vector<Route> routes_of(const std::string& proc_net_route) {
  std::istringstream lines(proc_net_route);
  std::vector<Route> routes;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    Route route;
    unsigned flags = 0;
    int skipped = 0;
    fields >> route.interface >> std::hex >> route.destination >> route.gateway >> flags >>
        std::dec >> skipped >> skipped >> skipped >> std::hex >> route.mask;
    constexpr unsigned kUp = 1;
    if (fields && (flags & kUp) != 0) routes.push_back(route);
  }
  return routes;
}

std::optional<Route> route_to(const std::vector<Route>& routes, const std::string& address) {
  const auto wanted = number_of(address);
  if (!wanted) return std::nullopt;
  if (is_loopback_address(address)) return Route{.interface = "lo"};
  const bool link_local = (ntohl(*wanted) & kLinkLocal.mask) == kLinkLocal.address;
  std::optional<Route> best;
  for (const Route& route : routes) {
    if ((*wanted & route.mask) != route.destination || (link_local && route.gateway != 0)) continue;
    if (!best || std::popcount(route.mask) > std::popcount(best->mask)) best = route;
  }
  return best;
}

std::string interface_to(const std::vector<Route>& routes, const std::string& address) {
  const auto route = route_to(routes, address);
  return route ? route->interface : "";
}

bool has_default_route(const std::vector<Route>& routes, const std::string& interface) {
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.interface == interface && route.destination == 0 && route.mask == 0;
  });
}

bool is_loopback_address(const std::string& address) {
  return number_of(address) && address.starts_with("127.");
}

bool is_private_address(const std::string& address) {
  constexpr std::array<Network, 5> kPrivate = {{{0x0a000000, 0xff000000},
                                                {0xac100000, 0xfff00000},
                                                {0xc0a80000, 0xffff0000},
                                                kLinkLocal,
                                                {0x7f000000, 0xff000000}}};
  const auto number = number_of(address);
  if (!number) return false;
  const std::uint32_t host = ntohl(*number);
  return std::ranges::any_of(
      kPrivate, [&](const Network& network) { return (host & network.mask) == network.address; });
}

std::string exposure_of_camera(const std::vector<Route>& routes, const std::string& address) {
  const std::string interface = interface_to(routes, address);
  if (interface.empty() || interface == "lo") return {};
  if (has_default_route(routes, interface))
    return interface + " has the default route: the camera is on a network with others";
  if (!is_private_address(address))
    return address + " is a public address: the camera may be reached from anywhere";
  return {};
}

}  // namespace driftd
