// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/exposure.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/process/option_range.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/driftctl/commands/question.hpp"
#include "clients/driftctl/commands/write_calibration.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

/// At least, for a camera that answers late and its next frames.
constexpr double kPatienceS = 10;

struct ExposureOptions {
  std::optional<double> exposure_us, gain_db;
  bool write = false, yes = false;
};

/// "1000 us (10 to 1e+06)"
std::string quantity(const json& values, const char* key, const char* range, const char* unit) {
  if (!values.at(key).is_number()) return "not told by the camera";
  const json& limits = values.at(range);
  return fmt::format("{:.6g} {}{}", values.at(key).get<double>(), unit,
                     limits.is_array()
                         ? fmt::format(" ({:.6g} to {:.6g})", limits.at(0).get<double>(),
                                       limits.at(1).get<double>())
                         : ", and cannot be set");
}

void print_exposure(const json& exposure) {
  fmt::print("exposure: {}\n", quantity(exposure, "exposure_us", "exposure_range_us", "us"));
  fmt::print("gain: {}\n", quantity(exposure, "gain_db", "gain_range_db", "dB"));
  if (exposure.at("frame_rate_hz").is_number())
    fmt::print("frame rate: {:.6g} Hz\n", exposure.at("frame_rate_hz").get<double>());
  if (const std::string warning = exposure.at("warning"); !warning.empty())
    fmt::print("{}\n", warning);
}

void show_or_set(const CommonOptions& options, const ExposureOptions& given) {
  StopSignal stop;
  json request{{"command", "exposure"}};
  if (given.exposure_us) request["exposure_us"] = *given.exposure_us;
  if (given.gain_db) request["gain_db"] = *given.gain_db;
  CommonOptions patient = options;
  if (request.size() > 1) patient.timeout_s = std::max(options.timeout_s, kPatienceS);
  std::optional<CalibrationFile> file;
  if (given.write) {
    const json status = send(options, {{"command", "status"}}).body.at("status");
    file = exposure_file(options.config, "driftctl exposure --write", status);
    check_to_write(*file, status);
  }
  const json body = send(patient, request).body;
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    print_exposure(body.at("exposure"));
  std::fflush(stdout);
  if (file) write_and_tell(*file, exposure_to_keep(body), !given.yes && is_answerable(), stop);
}

}  // namespace

void add_exposure(CLI::App& app, const CommonOptions& options) {
  const auto given = std::make_shared<ExposureOptions>();
  CLI::App* command = app.add_subcommand(
      "exposure",
      "Print the camera's exposure time, gain, and what it allows. While idle or lost, set them");
  command->add_option("--exposure-us", given->exposure_us, "Expose so long, us")
      ->check(in_range(1, 1e7, "US"));
  command->add_option("--gain-db", given->gain_db, "Analogue gain, dB")
      ->check(in_range(-24, 60, "DB"));
  command->add_flag("--write", given->write,
                    "Put both into FILE.d/exposure.yaml, which driftd reads over FILE of --config; "
                    "the one before is kept");
  command->add_flag("--yes", given->yes, "Ask nothing before that");
  command->callback([&options, given] {
    if (given->write && options.config.empty())
      throw CLI::ValidationError("--write", "needs --config with the file that driftd runs with");
    show_or_set(options, *given);
  });
}

}  // namespace driftd::clients
