// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/calibrate_axial.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/calibration/axial_calibration.hpp"
#include "clients/common/calibration/axial_files.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/driftctl/commands/calibration_run.hpp"
#include "clients/driftctl/commands/question.hpp"
#include "control/axial/curve_file.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct AxialOptions {
  std::optional<double> range_nm, step_nm, settle_ms;
  std::optional<int> frames;
  fs::path output;
  bool write = false, keep_curve = false, yes = false;
};

/// For a file that nobody's configuration is the model of.
void write_plainly(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

fs::path picture_beside(const fs::path& curve) {
  return fs::path(curve).replace_extension(".svg");
}

/// Before the stage is moved. Leaves nothing behind.
void check_plainly_writable(const fs::path& file) {
  const bool is_new = !fs::exists(file);
  const bool opens = std::ofstream(file, std::ios::binary | std::ios::app).good();
  std::error_code ignored;
  if (opens && is_new) fs::remove(file, ignored);
  if (!opens)
    throw std::runtime_error("cannot write " + file.string() + "; the stage did not move");
}

void check_usage(const CommonOptions& common, const AxialOptions& options) {
  if (options.write && common.config.empty())
    throw CLI::ValidationError("--write", "needs --config with the file that driftd runs with");
  if (options.keep_curve && !options.write)
    throw CLI::ValidationError("--keep-curve", "is for --write");
  if (options.output.extension() == ".svg")
    throw CLI::ValidationError("--output",
                               "names the curve's YAML file; its .svg is written beside it");
  if (options.output.empty()) return;
  const fs::path folder = fs::absolute(options.output).parent_path();
  if (!fs::is_directory(folder))
    throw CLI::ValidationError("--output", folder.string() + " is no folder");
  if (!fs::exists(options.output)) return;
  try {
    (void)control::read_curve_file(options.output);
  } catch (const control::CurveFileError& error) {
    throw CLI::ValidationError("--output",
                               "only a curve is replaced, and " + std::string(error.what()));
  }
}

/// Before the stage is moved. @throws std::runtime_error where there is no curve that may stay
void check_keeps_curve(const json& status) {
  const json axial = status.value("axial", json());
  const json curve = axial.is_object() ? axial.value("curve", json()) : json();
  if (!curve.is_string() || curve.get<std::string>().empty())
    throw std::runtime_error(
        "--keep-curve reads the stage's gain by the curve until now, and driftd has none "
        "(axial.curve): leave --keep-curve out; the stage did not move");
}

json fields_of(const AxialOptions& options) {
  json fields{{"axes", "z"}};
  if (options.range_nm) fields["range_nm"] = *options.range_nm;
  if (options.step_nm) fields["step_nm"] = *options.step_nm;
  if (options.frames) fields["frames"] = *options.frames;
  if (options.settle_ms) fields["settle_s"] = 1e-3 * *options.settle_ms;
  return fields;
}

void calibrate(const CommonOptions& common, const AxialOptions& options) {
  check_usage(common, options);
  StopSignal stop;
  CommandClient client = client_of(common);
  std::optional<CalibrationFile> file;
  config::Config before;
  const fs::path curve = options.keep_curve || !options.write ? fs::path()
                         : options.output.empty()             ? curve_beside(common.config)
                                                              : fs::absolute(options.output);
  if (options.write) {
    const json status = client.request({{"command", "status"}}).body.value("status", json());
    file =
        checked_calibration_file(common.config, kAxialFile, "driftctl calibrate z --write", status);
    if (options.keep_curve) check_keeps_curve(status);
    before = config::load(common.config);
    if (!curve.empty() && before.axial.by_widths()) check_curve_writable(*file, curve);
  } else if (!options.output.empty()) {
    for (const fs::path& one : {options.output, picture_beside(options.output)})
      check_plainly_writable(one);
  }
  const json word =
      run_calibration(client, stop, {fields_of(options)},
                      std::chrono::milliseconds(static_cast<long>(common.timeout_s * 1000)));
  const json& result = word.at("result");
  const CurveTexts texts = curve_texts(result);
  if (common.json) {
    fmt::print("{}\n", word.dump());
  } else {
    for (const std::string& line : axial_findings(result)) fmt::print("{}\n", line);
  }
  std::fflush(stdout);
  const bool asks = !options.yes && is_answerable();
  if (!file && !options.output.empty() && !texts.curve.empty()) {
    write_plainly(options.output, texts.curve);
    write_plainly(picture_beside(options.output), texts.picture);
    (void)control::read_curve_file(options.output);
    fmt::print(stderr, "Written to {} and its .svg, and read back.\n", options.output.string());
  }
  if (!file) return;
  if (asks && !ask("Write this to " + file->path().string() + "?", stop)) {
    fmt::print(stderr, "Nothing was written.\n");
    return;
  }
  for (const std::string& line : write_sweep(*file, before, result, curve).lines)
    fmt::print(stderr, "{}\n", line);
}

}  // namespace

void add_calibrate_axial(CLI::App& calibrate_command, const CommonOptions& common) {
  CLI::App* command = calibrate_command.add_subcommand(
      "z",
      "Take the stage of z up and down about the present place and back, while z is not locked, "
      "and make the curve of widths, or the slope of the reflected spot, of what the camera sees "
      "(docs/use/axial.md). Ctrl-C: back to the start");
  const auto options = std::make_shared<AxialOptions>();
  command
      ->add_option("--range-nm", options->range_nm,
                   "How far the sample goes each way, nm; without: driftd chooses")
      ->check(in_range(50, 2000, "NM"));
  command
      ->add_option("--step-nm", options->step_nm,
                   "From place to place, nm; without: driftd chooses")
      ->check(in_range(1, 200, "NM"));
  command
      ->add_option("--frames", options->frames,
                   "Frames that are measured at each place; without: driftd chooses")
      ->check(CLI::Range(2, 1000));
  command
      ->add_option("--settle", options->settle_ms,
                   "How long the stage rests before, ms; without: by axial.stage")
      ->check(in_range(1, 5000, "MS"));
  command->add_option("-o,--output", options->output,
                      "CURVE.yaml: the curve; its picture is CURVE.svg");
  command->add_flag("--write", options->write,
                    "Keep the curve beside FILE of --config, and put it and the gain into "
                    "FILE.d/axial-calibration.yaml, which driftd reads over FILE; those before are "
                    "kept");
  command->add_flag("--keep-curve", options->keep_curve,
                    "The curve until now is right: write axial.stage.gain by it, and no curve");
  command->add_flag("--yes", options->yes, "Ask nothing");
  command->callback([&common, options] { calibrate(common, *options); });
}

}  // namespace driftd::clients
