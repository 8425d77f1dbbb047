// SPDX-License-Identifier: MIT
// The way from a GigE camera into memory.
#include <spdlog/fmt/fmt.h>

#include "base/counted.hpp"

#include "clients/driftctl/doctor/doctor.hpp"

namespace driftd::clients::doctor {
namespace {

struct Way {
  std::string address, interface;
  std::vector<Finding> none;  ///< what is said where there is none to look at
};

/// The interface to the camera, where it is a GigE camera at another computer's end of a cable.
Way way_to_camera(const Machine& machine) {
  Way way{.address = machine.camera_address(), .interface = {}, .none = {}};
  if (way.address.empty()) {
    way.none = {{Level::Ok, "no GigE camera is known"}};
    return way;
  }
  way.interface = machine.interface_to_camera(way.address);
  if (way.interface == "lo") {
    way.none = {{Level::Ok, "the camera is on this computer"}};
  } else if (way.interface.empty()) {
    way.none = {{Level::Ok,
                 "not known: no interface of this computer is in the network of " + way.address}};
  }
  return way;
}

std::uint64_t count(const Machine& machine, const char* pointer) {
  if (!machine.status) return 0;
  const auto value = machine.status->value(nlohmann::json::json_pointer(pointer), nlohmann::json());
  return value.is_number_integer() && value >= 0 ? value.get<std::uint64_t>() : 0;
}

}  // namespace

std::vector<Finding> look_at_socket_buffer(const Machine& machine) {
  const int wanted = machine.config.camera.socket_buffer_bytes;
  const auto most = machine.number("proc/sys/net/core/rmem_max");
  if (!most) return {{Level::Warn, "net.core.rmem_max cannot be read"}};
  if (*most >= wanted) return {{Level::Ok, fmt::format("net.core.rmem_max is {} bytes", *most)}};
  // Under another name than the package's file, which one of the same name would put out of force.
  return {{Level::Warn,
           fmt::format("net.core.rmem_max is {} bytes, camera.socket_buffer_bytes wants {}", *most,
                       wanted),
           "Raise it, and keep it over the next boot.",
           fmt::format("echo net.core.rmem_max={} | sudo tee /etc/sysctl.d/90-driftd.conf && sudo "
                       "sysctl --system",
                       wanted)}};
}

std::vector<Finding> look_at_mtu(const Machine& machine) {
  constexpr long kJumbo = 9000;
  const Way way = way_to_camera(machine);
  if (!way.none.empty()) return way.none;
  const auto mtu = machine.number("sys/class/net/" + way.interface + "/mtu");
  if (!mtu) return {{Level::Warn, "the MTU of " + way.interface + " cannot be read"}};
  if (*mtu >= kJumbo) return {{Level::Ok, fmt::format("{}: {} bytes", way.interface, *mtu)}};
  return {{Level::Warn, fmt::format("{} has an MTU of {} bytes", way.interface, *mtu),
           "Raise it, if the camera and a switch between take such packets.",
           fmt::format("sudo ip link set {} mtu {}", way.interface, kJumbo)}};
}

std::vector<Finding> look_at_packet_delay(const Machine& machine) {
  const Way way = way_to_camera(machine);
  if (!way.none.empty()) return way.none;
  const std::string& address = way.address;
  const auto camera = machine.ask_camera(address);
  if (!camera || !camera->packet_delay_ticks) return {{Level::Ok, "the camera does not tell"}};
  const std::uint32_t ticks = *camera->packet_delay_ticks;
  const std::string set = "arv-tool-0.8 -a " + address + " control GevSCPD=";
  const std::uint64_t lost = count(machine, "/camera/lost");
  if (ticks == 0 && lost > 0)
    return {
        {Level::Warn,
         fmt::format("none, and {} lost since the daemon's start",
                     counted(lost, "frame was", "frames were")),
         "While the camera is not in use, try some ticks; see the checks socket_buffer, mtu and "
         "nic_offloads first.",
         set + "1000"}};
  if (ticks == 0) return {{Level::Ok, "none"}};
  const double delay_us =
      camera->tick_hz > 0 ? 1e6 * ticks / static_cast<double>(camera->tick_hz) : 0;
  const std::uint64_t bytes =
      2 * count(machine, "/camera/width_px") * count(machine, "/camera/height_px");
  constexpr double kLeastPayload = 1400;
  const double frame_us = static_cast<double>(bytes) / kLeastPayload * delay_us;
  const double period_us = 1e6 / machine.config.camera.frame_rate_hz;
  const std::string found = delay_us > 0 ? fmt::format("{} ticks, {:.1f} us", ticks, delay_us)
                                         : fmt::format("{} ticks", ticks);
  if (machine.config.camera.frame_rate_hz > 0 && frame_us > period_us / 2)
    return {{Level::Warn, found + fmt::format(": up to {:.0f} us a frame", frame_us),
             "Lower it while the camera is not in use: every frame is late by so much.",
             set + "0"}};
  return {{Level::Ok, found}};
}

std::vector<Finding> look_at_offloads(const Machine& machine) {
  constexpr int kLongWaitUs = 30;
  const Way way = way_to_camera(machine);
  if (!way.none.empty()) return way.none;
  const NicSettings nic = machine.nic(way.interface);
  std::vector<Finding> findings;
  if (nic.rx_ring && nic.rx_ring_most && *nic.rx_ring < *nic.rx_ring_most)
    findings.push_back({Level::Warn,
                        fmt::format("{} receives into a ring of {} of {}", way.interface,
                                    counted(*nic.rx_ring, "packet"), *nic.rx_ring_most),
                        "Take all of it.",
                        fmt::format("sudo ethtool -G {} rx {}", way.interface, *nic.rx_ring_most)});
  if (nic.rx_wait_us && *nic.rx_wait_us > kLongWaitUs)
    findings.push_back(
        {Level::Warn,
         fmt::format("{} holds interrupts back for {} us", way.interface, *nic.rx_wait_us),
         "Let it wait for less.", fmt::format("sudo ethtool -C {} rx-usecs 10", way.interface)});
  if (nic.large_receive.value_or(false))
    findings.push_back({Level::Warn, way.interface + " joins packets (LRO)", "Switch that off.",
                        fmt::format("sudo ethtool -K {} lro off", way.interface)});
  if (!findings.empty()) return findings;
  const bool tells = nic.rx_ring || nic.rx_wait_us || nic.large_receive;
  return {{Level::Ok, way.interface + (tells ? ": fine" : ": its driver does not tell")}};
}

std::vector<Finding> look_at_route(const Machine& machine) {
  const Way way = way_to_camera(machine);
  if (!way.none.empty()) return way.none;
  const std::string exposure = exposure_of_camera(machine.routes(), way.address);
  if (exposure.empty())
    return {{Level::Ok, way.interface + " leads to the camera's network alone"}};
  return {{Level::Warn, exposure,
           "Put the camera on an interface of its own; nothing protects it where it is.",
           "ip route show default dev " + way.interface}};
}

}  // namespace driftd::clients::doctor
