// SPDX-License-Identifier: MIT
// The kernel's IPv4 routes, from the text of /proc/net/route: over which interface an address is
// reached, and whether that leads to other networks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace driftd {

struct Route {
  std::string interface;
  std::uint32_t destination = 0, gateway = 0,
                mask = 0;  ///< as the kernel has them; gateway 0: none
};

/// A heading, then a line each; those that are up.
std::vector<Route> routes_of(const std::string& proc_net_route);
/// The one that is taken; none where no route leads there, or it is no address. No router passes
/// link-local addresses on (RFC 3927), so a route through one leads to none of them.
std::optional<Route> route_to(const std::vector<Route>& routes, const std::string& address);
/// The name of that route's interface: "lo" for loopback; "" without a route.
std::string interface_to(const std::vector<Route>& routes, const std::string& address);
bool has_default_route(const std::vector<Route>& routes, const std::string& interface);

bool is_loopback_address(const std::string& address);
/// Whether it is in a network that no router of the internet leads to: private (RFC 1918),
/// link-local, loopback.
bool is_private_address(const std::string& address);

/// Why whoever is on a network may reach a camera at this address; "" where nothing speaks for it.
std::string exposure_of_camera(const std::vector<Route>& routes, const std::string& address);

}  // namespace driftd
