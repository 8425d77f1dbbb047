// SPDX-License-Identifier: MIT
#include <string>

#include "base/routes.hpp"
#include "support/catch.hpp"

namespace driftd {
namespace {

const std::string kHeading =
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
// As x86 and ARM print them: the bytes of an address from the right.
const std::string kLan =
    "eth0 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0\n"
    "eth0 0001A8C0 00000000 0001 0 0 100 00FFFFFF 0 0 0\n";
const std::string kCameras = "eth1 0000FEA9 00000000 0001 0 0 0 0000FFFF 0 0 0\n";
const std::string kPublic = "eth2 00080808 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";

}  // namespace

TEST_CASE("the longest route leads to an address, and one that is down to none") {
  const auto routes =
      routes_of(kHeading + kLan + kCameras + "eth3 000AA8C0 00000000 0000 0 0 0 00FFFFFF 0 0 0\n");
  REQUIRE(routes.size() == 3);
  CHECK(interface_to(routes, "169.254.7.2") == "eth1");
  CHECK(interface_to(routes, "192.168.1.9") == "eth0");
  CHECK(interface_to(routes, "192.168.10.9") == "eth0");  // by the default route
  CHECK(interface_to(routes, "127.1.2.3") == "lo");
  CHECK(interface_to(routes, "camera").empty());
  CHECK(interface_to({}, "169.254.7.2").empty());
}

TEST_CASE("no router leads to a link-local address") {
  const auto routes = routes_of(kHeading + kLan + kPublic);
  CHECK(interface_to(routes, "169.254.7.2").empty());
  CHECK(exposure_of_camera(routes, "169.254.7.2").empty());
  // A route without a router does, even where it is the default one.
  CHECK(interface_to(routes_of(kHeading + "ppp0 00000000 00000000 0001 0 0 0 00000000 0 0 0\n"),
                     "169.254.7.2") == "ppp0");
  CHECK(route_to(routes, "192.168.10.9")->gateway != 0);
  CHECK(route_to(routes, "192.168.1.9")->gateway == 0);
}

TEST_CASE("a camera is exposed on an interface with the default route or a public address") {
  const auto routes = routes_of(kHeading + kLan + kCameras + kPublic);
  CHECK(exposure_of_camera(routes, "169.254.7.2").empty());
  CHECK(exposure_of_camera(routes, "127.0.0.1").empty());
  CHECK(exposure_of_camera(routes, "USB3").empty());
  CHECK(exposure_of_camera(routes, "192.168.1.9").find("eth0 has the default route") == 0);
  CHECK(exposure_of_camera(routes, "8.8.8.9").find("8.8.8.9 is a public address") == 0);
}

TEST_CASE("private addresses are those that no router of the internet leads to") {
  for (const char* address :
       {"10.0.0.1", "172.16.0.1", "172.31.255.1", "192.168.0.1", "169.254.1.1"}) {
    INFO(address);
    CHECK(is_private_address(address));
  }
  for (const char* address :
       {"11.0.0.1", "172.32.0.1", "192.169.0.1", "169.253.1.1", "8.8.8.8", ""}) {
    INFO(address);
    CHECK_FALSE(is_private_address(address));
  }
}

}  // namespace driftd
