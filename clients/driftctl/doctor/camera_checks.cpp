// SPDX-License-Identifier: MIT
// The camera itself: whether it answers and whose it is, and the limits of USB.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <charconv>
#include <sstream>

#include "clients/driftctl/doctor/doctor.hpp"

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsbDevices = "sys/bus/usb/devices";

bool daemon_has_camera(const Machine& machine) {
  return machine.status &&
         machine.status->value("/camera/connected"_json_pointer, nlohmann::json()) == true;
}

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

/// "process 1234 (driftd)"; "" where that cannot be told, as of another user's.
std::string process_with(const Machine& machine, std::uint64_t inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  for (const std::string& pid : machine.names("proc")) {
    if (pid.empty() || pid[0] < '0' || pid[0] > '9') continue;
    for (const std::string& descriptor : machine.names("proc/" + pid + "/fd")) {
      std::error_code error;
      const fs::path target =
          fs::read_symlink(machine.root / "proc" / pid / "fd" / descriptor, error);
      if (!error && target == wanted)
        return fmt::format("process {} ({})", pid,
                           machine.line("proc/" + pid + "/comm").value_or("?"));
    }
  }
  return {};
}

std::string holder(const Machine& machine, const GigeCamera& camera) {
  if (camera.holder_address.empty()) return "another program; the camera does not tell which";
  const std::string at = fmt::format("{}, port {}", camera.holder_address, camera.holder_port);
  const std::uint64_t inode = socket_at(machine, camera.holder_port);
  if (inode == 0) return "a program at " + at;
  const std::string process = process_with(machine, inode);
  return process.empty() ? "a program of this computer, " + at : process + " at " + at;
}

/// The folders of USB3 Vision cameras: an interface of class 0xef, subclass 5.
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

/// By its mode, or by a list of its own (of who sits at the computer). The kernel's usual mode,
/// 0664 of root's group, lets nobody else write.
bool only_root_may_write(const fs::path& node) {
  struct stat file {};
  if (stat(node.c_str(), &file) != 0) return false;  // not here to be judged
  const bool group = (file.st_mode & S_IWGRP) != 0 && file.st_gid != 0;
  const bool listed = getxattr(node.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
  return !group && !listed && (file.st_mode & S_IWOTH) == 0;
}

/// The rule that the package brings, under its name, so that of the two one counts.
Finding missing_rule(const Machine& machine, const std::string& what) {
  const std::string name = "60-driftd-usb3vision.rules";
  const std::string take = "sudo udevadm control --reload && sudo udevadm trigger -s usb";
  if (machine.exists("usr/lib/udev/rules.d/" + name) || machine.exists("etc/udev/rules.d/" + name))
    return {Level::Fail, what, "The rule for USB3 Vision is there: let udev take it.", take};
  return {Level::Fail, what, "Install a udev rule for USB3 Vision.",
          fmt::format("echo 'SUBSYSTEM==\"usb\", ENV{{DEVTYPE}}==\"usb_device\", "
                      "ENV{{ID_USB_INTERFACES}}==\"*:ef0500:*\", MODE=\"0660\", GROUP=\"{}\", "
                      "TAG+=\"uaccess\"' | sudo tee /etc/udev/rules.d/{} && {}",
                      machine.has_group("driftd") ? "driftd" : "plugdev", name, take)};
}

void look_at_usb_camera(const Machine& machine, const std::string& device,
                        std::vector<Finding>& findings) {
  constexpr long kSuperSpeed = 5000;  // Mbit/s
  const std::string at = fmt::format("{}/{}", kUsbDevices, device);
  const std::string product = machine.line(at + "/product").value_or("USB camera " + device);
  const long speed = machine.number(at + "/speed").value_or(0);
  if (speed > 0 && speed < kSuperSpeed)
    findings.push_back({Level::Warn, fmt::format("{} runs at {} Mbit/s", product, speed),
                        "Plug it into a USB 3 port, by a USB 3 cable, without a hub.", "lsusb -t"});
  const std::string node =
      fmt::format("dev/bus/usb/{:03}/{:03}", machine.number(at + "/busnum").value_or(0),
                  machine.number(at + "/devnum").value_or(0));
  if (only_root_may_write(machine.root / node))
    findings.push_back(
        missing_rule(machine, fmt::format("only root may use {} (/{})", product, node)));
}

}  // namespace

std::vector<Finding> look_at_camera(const Machine& machine) {
  if (machine.config.camera.source != config::Source::Aravis)
    return {{Level::Ok, "none is used: camera.source is not `aravis`"}};
  const std::string address = machine.camera_address();
  const bool ours = daemon_has_camera(machine);
  if (address.empty()) {
    if (ours) return {{Level::Ok, "driftd has it"}};
    const bool usb = !usb_cameras(machine).empty();
    if (usb) return {{Level::Ok, "a USB camera is there, and driftd does not have it"}};
    return {{Level::Fail, "no camera is found, by GigE or USB",
             "See power and cable; set camera.id to its address where it is behind a router.",
             "arv-tool-0.8"}};
  }
  const auto camera = machine.ask_camera(address);
  if (!camera)
    return {{Level::Fail, "no camera answers at " + address,
             "See power and cable; its address and this computer's have to share a network, and no "
             "firewall may drop UDP port 3956.",
             "ping -c 3 " + address + "; arv-tool-0.8"}};
  constexpr std::uint32_t kControlled = 3;
  const bool held = !camera->may_read || (camera->privilege & kControlled) != 0;
  if (!held && ours)
    return {{Level::Warn,
             fmt::format("driftd has it, and {} says that nobody controls it", address),
             "Look again in a second."}};
  if (!held) return {{Level::Ok, fmt::format("{} answers, nobody controls it", address)}};
  if (ours) return {{Level::Ok, fmt::format("{} is controlled by driftd", address)}};
  const std::string who = holder(machine, *camera);
  const std::size_t number = who.starts_with("process ") ? std::string("process ").size() : 0;
  return {{Level::Fail, fmt::format("{} is controlled by {}", address, who),
           "End that program; a camera lets go of one that died after its heartbeat time (of "
           "driftd: camera.heartbeat_timeout_ms).",
           number > 0 ? "kill " + who.substr(number, who.find(' ', number) - number) : "ss -unp"}};
}

std::vector<Finding> look_at_usb(const Machine& machine) {
  constexpr long kEnoughMb = 1000;
  const std::vector<std::string> cameras = usb_cameras(machine);
  if (cameras.empty()) return {{Level::Ok, "no USB3 Vision camera is there"}};
  std::vector<Finding> findings;
  const std::string file = "sys/module/usbcore/parameters/usbfs_memory_mb";
  const auto memory = machine.number(file);
  if (memory && *memory != 0 && *memory < kEnoughMb)  // 0: without a limit
    findings.push_back({Level::Warn, fmt::format("usbfs_memory_mb is {}", *memory),
                        "Raise it; usbcore.usbfs_memory_mb=1000 on the kernel's command line keeps "
                        "it over the next boot.",
                        fmt::format("echo {} | sudo tee /{}", kEnoughMb, file)});
  for (const std::string& camera : cameras) look_at_usb_camera(machine, camera, findings);
  if (findings.empty())
    findings.push_back({Level::Ok, fmt::format("{} USB3 Vision camera(s), fine", cameras.size())});
  return findings;
}

}  // namespace driftd::clients::doctor
