// SPDX-License-Identifier: MIT
// driftfit: a recorded stack in; localizations and the drift out. docs/use/driftfit.md,
// docs/use/scale.md, docs/use/axial.md
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "base/command_line.hpp"
#include "base/process/stop_signal.hpp"
#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/analysis.hpp"
#include "tools/driftfit/calibrate_z.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/merge.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/slurm_script.hpp"

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
    "  1    the stack, the picks, a map or a curve cannot be used, or hold no marker; shards make "
    "no whole, or a stack no curve\n"
    "  2    wrong usage\n"
    "  3    a result cannot be written\n"
    "  4    the fitter refused its settings or failed, or something else did\n"
    "  5    too few frames have a drift, with --axial-curve also in z (--min-drift-share)\n"
    "  130  interrupted\n";

int report(int code, const char* what) {
  fmt::print(stderr, "driftfit: {}\n", what);
  return code;
}

/// What is done with shards, beside what fits a stack.
struct Commands {
  MergeOptions merge_options;
  bool merge_quiet = false;
  SlurmOptions slurm_options;
  CalibrateZOptions z_options;
  CLI::App *merge = nullptr, *slurm = nullptr, *z = nullptr;

  void add_to(CLI::App& app) {
    merge = app.add_subcommand("merge",
                               "Join the shards of one stack to the files of one run, to the bit, "
                               "or say why they are none, and remove them");
    merge->add_option("-o,--output", merge_options.output, "OUT, as the shards were given")
        ->required()
        ->check([](const std::string& text) {
          return text.empty() ? std::string("is empty, allowed is the OUT of the shards") : "";
        });
    merge->add_flag("--overwrite", merge_options.overwrite, "Replace results of something else");
    merge->add_flag("-q,--quiet", merge_quiet, "No summary");
    slurm = app.add_subcommand("slurm",
                               "Write OUT_slurm.sh, which submits shards as an array job of Slurm, "
                               "and their merge: driftfit slurm --shards N STACK --every-spot ... "
                               "-o OUT");
    slurm->prefix_command();
    slurm
        ->add_option("--shards", slurm_options.shards,
                     "How many; a shard is what is lost when one is killed")
        ->required()
        ->check(CLI::Range(std::int64_t{1}, kMostShards));
    slurm
        ->add_option("--sbatch", slurm_options.sbatch,
                     "An option for sbatch, of both jobs, such as --sbatch=--partition=long; "
                     "several times as needed")
        ->allow_extra_args(false);
    z = app.add_subcommand("calibrate-z",
                           "Make the curve that z is read by, of beads in a stack through focus");
    add_calibrate_z_options(*z, z_options);
  }
  bool any() const { return merge->parsed() || slurm->parsed() || z->parsed(); }
};

/// @throws UsageError where options of a fit stand before a command
void check_alone(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0)
      throw UsageError(option->get_name() +
                       " is for the fit of a stack; it has no meaning before "
                       "merge, slurm or calibrate-z");
  }
}

/// Whether a terminal that is closed is to end what runs: not under nohup.
StopSignal::Hangup hangup() {
  struct sigaction now = {};
  const bool ignored = sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  return ignored ? StopSignal::Hangup::Ends : StopSignal::Hangup::Counted;
}

/// SIGINT, SIGTERM or SIGHUP: what is left under temporary names is removed then.
bool is_stopped(StopSignal& stop) {
  return stop.raised() || stop.hung_up();
}

/// @returns what is printed
std::string run_command(Commands& commands, StopSignal& stop) {
  if (commands.slurm->parsed()) {
    commands.slurm_options.arguments = commands.slurm->remaining();
    return write_slurm_script(commands.slurm_options);
  }
  if (commands.z->parsed()) {
    std::string said = calibrate_z(commands.z_options, [&stop] { return is_stopped(stop); });
    return commands.z_options.quiet ? "" : said;
  }
  std::string said = merge_shards(commands.merge_options, [&stop] { return is_stopped(stop); });
  return commands.merge_quiet ? "" : said;
}

int run(int argc, char** argv) {
  Options options;
  OptionTexts texts;
  Commands commands;
  std::signal(SIGPIPE, SIG_IGN);  // who reads what is printed may go; the results are files
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails, and is told
  options.show_progress = isatty(STDERR_FILENO) == 1;
  CLI::App app("Fits the spots of a recorded stack: localizations, and the drift of its markers.",
               "driftfit");
  app.footer(kExitCodes);
  try {
    add_options(app, options, texts);
    add_standard_flags(app, "driftfit");
    commands.add_to(app);
    app.parse(argc, argv);
    if (commands.any()) {
      check_alone(app);
      StopSignal stop(hangup());
      fmt::print("{}", run_command(commands, stop));
      return 0;
    }
    resolve(app, options, texts);
    StopSignal stop(hangup());
    const Outcome outcome = analyse(options, [&stop] { return is_stopped(stop); });
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
