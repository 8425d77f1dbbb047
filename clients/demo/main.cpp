// SPDX-License-Identifier: MIT
// driftd-demo: watch a drifting sample being held still, without any hardware.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "clients/demo/demo.hpp"

namespace driftd::clients {
namespace {

constexpr int kExitNotHeld = 1;
constexpr int kExitUsage = 2;
constexpr int kExitFailed = 3;
constexpr int kExitInterrupted = 130;
constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0    the lock held\n"
    "  1    the lock did not hold as it should, or the computer was too busy to tell; the report "
    "says why\n"
    "  2    wrong usage\n"
    "  3    the demo could not run to its end\n"
    "  130  interrupted\n";

void add_options(CLI::App& app, DemoOptions& options) {
  app.add_option("--config", options.config,
                 "Configuration of driftd; camera.id is where the simulated camera is put (an "
                 "address 127.x.x.x)")
      ->check(CLI::ExistingFile)
      ->capture_default_str();
  app.add_option("--scenario", options.scenario, "What driftd-sim simulates")
      ->check(CLI::ExistingFile)
      ->capture_default_str();
  app.add_option("--output", options.output, "Folder for the report, the picture and the logs")
      ->capture_default_str();
  app.add_option("--unlocked", options.unlocked_s, "Seconds to watch the drift without the lock")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  app.add_option("--locked", options.locked_s, "Seconds to watch the lock before the fault")
      ->check(CLI::Range(2.0, 3600.0))
      ->capture_default_str();
}

const StageKind* find_stage(const std::string& name) {
  for (const StageKind& kind : stage_kinds()) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

struct Told {
  bool flat, config, scenario;
};

/// What is not told is of three axes where nothing is told, else of x and y.
void choose_examples(DemoOptions& options, const Told& told) {
  if (!told.flat && !told.config && !told.scenario && options.stage == nullptr) return;
  if (!told.config)
    options.config = options.stage == nullptr ? DRIFTD_EXAMPLES_DIR "/simulator.yaml"
                                              : DRIFTD_EXAMPLES_DIR "/uncalibrated.yaml";
  if (!told.scenario) options.scenario = DRIFTD_EXAMPLES_DIR "/scenario-demo.yaml";
}

int run(int argc, char** argv) {
  DemoOptions options;
  std::string stage;
  options.config = DRIFTD_EXAMPLES_DIR "/three-axes.yaml";
  options.scenario = DRIFTD_EXAMPLES_DIR "/scenario-three-axes.yaml";
  options.output = "build/demo";
  CLI::App app(
      "Simulates a drifting sample, locks it, takes the camera away for two seconds, and reports "
      "how still the sample was held.",
      "driftd-demo");
  app.footer(kExitCodes);
  add_options(app, options);
  std::vector<std::string> kinds;
  for (const StageKind& kind : stage_kinds()) kinds.emplace_back(kind.name);
  app.add_option(
         "--stage", stage,
         "An emulated controller of this kind moves the stage, through driftd-stage, and is "
         "calibrated before the lock: driftd's configuration knows nothing of it")
      ->check(CLI::IsMember(kinds));
  bool flat = false;
  app.add_flag(
      "--flat", flat,
      "x and y alone, without a lens and a focus stage; so it is with --stage, --config and "
      "--scenario, too");
  app.add_flag("--look", options.look,
               "Keep the locked sample and its page up after the report, until Ctrl-C");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  options.stage = find_stage(stage);
  choose_examples(options, {flat, app.count("--config") > 0, app.count("--scenario") > 0});
  try {
    options.programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    StopSignal stop;
    // What driftd keeps of the lock stays with the demo's other files.
    const std::string state = std::filesystem::absolute(options.output).string();
    setenv("STATE_DIRECTORY", state.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no threads yet
    Demo demo(options, stop);
    return demo.run().failures.empty() ? 0 : kExitNotHeld;
  } catch (const Interrupted&) {
    fmt::print(stderr, "\nInterrupted; all that was started is stopped.\n");
    return kExitInterrupted;
  } catch (const std::exception& error) {
    fmt::print(stderr, "driftd-demo: {}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace driftd::clients

int main(int argc, char** argv) {
  return driftd::clients::run(argc, argv);
}
