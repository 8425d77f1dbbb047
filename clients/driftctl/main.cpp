// SPDX-License-Identifier: MIT
// driftctl: look at and command a running driftd from a shell. Each command has its file in
// commands/, but those of records/ and doctor/.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "base/command_line.hpp"
#include "base/process/option_range.hpp"
#include "clients/driftctl/commands/calibrate_axial.hpp"
#include "clients/driftctl/commands/calibrate_camera.hpp"
#include "clients/driftctl/commands/calibrate_stage.hpp"
#include "clients/driftctl/commands/exposure.hpp"
#include "clients/driftctl/commands/keygen.hpp"
#include "clients/driftctl/commands/lock.hpp"
#include "clients/driftctl/commands/markers.hpp"
#include "clients/driftctl/commands/measure.hpp"
#include "clients/driftctl/commands/move.hpp"
#include "clients/driftctl/commands/place.hpp"
#include "clients/driftctl/commands/record.hpp"
#include "clients/driftctl/commands/restart.hpp"
#include "clients/driftctl/commands/snapshot.hpp"
#include "clients/driftctl/commands/watch.hpp"
#include "clients/driftctl/doctor/command.hpp"
#include "clients/driftctl/records/export.hpp"
#include "clients/driftctl/records/record_report.hpp"
#include "clients/driftctl/shared/common_options.hpp"
#include "config/config.hpp"

namespace driftd::clients {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  done\n"
    "  1  driftd refused the command, or answered something else than it should; doctor: "
    "something has to be mended\n"
    "  2  wrong usage\n"
    "  3  driftd is not there, may not be reached by this user, or did not answer in time\n"
    "  4  something else failed, such as writing the file\n";

struct DriftctlOptions : CommonOptions {
  CalibrateStageOptions stage;
  DoctorOptions doctor;
};

/// What systemd takes as an instance, less what would lead out of the folder of the sockets.
std::string check_instance(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\";
  const bool plain = name.find_first_not_of(kAllowed) == std::string::npos;
  if (plain && !name.empty() && name.front() != '.') return {};
  return "'" + name + "' is not the name of an instance, such as lab of driftd@lab";
}

/// In the order of --help.
void add_commands(CLI::App& app, DriftctlOptions& options) {
  add_status(app, options);
  add_watch(app, options);
  add_advise(app, options);
  add_measure(app, options);
  CLI::App& calibrate = *add_calibrate(app, options, options.stage);
  add_calibrate_axial(calibrate, options);
  add_calibrate_camera(
      calibrate, {.request = [&](const nlohmann::json& command) { return send(options, command); },
                  .config = [&] { return options.config; },
                  .json = [&] { return options.json; }});
  add_lock(app, options);
  add_place(app, options);
  add_unlock(app, options);
  add_move(app, options);
  add_access(app, options);
  add_keygen(app);
  add_doctor(app, options, options.doctor);
  add_cameras(app, options);
  add_record(app, options);
  add_restart(app, options);
  add_export(app);
  add_report(app);
  add_markers(app, options);
  add_exposure(app, options);
  add_snapshot(app, options);
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of a file's size fails, and is told
  DriftctlOptions options;
  CLI::App app("Looks at and commands a running driftd.", "driftctl");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--config", options.config,
                 "Configuration file of driftd, for its endpoints; without: the default ones")
      ->check(CLI::ExistingFile);
  app.add_option(
         "--instance", options.instance,
         "Name of one of several daemons: driftd@NAME, whose sockets lie in /run/driftd/NAME")
      ->check(CLI::Validator(check_instance, "NAME"));
  app.add_option("--commands", options.commands, "Command endpoint of driftd, over the file's");
  app.add_option("--publish", options.publish, "Publishing endpoint of driftd, over the file's");
  app.add_option("--corrections", options.corrections,
                 "Endpoint of driftd's corrections, over the file's");
  app.add_option("--connect", options.connect,
                 "Command endpoint of a driftd on another computer, tcp://HOST:PORT; its other "
                 "sockets it tells itself. Needs keys: driftctl keygen");
  app.add_option("--key", options.keys.key,
                 "File with your own key; without: ~/.config/driftd/client.key_secret");
  app.add_option("--server-key", options.keys.server,
                 "File with the public key of that driftd; without: "
                 "~/.config/driftd/servers/HOST.key");
  app.add_option("--timeout", options.timeout_s, "Seconds to wait for an answer")
      ->check(in_range(1e-3, 1e6, "POSITIVE"))
      ->capture_default_str();
  app.add_flag("--json", options.json,
               "Print the JSON that came, control characters in its texts as blanks");
  add_commands(app, options);
  add_standard_flags(app, "driftctl");
  try {
    app.parse(argc, argv);
    return options.doctor.failed ? kExitRefused : 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const Refused& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitRefused;
  } catch (const Unreachable& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitUnreachable;
  } catch (const BadEndpoint& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitUsage;
  } catch (const config::ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kExitUsage;
  } catch (const nlohmann::json::exception& error) {
    fmt::print(stderr, "driftctl: the answer is not what docs/reference/protocol.md says: {}\n",
               error.what());
    return kExitRefused;
  } catch (const std::exception& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace driftd::clients

int main(int argc, char** argv) {
  return driftd::clients::run(argc, argv);
}
