// SPDX-License-Identifier: MIT
// driftfit: a recorded stack in; localizations and the drift out. docs/use/driftfit.md
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "base/command_line.hpp"
#include "base/process/stop_signal.hpp"
#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/analysis.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/options.hpp"

namespace driftd::tools {
namespace {

constexpr int kExitInput = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOutput = 3;
constexpr int kExitFailed = 4;
constexpr int kExitCoverage = 5;
constexpr int kExitInterrupted = 130;
constexpr const char* kExitCodes =
    "Exit codes (without 0, nothing is written):\n"
    "  0    done\n"
    "  1    the stack, the picks or a map cannot be used, or hold no marker\n"
    "  2    wrong usage\n"
    "  3    a result cannot be written\n"
    "  4    the fitter refused its settings or failed, or something else did\n"
    "  5    too few frames have a drift (--min-drift-share)\n"
    "  130  interrupted\n";

int report(int code, const char* what) {
  fmt::print(stderr, "driftfit: {}\n", what);
  return code;
}

int run(int argc, char** argv) {
  Options options;
  OptionTexts texts;
  options.show_progress = isatty(STDERR_FILENO) == 1;
  CLI::App app("Fits the spots of a recorded stack: localizations, and the drift of its markers.",
               "driftfit");
  app.footer(kExitCodes);
  try {
    add_options(app, options, texts);
    add_standard_flags(app, "driftfit");
    app.parse(argc, argv);
    resolve(app, options, texts);
    StopSignal stop;
    const Outcome outcome = analyse(options, [&stop] { return stop.raised(); });
    if (!options.quiet) fmt::print("{}", outcome.summary);
    if (!outcome.warning.empty()) fmt::print(stderr, "driftfit: warning: {}\n", outcome.warning);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const UsageError& error) {
    return report(kExitUsage, error.what());
  } catch (const InputError& error) {
    return report(kExitInput, error.what());
  } catch (const camera::RecordingError& error) {
    return report(kExitInput, error.what());
  } catch (const OutputError& error) {
    return report(kExitOutput, error.what());
  } catch (const CoverageError& error) {
    return report(kExitCoverage, error.what());
  } catch (const Interrupted& error) {
    return report(kExitInterrupted, error.what());
  } catch (const std::bad_alloc&) {
    return report(kExitFailed, "there is not enough memory");
  } catch (const std::exception& error) {
    return report(kExitFailed, error.what());
  }
}

}  // namespace
}  // namespace driftd::tools

int main(int argc, char** argv) {
  return driftd::tools::run(argc, argv);
}
