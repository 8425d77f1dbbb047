// SPDX-License-Identifier: MIT
// The camera itself: whether it answers and whose it is, and the limits of USB.
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>

#include "clients/driftctl/doctor/doctor.hpp"
#include "clients/driftctl/doctor/holders.hpp"

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

/// Judges by the node's mode, or by a list of its own (of who sits at the computer). The kernel's
/// usual mode, 0664 of root's group, lets nobody else write.
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
  const std::string node = usb_node(machine, device);
  if (only_root_may_write(machine.root / node))
    findings.push_back(
        missing_rule(machine, fmt::format("only root may use {} (/{})", product, node)));
}

/// For a camera without an address: it is no GigE Vision camera, or none that was found.
Finding without_address(const Machine& machine) {
  const std::string& id = machine.config.camera.id;
  const auto cameras = machine.find_cameras();
  if (camera::camera_named(cameras, id) != nullptr)
    return {Level::Ok, "a USB camera is there, and driftd does not have it"};
  if (cameras.empty() && !usb_cameras(machine).empty())
    return {Level::Warn, "a USB camera is there, and may not be read", "See the check usb."};
  if (cameras.empty())
    return {Level::Fail,
            (id.empty() ? "" : fmt::format("camera.id is `{}`, and ", id)) +
                "no camera is found, by GigE or USB",
            "See power and cable; set camera.id to its address where it is behind a router.",
            "driftctl cameras"};
  return {Level::Fail,
          fmt::format("camera.id is `{}`, and {}", id, camera::cameras_in_words(cameras)),
          "Set camera.id to one of them.", "driftctl cameras"};
}

/// "vendor model serial at address", or without an address; "": not told.
std::string daemons_camera(const Machine& machine) {
  const auto words = machine.status->value("/camera/description"_json_pointer, nlohmann::json());
  return words.is_string() ? words.get<std::string>() : "";
}

/// The daemon goes on with the camera that it has; by this file it would not have it when it is
/// started again. Where the search does not even show the one that it has, it may miss more: of
/// others' USB cameras nothing shows.
std::optional<Finding> of_another_name(const Machine& machine) {
  const std::string& id = machine.config.camera.id;
  const auto cameras = machine.find_cameras();
  const bool is_address = machine.camera_address() == id;
  if (id.empty() || is_address || cameras.empty() || camera::camera_named(cameras, id) != nullptr)
    return std::nullopt;
  const std::string had = daemons_camera(machine);
  const bool shows = std::ranges::any_of(cameras, [&](const camera::ListedCamera& camera) {
    return !camera.serial.empty() && had.find(" " + camera.serial) != std::string::npos;
  });
  return Finding{shows ? Level::Fail : Level::Warn,
                 fmt::format("driftd has a camera, not by this configuration: camera.id is `{}`, "
                             "and {}",
                             id, camera::cameras_in_words(cameras)),
                 "Set camera.id to one of them.", "driftctl cameras"};
}

/// camera.id is the address of another camera than the daemon's.
std::optional<Finding> at_another_address(const Machine& machine, const std::string& address,
                                          bool held) {
  const std::string had = daemons_camera(machine);
  if (had.empty() || had.ends_with(" " + address)) return std::nullopt;
  return Finding{held ? Level::Fail : Level::Warn,
                 fmt::format("driftd has {}, not by this configuration: camera.id is `{}`, and the "
                             "camera there is {}",
                             had, address, held ? "another program's" : "nobody's"),
                 "Set camera.id to the one that is meant.", "driftctl cameras"};
}

}  // namespace

std::vector<Finding> look_at_camera(const Machine& machine) {
  if (machine.config.camera.source != config::Source::Aravis)
    return {{Level::Ok, "none is used: camera.source is not `aravis`"}};
  const std::string address = machine.camera_address();
  const bool ours = daemon_has_camera(machine);
  if (ours) {
    if (const auto other = of_another_name(machine)) return {*other};
  }
  if (address.empty()) {
    return {ours ? Finding{Level::Ok, "driftd has it"} : without_address(machine)};
  }
  const auto camera = machine.ask_camera(address);
  if (!camera && machine.interface_to_camera(address).empty())
    return {{Level::Fail,
             fmt::format("no interface of this computer is in the network of {}; {}", address,
                         camera::cameras_in_words(machine.find_cameras())),
             "Give the camera's interface an address of the camera's network.",
             "ip -br address; ip route get " + address}};
  if (!camera)
    return {{Level::Fail,
             fmt::format("no camera answers at {}; {}", address,
                         camera::cameras_in_words(machine.find_cameras())),
             "See power and cable; its address and this computer's have to share a network, and no "
             "firewall may drop UDP port 3956.",
             "ping -c 3 " + address + "; driftctl cameras"}};
  const bool held = is_held(*camera);
  if (ours) {
    if (const auto other = at_another_address(machine, address, held)) return {*other};
  }
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
