// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/place.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/counted.hpp"
#include "clients/common/plain.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr double kSearchS = 30;  ///< at least, for an image of many pixels and spots

struct PlaceOptions {
  std::string name, note;
  bool replace = false;
};

/// "spot-3  2026-11-24T23:50:12Z  13 markers over 180 x 201 px  before the drug"
std::string line_of(const json& place) {
  const auto name = place.at("name").get<std::string>();
  const std::string problem = place.value("problem", "");
  if (!place.contains("saved_at")) return fmt::format("{}  not readable: {}", name, problem);
  const json& markers = place.at("markers");
  const std::string note = place.at("note");
  return fmt::format(
      "{}  {}  {} over {:.0f} x {:.0f} px{}{}", name, place.at("saved_at").get<std::string>(),
      counted(markers.is_array() ? markers.size() : markers.get<std::size_t>(), "marker"),
      place.at("width_px").get<double>(), place.at("height_px").get<double>(),
      note.empty() ? "" : "  " + note,
      problem.empty() ? "" : "  (not of this image: " + problem + ")");
}

json ask(const CommonOptions& options, const json& request) {
  json command = {{"command", "place"}};
  command.update(request);
  json body = send(options, command).body;
  if (options.json) fmt::print("{}\n", body.dump());
  return body;
}

void save(const CommonOptions& options, const PlaceOptions& place) {
  json request = {{"save", place.name}};
  if (!place.note.empty()) request["note"] = place.note;
  if (place.replace) request["replace"] = true;
  const json body = ask(options, request);
  if (!options.json) fmt::print("saved: {}\n", line_of(body.at("place")));
}

void list(const CommonOptions& options) {
  const json body = ask(options, json::object());
  if (options.json) return;
  for (const json& place : body.at("places")) fmt::print("{}\n", line_of(place));
  if (body.at("places").empty()) fmt::print("no place is saved\n");
}

void show(const CommonOptions& options, const std::string& name) {
  const json body = ask(options, {{"show", name}});
  if (options.json) return;
  const json& place = body.at("place");
  fmt::print("{}\n", line_of(place));
  for (const auto& [key, value] : place.at("instrument").items())
    fmt::print("{}: {}\n", plain(key), value.get<std::string>());
  if (const json& stage = place.at("stage"); stage.is_object())
    fmt::print("stage: {} ({}) at {} nm\n", stage.at("driver").get<std::string>(),
               stage.at("description").get<std::string>(), stage.at("position_nm").dump());
  fmt::print("  id role      x px      y px    sd nm  sigma px  amplitude\n");
  for (const json& m : place.at("markers")) {
    fmt::print("{:>4} {:<8} {:>9.3f} {:>9.3f} {:>6.2f} {:>9.2f} {:>10.0f}\n",
               m.at("id").get<std::uint32_t>(), m.at("role").get<std::string>(),
               m.at("x_px").get<double>(), m.at("y_px").get<double>(), m.at("sd_nm").get<double>(),
               m.at("sigma_px").get<double>(), m.at("amplitude_adu").get<double>());
  }
}

}  // namespace

json lock_at_place(const CommonOptions& options, const std::string& name) {
  CommonOptions patient = options;
  patient.timeout_s = std::max(options.timeout_s, kSearchS);
  return send(patient, {{"command", "lock"}, {"place", name}}).body;
}

void print_way_to_place(const std::string& name, const json& body) {
  const double x = body.at("moved_x_nm").get<double>(), y = body.at("moved_y_nm").get<double>();
  const double turned = body.at("turned_deg").get<double>();
  fmt::print(
      "the sample was found {:.1f} nm (x {:+.1f}, y {:+.1f}) from {}{}; {} of {} {} "
      "there\n",
      std::hypot(x, y), x, y, name,
      turned == 0 ? "" : fmt::format(" and turned by {:.2f} degrees", turned),
      body.at("found").get<int>(), counted(body.at("markers").get<int>(), "marker"),
      body.at("found").get<int>() == 1 ? "is" : "are");
}

void add_place(CLI::App& app, const CommonOptions& options) {
  const auto given = std::make_shared<PlaceOptions>();
  CLI::App* place = app.add_subcommand(
      "place", "Places of the sample that are kept by name, for `lock --place` another day");
  place->require_subcommand(1);
  const auto add = [&](const char* name, const char* text) {
    CLI::App* command = place->add_subcommand(name, text);
    command->add_option("name", given->name, "Letters, digits, - and _; at most 64")->required();
    return command;
  };
  CLI::App* saving = add("save", "Save where the markers are now: while locked, or idle");
  saving->add_option("--note", given->note, "A line for people, kept with it");
  saving->add_flag("--replace", given->replace, "Save it over one of this name");
  saving->callback([&options, given] { save(options, *given); });
  place->add_subcommand("list", "When each was saved, and how many markers it has")
      ->callback([&options] { list(options); });
  add("show", "Print one, with its markers")->callback([&options, given] {
    show(options, given->name);
  });
  add("remove", "Remove one")->callback([&options, given] {
    const json body = ask(options, {{"remove", given->name}});
    if (!options.json) fmt::print("removed: {}\n", body.at("removed").get<std::string>());
  });
}

}  // namespace driftd::clients
