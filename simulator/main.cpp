// SPDX-License-Identifier: MIT
// driftd-sim: a simulated GigE Vision camera over a drifting sample. Exit codes: 0 stopped as asked
// (signal or --duration), 1 an address or endpoint cannot be had, 2 a mistake in the command line
// or the scenario.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include "base/command_line.hpp"
#include "simulator/scenario.hpp"
#include "simulator/sim_service.hpp"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

namespace sim = driftd::simulator;

struct Options {
  std::string scenario;
  sim::ServiceSettings service;
  double rate_hz = 0;
  double duration_s = 0;
  bool quiet = false;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--scenario", options.scenario, "scenario file (YAML); without: the defaults");
  app.add_option("--address", options.service.identity.address,
                 "loopback address of the camera, 127.x.y.z")
      ->capture_default_str();
  app.add_option("--serial", options.service.identity.serial, "serial number")
      ->capture_default_str();
  app.add_option("--stage", options.service.stage_endpoint,
                 "driftd's endpoint wire.corrections: they move the stage");
  app.add_option("--stage-input", options.service.stage_input,
                 "file of a UNIX datagram socket to make: drivers and emulators move the stage");
  app.add_option("--truth", options.service.truth_endpoint, "endpoint to publish the truth on");
  app.add_option("--control", options.service.control_endpoint, "endpoint for commands");
  app.add_option("--rate", options.rate_hz, "frame rate at power-on in place of the scenario's, Hz")
      ->check(CLI::Range(0.1, 10000.0));
  app.add_option("--duration", options.duration_s, "stop after so many seconds; 0: never")
      ->check(CLI::Range(0.0, 1e7));
  app.add_flag("--quiet", options.quiet, "print nothing but the line that says ready, and errors");
}

/// Waits for SIGINT or SIGTERM (blocked in all threads) or for the duration to pass.
void wait_for_end(const sigset_t& signals, double duration_s) {
  if (duration_s > 0) {
    const auto whole = static_cast<std::time_t>(duration_s);
    const timespec limit{whole, static_cast<long>((duration_s - static_cast<double>(whole)) * 1e9)};
    sigtimedwait(&signals, nullptr, &limit);
  } else {
    int signal = 0;
    sigwait(&signals, &signal);
  }
}

int run(const Options& options, const sigset_t& signals) {
  sim::Scenario scenario;
  if (!options.scenario.empty()) scenario = sim::load_scenario(options.scenario);
  if (options.rate_hz > 0) scenario.camera.rate_hz = options.rate_hz;
  sim::ServiceSettings settings = options.service;
  if (settings.stage_endpoint.empty() && settings.stage_input.empty()) {
    settings.stage_endpoint = scenario.stage_endpoint;
  }
  const sim::SimService service(scenario, settings);
  std::cout << "driftd-sim ready: camera " << settings.identity.serial << " at "
            << settings.identity.address << ", " << scenario.camera.width_px << "x"
            << scenario.camera.height_px << " px, " << scenario.camera.rate_hz << " frames/s"
            << std::endl;
  wait_for_end(signals, options.duration_s);
  if (!options.quiet) {
    std::cout << "driftd-sim: " << service.frames_sent() << " frames sent, "
              << service.frames_late() << " late" << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A simulated GigE Vision camera over a drifting sample on a stage."};
  Options options;
  add_options(app, options);
  driftd::add_standard_flags(app, "driftd-sim");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    return run(options, signals);
  } catch (const sim::ScenarioError& error) {
    std::cerr << error.what() << '\n';
    return kExitUsage;
  } catch (const std::invalid_argument& error) {
    std::cerr << "driftd-sim: " << error.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& error) {
    std::cerr << "driftd-sim: " << error.what() << '\n';
    return kExitFailure;
  }
}
