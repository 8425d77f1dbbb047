// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/calibrate_stage.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/driftctl/commands/calibration_run.hpp"
#include "clients/driftctl/commands/question.hpp"
#include "clients/driftctl/commands/write_calibration.hpp"
#include "clients/driftctl/stage/step_plot.hpp"

namespace driftd::clients {
namespace {

/// An SVG is what is written, and other programs go by the name.
std::string check_svg_name(const std::string& file) {
  std::string end = std::filesystem::path(file).extension().string();
  std::ranges::transform(end, end.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (end == ".svg") return {};
  return "'" + file + "' does not end in .svg, and an SVG is what is written";
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

/// Questions go to standard error, where they are in nobody's way with --json, too.
bool can_ask(const CalibrateStageOptions& options) {
  return !options.yes && is_answerable();
}

void write_plot(const StageCalibration& calibration, const std::filesystem::path& file) {
  std::string caption;
  if (calibration.delay_us.value) {
    caption = fmt::format("dead time {:.2f} ms", *calibration.delay_us.value * 1e-3);
  }
  if (calibration.bandwidth_hz.value) {
    caption += fmt::format("{}bandwidth {:.0f} Hz", caption.empty() ? "" : ", ",
                           *calibration.bandwidth_hz.value);
  }
  const std::string svg = draw_step_response(calibration.response, caption);
  std::ofstream out(file, std::ios::binary);
  out << svg;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

/// Whether it can be written, without making it.
void check_plot(const std::filesystem::path& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    throw CLI::ValidationError("--plot", folder.string() + " is no folder");
  }
  const bool exists = access(file.c_str(), F_OK) == 0;
  if (std::filesystem::is_directory(file) ||
      access((exists ? file : folder).c_str(), exists ? W_OK : W_OK | X_OK) != 0) {
    throw CLI::ValidationError("--plot", "cannot write " + file.string());
  }
}

/// What would only be found out after the stage has moved.
void check_usage(const CommonOptions& common, const CalibrateStageOptions& options) {
  if (options.write && common.config.empty()) {
    throw CLI::ValidationError("--write", "needs --config with the file that driftd runs with");
  }
  if (!options.plot.empty()) check_plot(options.plot);
}

CalibrationFile check_file(const std::filesystem::path& config, CommandClient& client) {
  const nlohmann::json reply = client.request({{"command", "status"}}).body;
  return checked_calibration_file(config, kStageFile, "driftctl calibrate --write",
                                  reply.value("status", nlohmann::json()));
}

/// Which of the two explanations of the matrix is meant; empty: that the stage's nanometres differ.
std::optional<PixelSizeQuestion> settle_pixel_size(const StageCalibration& calibration,
                                                   const CommonOptions& common,
                                                   const CalibrateStageOptions& options,
                                                   StopSignal& stop) {
  const auto question = pixel_size_question(calibration);
  if (!question) {
    if (options.pixel_size_from_stage) {
      fmt::print(stderr,
                 "The matrix does not say that the pixel size is another: it stays as it is.\n");
    }
    return std::nullopt;
  }
  if (!common.json) print_lines(question_lines(*question));
  if (options.pixel_size_from_stage) return question;
  if (!common.json && can_ask(options) &&
      ask(fmt::format("Is the stage right, so that a pixel is {:.3f} nm?", question->pixel_nm),
          stop)) {
    return question;
  }
  if (!common.json) {
    fmt::print(
        "The factor stays in the matrix, which locks as well; if the stage is right, use "
        "--pixel-size-from-stage.\n");
  }
  return std::nullopt;
}

}  // namespace

void calibrate_stage(const CommonOptions& common, const CalibrateStageOptions& options) {
  check_usage(common, options);
  StopSignal stop;
  CommandClient client = client_of(common);
  const auto file = options.write ? std::optional(check_file(common.config, client)) : std::nullopt;
  nlohmann::json fields = nlohmann::json::object();
  if (options.excursion_nm) fields["excursion_nm"] = *options.excursion_nm;
  if (options.seconds) fields["seconds"] = *options.seconds;
  const nlohmann::json word =
      run_calibration(client, stop, {fields},
                      std::chrono::milliseconds(static_cast<long>(common.timeout_s * 1000)));
  const StageCalibration calibration = read_calibration(word.at("result"));
  if (common.json) {
    fmt::print("{}\n", word.dump());
  } else {
    print_lines(findings(calibration));
  }
  const auto pixel = settle_pixel_size(calibration, common, options, stop);
  const KeyValues values = proposed_values(calibration, pixel);
  if (!common.json) print_lines(proposal_lines(calibration, values));
  std::fflush(stdout);
  if (!options.plot.empty()) write_plot(calibration, options.plot);
  if (!file) return;
  write_and_tell(*file, values_to_write(common.config, calibration, pixel), can_ask(options), stop);
}

CLI::App* add_calibrate(CLI::App& app, const CommonOptions& common,
                        CalibrateStageOptions& options) {
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Move the stage by small amounts while the lock is idle, and tell how it stands to the image "
      "and how it responds, with values for the configuration (docs/use/calibrate.md). Ctrl-C: "
      "back to the start");
  command
      ->add_option("--excursion", options.excursion_nm,
                   "How far the stage may move each way, nm; without: driftd chooses")
      ->check(in_range(1e-3, 1e6, "NM"));
  command->add_option("--seconds", options.seconds, "How long; without: driftd chooses")
      ->check(in_range(1, 3600, "S"));
  command->add_flag(
      "--write", options.write,
      "Put the values proposed into FILE.d/stage-calibration.yaml, which driftd reads "
      "over FILE of --config; the one before is kept");
  command->add_option("--plot", options.plot, "Draw the step responses; the name ends in .svg")
      ->check(CLI::Validator(check_svg_name, ""));
  command->add_flag("--pixel-size-from-stage", options.pixel_size_from_stage,
                    "The stage's nanometres are right: where all lengths differ by one factor, "
                    "propose another optics.pixel_size_nm");
  command->add_flag("--yes", options.yes, "Ask nothing");
  command->callback([command, &common, &options] {
    if (command->get_subcommands().empty()) calibrate_stage(common, options);
  });
  return command;
}

}  // namespace driftd::clients
