// SPDX-License-Identifier: MIT
// The cameras of a machine: where USB3 Vision ones are, and which program holds one. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/driftctl/doctor/machine.hpp"

namespace driftd::clients::doctor {

constexpr const char* kUsbDevices = "sys/bus/usb/devices";

/// The names below kUsbDevices of USB3 Vision cameras: an interface of class 0xef, subclass 5.
std::vector<std::string> usb_cameras(const Machine& machine);
/// The file of such a device, without the leading slash: "dev/bus/usb/002/003".
std::string usb_node(const Machine& machine, const std::string& device);

bool is_held(const GigeCamera& camera);
/// Whether the daemon that was asked has its camera.
bool daemon_has_camera(const Machine& machine);
/// "process 1234 (driftd) at 192.168.10.1, port 41234", or as much of it as can be told.
std::string holder(const Machine& machine, const GigeCamera& camera);

/// All cameras that are found, for people; and what to see where there is none.
std::vector<std::string> camera_lines(const Machine& machine);
/// The same: an array of objects, "interface" and "held_by" null where they cannot be told.
nlohmann::json camera_list(const Machine& machine);

}  // namespace driftd::clients::doctor
