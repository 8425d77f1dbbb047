// SPDX-License-Identifier: MIT
// driftfit: a recorded stack in; localizations and the drift out. docs/driftfit.md
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "clients/common/stop_signal.hpp"
#include "clients/driftfit/analysis.hpp"
#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/options.hpp"

namespace driftd::clients {
namespace {

constexpr int kExitInput = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOutput = 3;
constexpr int kExitFailed = 4;
constexpr int kExitInterrupted = 130;
constexpr const char* kExitCodes =
    "Exit codes (without 0, nothing is written):\n"
    "  0    done\n"
    "  1    the stack or the picks cannot be used, or hold no marker\n"
    "  2    wrong usage\n"
    "  3    a result cannot be written\n"
    "  4    the fitter refused its settings or failed, or something else did\n"
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
  app.set_version_flag("--version", "driftfit " DRIFTD_VERSION);
  try {
    add_options(app, options, texts);
    app.parse(argc, argv);
    resolve(options, texts);
    StopSignal stop;
    const std::string summary = analyse(options, [&stop] { return stop.raised(); });
    if (!options.quiet) fmt::print("{}", summary);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const UsageError& error) {
    return report(kExitUsage, error.what());
  } catch (const InputError& error) {
    return report(kExitInput, error.what());
  } catch (const OutputError& error) {
    return report(kExitOutput, error.what());
  } catch (const Interrupted& error) {
    return report(kExitInterrupted, error.what());
  } catch (const std::bad_alloc&) {
    return report(kExitFailed, "there is not enough memory");
  } catch (const std::exception& error) {
    return report(kExitFailed, error.what());
  }
}

}  // namespace
}  // namespace driftd::clients

int main(int argc, char** argv) {
  return driftd::clients::run(argc, argv);
}
