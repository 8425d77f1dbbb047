// SPDX-License-Identifier: MIT
// The computer as the doctor's checks see it: files below a root folder, and what no file tells, as
// functions. A test gives a folder with a bad machine in it and functions of its own. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/routes.hpp"
#include "camera/cameras.hpp"
#include "config/config.hpp"

namespace driftd::clients::doctor {

/// What a network interface's driver tells; nothing where it does not.
struct NicSettings {
  std::optional<int> rx_ring, rx_ring_most;  ///< packets
  std::optional<int> rx_wait_us;             ///< how long an interrupt is held back
  std::optional<bool> large_receive;         ///< packets are joined by the card
};

struct GigeCamera {
  std::uint32_t privilege = 0;  ///< bits 0 (exclusive) and 1 (control) of register 0x0a00
  bool may_read = true;         ///< false: control is exclusive, it tells others nothing
  std::string holder_address;   ///< IPv4; "" where it does not tell
  int holder_port = 0;
  std::optional<std::uint32_t> packet_delay_ticks;
  std::uint64_t tick_hz = 0;
};

struct Machine {
  std::filesystem::path root = "/";

  std::string instance;             ///< of driftd@NAME; "" of driftd
  config::Config config;            ///< the defaults where there is no file
  std::filesystem::path file;       ///< "" where there is none
  std::string sources;              ///< the file and the drop-ins that give values; likewise
  std::string problem;              ///< with the file; "" where there is none
  std::string user;                 ///< who asks
  std::vector<std::string> groups;  ///< that the user is in

  std::optional<nlohmann::json> status;  ///< of the daemon, where it answers
  std::string daemon_problem;            ///< why it does not
  int daemon_pid = 0;                    ///< 0: not known
  std::filesystem::path state;           ///< the daemon's folder; "" where nothing says which

  std::function<std::optional<std::uintmax_t>(const std::filesystem::path&)> free_bytes;
  std::function<NicSettings(const std::string& interface)> nic;
  /// What a GigE camera says at this address; nothing where none answers.
  std::function<std::optional<GigeCamera>(const std::string& address)> ask_camera;
  /// As driftd searches for them.
  std::function<std::vector<camera::ListedCamera>()> find_cameras;
  std::function<std::string(const std::filesystem::path&)> hook_problem;

  /// The file's first line without its end; nothing where it cannot be read.
  std::optional<std::string> line(const std::string& path) const;
  std::optional<std::string> text(const std::string& path) const;
  std::optional<long> number(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// Names in a folder, sorted; none where there is no folder.
  std::vector<std::string> names(const std::string& folder) const;

  /// Whether the units are installed, and the one of this daemon: "driftd", "driftd@NAME".
  bool has_service() const;
  std::string unit() const;
  /// The unit's configuration file.
  std::filesystem::path service_file() const;
  /// Whether a program of that name is where programs are installed.
  bool has_program(const std::string& name) const;
  /// Whether this computer has that group.
  bool has_group(const std::string& name) const;
  /// The camera's IPv4 address: from the configuration, the daemon or the network; "" where it is
  /// none or not known.
  std::string camera_address() const;
  std::vector<Route> routes() const;
  /// Over which a camera at that address is reached; "" where that is none, or a router that leads
  /// to no camera.
  std::string interface_to_camera(const std::string& address) const;
};

/// This one. @param config_file  "": that of the service, where it is there
Machine this_machine(const std::filesystem::path& config_file, const std::string& instance);

}  // namespace driftd::clients::doctor
