// SPDX-License-Identifier: MIT
// driftd-stage: command line, logging, exit codes.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "base/command_line.hpp"
#include "clients/stage/program.hpp"
#include "config/drop_ins.hpp"
#include "config/log_level.hpp"

namespace {

using driftd::stage::ExitCode;

constexpr const char* kFooter =
    "Exit codes: 0 stopped by a signal, 1 internal failure, 2 wrong usage or configuration, 3 no\n"
    "controller at start, 4 real-time set-up required and refused. SIGUSR1 prints how many\n"
    "corrections were carried out, and how late.";

/// The program takes these from a descriptor; blocked before any thread is made, so in all of them.
void block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for SIGPIPE
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("driftd-stage moves a stage to where driftd's corrections say.");
  app.footer(kFooter);
  std::filesystem::path file;
  bool check = false;
  bool print = false;
  app.add_option("--config,-c", file, "configuration file (YAML); FILE.d/*.yaml are read over it");
  app.add_flag("--check-config", check, "check the configuration, say what is wrong, and exit");
  app.add_flag("--print-config", print,
               "print every value with the file and line that it is from, and exit");
  driftd::add_standard_flags(app, "driftd-stage");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? ExitCode::Clean : ExitCode::Configuration;
  }

  spdlog::set_default_logger(spdlog::stderr_color_mt("driftd-stage"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  if (file.empty()) {
    std::cerr << "driftd-stage: --config FILE is needed (see docs/use/stages.md)\n";
    return ExitCode::Configuration;
  }
  driftd::stage::Config config;
  driftd::config::Origins origins;
  std::vector<driftd::stage::PartOfStage> parts;
  try {
    config = driftd::stage::load(file, &origins);
    parts = driftd::stage::make_parts(config);
  } catch (const driftd::config::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return ExitCode::Configuration;
  } catch (const std::invalid_argument& error) {
    std::cerr << file.string() << ": " << error.what() << '\n';
    return ExitCode::Configuration;
  }
  if (print) std::cout << driftd::config::to_yaml(driftd::stage::table(), config, &origins);
  if (check && !print) std::cout << driftd::config::no_mistakes(file, origins);
  if (check || print) return ExitCode::Clean;
  spdlog::set_level(driftd::config::log_level(config.log.level));
  spdlog::info("configuration: {}", driftd::config::with_drop_ins(file, origins));
  block_signals();
  try {
    return driftd::stage::run(config, std::move(parts));
  } catch (const std::exception& error) {
    spdlog::critical("internal failure: {}", error.what());
    return ExitCode::Internal;
  }
}
