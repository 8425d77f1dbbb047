// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/command.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/find_daemon.hpp"
#include "clients/driftctl/doctor/doctor.hpp"
#include "clients/driftctl/doctor/holders.hpp"
#include "config/local_sockets.hpp"

namespace driftd::clients {
namespace {

/// This one, and its daemon asked. A file with mistakes is a finding, not the end: the daemon is
/// then looked for where it usually is.
doctor::Machine asked_machine(const CommonOptions& common) {
  doctor::Machine machine = doctor::this_machine(common.config, common.instance);
  CommonOptions where = common;
  where.connect.clear();  // this computer is looked at
  where.config = machine.problem.empty() ? machine.file : "";
  try {
    const std::string endpoint = find_endpoint(sockets_of(where).commands);
    machine.daemon_pid = config::probe(endpoint).pid;
    machine.status = send(where, {{"command", "status"}}).body.at("status");
  } catch (const std::exception& error) {
    machine.daemon_problem = error.what();
  }
  return machine;
}

/// Names and texts come from other computers, in any bytes.
void print_json(const nlohmann::json& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run_doctor(const CommonOptions& common, DoctorOptions& options) {
  if (options.list) {
    fmt::print("{}", doctor::markdown());
    return;
  }
  const auto results = doctor::examine(asked_machine(common));
  options.failed = doctor::worst(results) == doctor::Level::Fail;
  if (common.json) {
    print_json(doctor::to_json(results));
  } else {
    for (const std::string& line : doctor::to_lines(results)) fmt::print("{}\n", line);
  }
}

void list_cameras(const CommonOptions& common) {
  const doctor::Machine machine = asked_machine(common);
  if (common.json) return print_json(doctor::camera_list(machine));
  for (const std::string& line : doctor::camera_lines(machine)) fmt::print("{}\n", line);
}

}  // namespace

void add_cameras(CLI::App& app, const CommonOptions& common) {
  app.add_subcommand(
         "cameras",
         "List the cameras that this computer finds, as driftd searches for them: address, serial "
         "number, model, interface and which program holds it. Needs no driftd")
      ->callback([&] { list_cameras(common); });
}

void add_doctor(CLI::App& app, const CommonOptions& common, DoctorOptions& options) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Look for what keeps this computer from holding a sample still: real-time rights, network, "
      "camera, disk; tell what to do. Changes nothing. Exit code 1: something has to be mended");
  command->add_flag("--list", options.list, "Print a table of the checks instead");
  command->callback([&] { run_doctor(common, options); });
}

}  // namespace driftd::clients
