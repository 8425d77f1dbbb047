// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/command.hpp"

#include <spdlog/fmt/fmt.h>

#include "clients/common/find_daemon.hpp"
#include "clients/driftctl/doctor/doctor.hpp"
#include "config/local_sockets.hpp"

namespace driftd::clients {
namespace {

/// A file with mistakes is a finding, not the end: the daemon is then looked for where it usually
/// is.
void ask_daemon(const CommonOptions& common, doctor::Machine& machine) {
  CommonOptions where = common;
  where.config = machine.problem.empty() ? machine.file : "";
  try {
    const std::string endpoint = find_endpoint(sockets_of(where).commands);
    machine.daemon_pid = config::probe(endpoint).pid;
    machine.status = send(where, {{"command", "status"}}).body.at("status");
  } catch (const std::exception& error) {
    machine.daemon_problem = error.what();
  }
}

void run_doctor(const CommonOptions& common, DoctorOptions& options) {
  if (options.list) {
    fmt::print("{}", doctor::markdown());
    return;
  }
  doctor::Machine machine = doctor::this_machine(common.config, common.instance);
  ask_daemon(common, machine);
  const auto results = doctor::examine(machine);
  options.failed = doctor::worst(results) == doctor::Level::Fail;
  if (common.json) {
    fmt::print("{}\n", doctor::to_json(results).dump(-1, ' ', false,
                                                     nlohmann::json::error_handler_t::replace));
  } else {
    for (const std::string& line : doctor::to_lines(results)) fmt::print("{}\n", line);
  }
}

}  // namespace

void add_doctor(CLI::App& app, const CommonOptions& common, DoctorOptions& options) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Look for what keeps this computer from holding a sample still: real-time rights, network, "
      "camera, disk; tell what to do. Changes nothing. Exit code 1: something has to be mended");
  command->add_flag("--list", options.list, "Print a table of the checks instead");
  command->callback([&] { run_doctor(common, options); });
}

}  // namespace driftd::clients
