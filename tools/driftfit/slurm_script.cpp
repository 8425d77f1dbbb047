// SPDX-License-Identifier: MIT
#include "tools/driftfit/slurm_script.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/yaml/scalar.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/output_file.hpp"

namespace driftd::tools {
namespace {

/// How often a shard that was killed is tried again.
constexpr int kTriesMore = 2;

/// As one word of the shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + quoted(word);
  return text;
}

/// That the script can hold it: a line of it ends where a name's does. @throws UsageError
void check_one_line(const std::string& what, const std::string& word) {
  if (word.find_first_of("\n\r") == std::string::npos) return;
  throw UsageError(what + " is '" + yaml::printable(word) +
                   "', with a line break where ? stands; a script for slurm allows none");
}

/// A name for sbatch's --output, to which % is special.
std::string log_name(const std::string& output, const std::string& end) {
  std::string text;
  for (const char c : output) text += c == '%' ? std::string("%%") : std::string(1, c);
  return quoted(text + end);
}

}  // namespace

std::string slurm_script(const SlurmOptions& options, const std::string& program,
                         const std::string& folder, const std::string& output, bool overwrite,
                         int threads) {
  const std::string common =
      fmt::format("sbatch --parsable --requeue --open-mode=append --chdir={}", quoted(folder));
  const std::string more = quoted(options.sbatch);
  std::string text = fmt::format(
      "#!/bin/sh\n"
      "# Written by driftfit {}: {} shards as an array job, and a merge that begins when all of\n"
      "# them have ended, well or not, and says what is missing. Submit both: sh {}\n"
      "set -eu\n\n",
      DRIFTD_VERSION, options.shards, quoted(output + "_slurm.sh"));
  text += fmt::format(
      "shards=$({} --job-name=driftfit --array=1-{} --cpus-per-task={} \\\n"
      "  --output={}{} <<'JOB'\n"
      "#!/bin/sh\n"
      "{}{}{} --no-progress --shard \"$SLURM_ARRAY_TASK_ID/{}\"\n"
      "code=$?\n"
      "# Killed, and not by scancel (130): once more on whichever node is free.\n"
      "if [ $code -gt 128 ] && [ $code -ne 130 ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {} ]; "
      "then\n"
      "  echo \"driftfit: shard $SLURM_ARRAY_TASK_ID was killed (code $code) and is queued "
      "again\"\n"
      "  scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\" && sleep 60\n"
      "fi\n"
      "exit $code\n"
      "JOB\n"
      ")\n\n",
      common, options.shards, std::max(threads, 1), log_name(output, "_slurm-%a.log"), more,
      quoted(program), quoted(options.arguments), threads > 0 ? "" : " --threads 1", options.shards,
      kTriesMore);
  text += fmt::format(
      "merge=$({} --job-name=driftfit-merge --dependency=afterany:\"${{shards%%;*}}\" \\\n"
      "  --output={}{} <<'JOB'\n"
      "#!/bin/sh\n"
      "{} merge{} -o {}\n"
      "JOB\n"
      ")\n"
      "echo \"shards: job ${{shards%%;*}}, {} of them; merge: job ${{merge%%;*}}, begins when all "
      "have ended\"\n"
      "echo {}\n",
      common, log_name(output, "_slurm-merge.log"), more, quoted(program),
      overwrite ? " --overwrite" : "", quoted(output), options.shards,
      quoted("what they say: " + output + "_slurm-N.log, " + output + "_slurm-merge.log"));
  return text;
}

std::string write_slurm_script(const SlurmOptions& given) {
  Options options;
  OptionTexts texts;
  CLI::App app("", "driftfit slurm");
  add_options(app, options, texts);
  std::vector<std::string> arguments = given.arguments;
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(std::move(arguments));
  if (!texts.shard.empty())
    throw UsageError("slurm gives each shard its --shard; allowed is --shards before the stack");
  texts.shard = fmt::format("1/{}", given.shards);
  resolve(app, options, texts);
  const std::string output = texts.prefix;
  std::error_code error;
  for (const auto& stack : texts.stack) {
    if (!std::filesystem::exists(stack, error))
      throw InputError(stack, "there is no such file or folder");
  }
  const auto folder = std::filesystem::current_path(error);
  check_one_line("the folder", folder.string());
  for (const std::string& word : given.arguments) check_one_line("an argument", word);
  for (const std::string& word : given.sbatch) check_one_line("--sbatch", word);
  if (output.find('\\') != std::string::npos)
    throw UsageError("--output is '" + output +
                     "'; in a name of a log a \\ makes sbatch take %a for "
                     "itself: slurm allows none");
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path script = output + "_slurm.sh";
  if (!options.outputs.overwrite && std::filesystem::exists(script, error))
    throw OutputError(script, "exists already; --overwrite replaces it");
  OutputFile file(script);
  TextFile text(file);
  text.write(slurm_script(given, program.string(), folder.string(), output,
                          options.outputs.overwrite, options.fitter.threads));
  text.finish();
  file.keep();
  std::string said = fmt::format("written: {}\nsh {} submits {} shards and their merge\n",
                                 script.string(), quoted(script.string()), given.shards);
  if (options.instruction_set == "auto" && options.fitter.back_end != BackEnd::Cuda)
    said +=
        "where the nodes' processors differ, --instruction-set with one that all have makes the "
        "shards fit together\n";
  return said;
}

}  // namespace driftd::tools
