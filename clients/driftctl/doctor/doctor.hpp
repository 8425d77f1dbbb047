// SPDX-License-Identifier: MIT
// What `driftctl doctor` looks at: one table of checks, each a function of a Machine. Nothing here
// changes anything. One thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clients/driftctl/doctor/machine.hpp"

namespace driftd::clients::doctor {

enum class Level { Ok, Warn, Fail };

struct Finding {
  Level level = Level::Ok;
  std::string found;         ///< a sentence
  std::string todo = {};     ///< a sentence; "" where nothing is to be done
  std::string command = {};  ///< for a shell; "" where there is none
};

struct Check {
  std::string_view code;
  std::string_view looks_at;
  std::string_view why;  ///< it matters
  std::vector<Finding> (*look)(const Machine&);
};

std::span<const Check> checks();

struct Result {
  std::string_view code;
  Finding finding;
};
/// All checks, in the table's order.
std::vector<Result> examine(const Machine& machine);
Level worst(const std::vector<Result>& results);
std::vector<std::string> to_lines(const std::vector<Result>& results);
nlohmann::json to_json(const std::vector<Result>& results);
/// The table as docs/use/doctor.md has it.
std::string markdown();

// The checks, by file.
std::vector<Finding> look_at_configuration(const Machine& machine);
std::vector<Finding> look_at_daemon(const Machine& machine);
std::vector<Finding> look_at_permissions(const Machine& machine);
std::vector<Finding> look_at_disk(const Machine& machine);
std::vector<Finding> look_at_gpu(const Machine& machine);

std::vector<Finding> look_at_realtime(const Machine& machine);
std::vector<Finding> look_at_memlock(const Machine& machine);
std::vector<Finding> look_at_governor(const Machine& machine);
std::vector<Finding> look_at_idle_states(const Machine& machine);
std::vector<Finding> look_at_numa(const Machine& machine);
std::vector<Finding> look_at_clock_source(const Machine& machine);

std::vector<Finding> look_at_socket_buffer(const Machine& machine);
std::vector<Finding> look_at_mtu(const Machine& machine);
std::vector<Finding> look_at_packet_delay(const Machine& machine);
std::vector<Finding> look_at_offloads(const Machine& machine);
std::vector<Finding> look_at_route(const Machine& machine);

std::vector<Finding> look_at_camera(const Machine& machine);
std::vector<Finding> look_at_usb(const Machine& machine);

}  // namespace driftd::clients::doctor
