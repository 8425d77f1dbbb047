// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/markers.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/common/shown/daemon_view.hpp"
#include "clients/driftctl/commands/question.hpp"
#include "clients/driftctl/commands/write_calibration.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr const char* kWriting = "driftctl markers --write";
constexpr double kSearchS = 10;  ///< at least, for an image of many pixels and spots

struct MarkersOptions {
  bool find = false;
  std::vector<std::string> add;
  std::vector<std::uint32_t> remove, tracking, witness;
  bool write = false, yes = false;

  bool changes() const {
    return find || !add.empty() || !remove.empty() || !tracking.empty() || !witness.empty();
  }
};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "101.2,55.9" as the protocol has it; nothing where it is no place.
std::optional<json> place_of(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) return std::nullopt;
  const auto x = number_of(std::string_view(text).substr(0, comma));
  const auto y = number_of(std::string_view(text).substr(comma + 1));
  if (!x || !y) return std::nullopt;
  return json{{"x_px", *x}, {"y_px", *y}};
}

std::string check_place(const std::string& text) {
  return place_of(text) ? "" : "'" + text + "' is not a place such as 101.2,55.9, in sensor pixels";
}

json request_of(const MarkersOptions& given) {
  json request{{"command", "markers"}};
  if (given.find) request["find"] = true;
  for (const std::string& place : given.add) request["add"].push_back(*place_of(place));
  if (!given.remove.empty()) request["remove"] = given.remove;
  if (!given.tracking.empty()) request["tracking"] = given.tracking;
  if (!given.witness.empty()) request["witness"] = given.witness;
  return request;
}

void print_markers(const json& body) {
  DaemonView view;
  view.set_markers(body);
  for (const Line& line : view.marker_table(SIZE_MAX)) fmt::print("{}\n", line.text);
  if (body.contains("outdated_s"))
    fmt::print("as they were {:.1f} s ago: no frame has shown them since\n",
               body["outdated_s"].get<double>());
  const json rejected = body.value("rejected", json::array());
  if (!rejected.empty())
    fmt::print("{} {} no marker:\n", counted(rejected.size(), "other spot"),
               rejected.size() == 1 ? "is" : "are");
  for (const json& spot : rejected)
    fmt::print("{:>9.1f} {:>9.1f} px  {}\n", spot.at("x_px").get<double>(),
               spot.at("y_px").get<double>(), spot.at("reason").get<std::string>());
  if (body.value("chosen", false))
    fmt::print("chosen by command, until `driftctl markers --find` or a restart\n");
  if (const std::string why = body.value("too_few", ""); !why.empty()) fmt::print("{}\n", why);
  if (const std::string offer = body.value("offer", ""); !offer.empty()) fmt::print("{}\n", offer);
}

json status_of(const CommonOptions& options) {
  return send(options, {{"command", "status"}}).body.at("status");
}

void markers(const CommonOptions& options, const MarkersOptions& given) {
  StopSignal stop;
  CommonOptions patient = options;
  if (given.changes()) patient.timeout_s = std::max(options.timeout_s, kSearchS);
  if (given.write) {  // before anything changes
    const json status = status_of(options);
    check_to_write(markers_file(options.config, kWriting, status), status);
  }
  const json body = send(patient, request_of(given)).body;
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    print_markers(body);
  std::fflush(stdout);
  if (!given.write) return;
  const json status = status_of(options);  // with the sizes of those that are followed now
  write_and_tell(markers_file(options.config, kWriting, status), markers_to_keep(body, status),
                 !given.yes && is_answerable(), stop);
}

}  // namespace

void add_markers(CLI::App& app, const CommonOptions& options) {
  const auto given = std::make_shared<MarkersOptions>();
  CLI::App* command = app.add_subcommand(
      "markers",
      "Print the markers. While idle or lost, change which they are: several options at once are "
      "taken as a whole, or not at all");
  CLI::Option* find = command->add_flag("--find", given->find,
                                        "Look for markers anew, in place of all that was chosen");
  const auto ids = [&](const char* name, std::vector<std::uint32_t>& to, const char* text) {
    command->add_option(name, to, text)->type_name("ID")->expected(1, -1)->excludes(find);
  };
  command
      ->add_option("--add", given->add,
                   "Follow the spot at this place in the picture, too, in pixels of the sensor")
      ->type_name("X,Y")
      ->expected(1, -1)
      ->check(CLI::Validator(check_place, ""))
      ->excludes(find);
  ids("--remove", given->remove, "Do not follow this marker any more");
  ids("--tracking", given->tracking, "It takes part in the correction");
  ids("--witness", given->witness, "It is measured, and takes no part");
  command
      ->add_flag("--write", given->write,
                 "Put those chosen into FILE.d/markers.yaml, which driftd reads over FILE of "
                 "--config; the one before is kept")
      ->excludes(find);
  command->add_flag("--yes", given->yes, "Ask nothing before that");
  command->callback([&options, given] {
    if (given->write && options.config.empty())
      throw CLI::ValidationError("--write", "needs --config with the file that driftd runs with");
    markers(options, *given);
  });
}

}  // namespace driftd::clients
