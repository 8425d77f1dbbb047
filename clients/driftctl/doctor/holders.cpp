// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/holders.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

/// The inode of this computer's UDP socket at that port; 0: none.
std::uint64_t socket_at(const Machine& machine, int port) {
  std::istringstream lines(machine.text("proc/net/udp").value_or(""));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    // sl local rem st queues timer retransmits uid timeout inode
    std::istringstream fields(line);
    std::string slot, local, skipped;
    std::uint64_t inode = 0;
    fields >> slot >> local;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    fields >> inode;
    const std::size_t colon = local.find(':');
    int here = 0;
    if (colon == std::string::npos) continue;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), here, 16);
    if (fields && here == port) return inode;
  }
  return 0;
}

/// "process 1234 (driftd)", which has `target` open; "" where that cannot be told, as of another
/// user's.
std::string process_with(const Machine& machine, const std::string& target) {
  for (const std::string& pid : machine.names("proc")) {
    if (pid.empty() || pid[0] < '0' || pid[0] > '9') continue;
    for (const std::string& descriptor : machine.names("proc/" + pid + "/fd")) {
      std::error_code error;
      const fs::path open =
          fs::read_symlink(machine.root / "proc" / pid / "fd" / descriptor, error);
      if (!error && open == target)
        return fmt::format("process {} ({})", pid,
                           machine.line("proc/" + pid + "/comm").value_or("?"));
    }
  }
  return {};
}

std::string holder_of_usb(const Machine& machine, const camera::ListedCamera& camera) {
  for (const std::string& device : usb_cameras(machine)) {
    const std::string serial =
        machine.line(fmt::format("{}/{}/serial", kUsbDevices, device)).value_or("");
    if (serial.empty() || serial != camera.serial) continue;
    std::string process = process_with(machine, "/" + usb_node(machine, device));
    if (!process.empty()) return process;
    return machine.user == "root" ? "nobody" : "";  // others' processes show to root alone
  }
  return {};
}

/// "" where it cannot be told.
std::string holder_of(const Machine& machine, const camera::ListedCamera& camera) {
  if (camera.address.empty()) return holder_of_usb(machine, camera);
  const auto asked = machine.ask_camera(camera.address);
  if (!asked) return {};
  if (!is_held(*asked)) return "nobody";
  const bool ours = daemon_has_camera(machine) && machine.camera_address() == camera.address;
  return ours ? "driftd" : holder(machine, *asked);
}

/// "" where none leads there.
std::string interface_of(const Machine& machine, const camera::ListedCamera& camera) {
  return camera.address.empty() ? "USB" : machine.interface_to_camera(camera.address);
}

}  // namespace

std::vector<std::string> usb_cameras(const Machine& machine) {
  std::vector<std::string> cameras;
  for (const std::string& name : machine.names(kUsbDevices)) {
    const std::size_t colon = name.find(':');
    const std::string at = fmt::format("{}/{}", kUsbDevices, name);
    if (colon == std::string::npos || machine.line(at + "/bInterfaceClass") != "ef" ||
        machine.line(at + "/bInterfaceSubClass") != "05")
      continue;
    const std::string device = name.substr(0, colon);
    if (cameras.empty() || cameras.back() != device) cameras.push_back(device);
  }
  return cameras;
}

std::string usb_node(const Machine& machine, const std::string& device) {
  const std::string at = fmt::format("{}/{}", kUsbDevices, device);
  return fmt::format("dev/bus/usb/{:03}/{:03}", machine.number(at + "/busnum").value_or(0),
                     machine.number(at + "/devnum").value_or(0));
}

bool is_held(const GigeCamera& camera) {
  constexpr std::uint32_t kControlled = 3;
  return !camera.may_read || (camera.privilege & kControlled) != 0;
}

bool daemon_has_camera(const Machine& machine) {
  return machine.status &&
         machine.status->value("/camera/connected"_json_pointer, nlohmann::json()) == true;
}

std::string holder(const Machine& machine, const GigeCamera& camera) {
  if (camera.holder_address.empty()) return "another program; the camera does not tell which";
  const std::string at = fmt::format("{}, port {}", camera.holder_address, camera.holder_port);
  const std::uint64_t inode = socket_at(machine, camera.holder_port);
  if (inode == 0) return "a program at " + at;
  const std::string process = process_with(machine, fmt::format("socket:[{}]", inode));
  return process.empty() ? "a program of this computer, " + at : process + " at " + at;
}

nlohmann::json camera_list(const Machine& machine) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  nlohmann::json list = nlohmann::json::array();
  for (const camera::ListedCamera& camera : machine.find_cameras()) {
    list.push_back({{"id", camera.id},
                    {"address", or_null(camera.address)},
                    {"serial", camera.serial},
                    {"vendor", camera.vendor},
                    {"model", camera.model},
                    {"user_name", camera.user_name},
                    {"hardware", camera.hardware},
                    {"interface", or_null(interface_of(machine, camera))},
                    {"held_by", or_null(holder_of(machine, camera))}});
  }
  return list;
}

std::vector<std::string> camera_lines(const Machine& machine) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows{{"address", "serial", "model", "interface", "held by"}};
  bool out_of_reach = false;
  for (const nlohmann::json& camera : camera_list(machine)) {
    const auto told = [&](const char* key) {
      return camera.at(key).is_string() && camera.at(key) != "" ? camera.at(key).get<std::string>()
                                                                : "-";
    };
    out_of_reach = out_of_reach || camera.at("interface").is_null();
    rows.push_back({told("address"), told("serial"), told("vendor") + " " + told("model"),
                    told("interface"), told("held_by")});
  }
  if (rows.size() == 1)
    return {
        "no camera is found",
        "See power and cable. A GigE Vision camera has to share a network with an interface of "
        "this computer,",
        "and no firewall may drop UDP from its port 3956. One behind a router does not show; its "
        "address in camera.id will do."};
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size() + 2);
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i]);
    lines.push_back(line);
  }
  if (out_of_reach)
    lines.emplace_back(
        "Without an interface: give the camera an address of one's network, or the interface one "
        "of the camera's.");
  return lines;
}

}  // namespace driftd::clients::doctor
