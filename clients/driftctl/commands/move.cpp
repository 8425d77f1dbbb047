// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/move.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/axial_lock.hpp"
#include "clients/common/shown/lock_lines.hpp"
#include "clients/driftctl/commands/lock.hpp"
#include "control/lock/set_point.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr auto kLookEvery = std::chrono::milliseconds(20);
/// Time for the stage to settle and the gate to open, after the move itself.
constexpr double kPatience_s = 10;
/// Nobody waits longer, and times in ns have room for it.
constexpr double kLongestWaitS = 1e8;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr const char* kBlanks = " \t\r";
/// The longest path that driftd takes: its longest request, less what stands beside the path.
constexpr std::size_t kLongestPath = 4096 - 256;
constexpr std::size_t kLongestFile = 65'536;

struct MoveOptions {
  std::vector<double> place_nm;
  std::optional<double> z_nm, dz_nm;
  double speed_nm_per_s = 0;  ///< 0: not given
  std::filesystem::path path;
  int repeats = 1;
  bool to = false, home = false, stop = false, wait = false;
};

json request_of(const MoveOptions& o) {
  json request = {{"command", "move"}};
  const bool has_place = !o.place_nm.empty(), has_z = o.z_nm || o.dz_nm;
  if ((has_place || has_z) + o.home + o.stop + !o.path.empty() != 1)
    throw CLI::ValidationError("move", "wants one of: DX DY, --z or --dz, --path, --home, --stop");
  if (o.to && !has_place) throw CLI::ValidationError("--to", "goes with a place");
  if (o.repeats > 1 && o.path.empty()) throw CLI::ValidationError("--repeat", "goes with --path");
  if (o.stop && (o.wait || o.speed_nm_per_s > 0))
    throw CLI::ValidationError("--stop", "goes without --speed and --wait");
  if (has_place) {
    request[o.to ? "x_nm" : "dx_nm"] = o.place_nm[0];
    request[o.to ? "y_nm" : "dy_nm"] = o.place_nm[1];
  }
  if (o.z_nm) request["z_nm"] = *o.z_nm;
  if (o.dz_nm) request["dz_nm"] = *o.dz_nm;
  if (o.home) request["home"] = true;
  if (o.stop) request["stop"] = true;
  if (!o.path.empty()) request["path"] = read_places(o.path);
  if (o.repeats > 1) request["repeat"] = o.repeats;
  if (o.speed_nm_per_s > 0) request["speed_nm_per_s"] = o.speed_nm_per_s;
  return request;
}

/// Whether the move `id` of a lock, x and y's or z's, is over and the sample lies still there.
/// @throws std::runtime_error where it will not arrive
bool has_arrived(const json& lock, std::uint64_t id) {
  const json& move = lock.at("move");
  if (move.at("phase") == "unlocked")
    throw std::runtime_error("the move is over; the lock is " + lock_in_words(lock));
  if (move.at("move") != id) throw std::runtime_error("another move took its place");
  if (move.at("phase") != "resting" || move.at("moving").get<bool>()) return false;
  const std::string ended = move.at("ended");
  if (ended == "stopped") throw std::runtime_error("the move was stopped by another command");
  if (ended == "limits")
    throw std::runtime_error("the limits left no room to go on: the move ended where it was");
  if (ended != "done") throw std::runtime_error("the move ended: " + ended);
  return lock.at("gate").at("in_lock").get<bool>();
}

/// Waits until the move is over and images may be taken. @throws std::runtime_error
void wait_for(const CommonOptions& options, const json& begun, StopSignal& stop) {
  const auto id = begun.at("move").get<std::uint64_t>();
  const bool of_xy = begun.contains("x_nm"), of_z = begun.contains("z_nm") || begun.contains("z");
  const auto z_id = begun.value("z", begun).at("move").get<std::uint64_t>();
  const double longest_s =
      std::min(std::max(begun.at("duration_s").get<double>(),
                        begun.value("z", begun).at("duration_s").get<double>()) +
                   kPatience_s,
               kLongestWaitS);
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(longest_s * 1e9);
  json status, waits_for;
  while (monotonic_ns() < end_ns) {
    status = send(options, {{"command", "status"}}).body.at("status");
    const bool xy_there = !of_xy || has_arrived(status, id);
    if (xy_there && (!of_z || has_arrived(axial_lock(status), z_id))) return;
    waits_for = xy_there ? axial_lock(status) : status;
    if (stop.raised()) throw std::runtime_error("waiting was ended; the move goes on");
    std::this_thread::sleep_for(kLookEvery);
  }
  throw std::runtime_error(fmt::format("not in lock {:.1f} s after the move began: {}", longest_s,
                                       waits_for.at("state") == "locked"
                                           ? why_not_in_lock(waits_for.at("gate"))
                                           : lock_in_words(waits_for)));
}

/// "x 1.5, y -2.0, z 50.0", of the axes that the reply names.
std::string place_in_words(json reply) {
  reply.update(reply.value("z", json::object()));  // of x, y and z
  std::string words;
  for (const char* axis : {"x", "y", "z"})
    if (const auto at = reply.find(std::string(axis) + "_nm"); at != reply.end() && at->is_number())
      words += fmt::format("{}{} {:.1f}", words.empty() ? "" : ", ", axis, at->get<double>());
  return words;
}

void move(const CommonOptions& options, const MoveOptions& o) {
  std::optional<StopSignal> stop;
  if (o.wait) stop.emplace();
  const json body = send(options, request_of(o)).body;
  if (stop) wait_for(options, body, *stop);
  if (options.json) {
    fmt::print("{}\n", body.dump());
    return;
  }
  const std::string place = place_in_words(body);
  if (o.stop)
    fmt::print("the set-point stays at {} nm\n", place);
  else
    fmt::print("move {}: to {} nm in {:.3f} s, at most {:.0f} nm/s{}\n",
               body.at("move").get<std::uint64_t>(), place, body.at("duration_s").get<double>(),
               body.at("speed_nm_per_s").get<double>(), o.wait ? "; in lock" : "");
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// Semicolons, commas or blanks part the fields of a line, the first of these that it has.
std::vector<std::string> fields_of(const std::string& line) {
  const char mark = line.find(';') != std::string::npos   ? ';'
                    : line.find(',') != std::string::npos ? ','
                                                          : ' ';
  std::vector<std::string> fields;
  std::istringstream rest(line);
  std::string field;
  if (mark == ' ')
    while (rest >> field) fields.push_back(field);
  else
    while (std::getline(rest, field, mark)) fields.push_back(trimmed(field));
  return fields;
}

/// Nothing where one is none: empty, a word, hexadecimal, with a comma.
std::optional<std::vector<double>> numbers_of(const std::vector<std::string>& fields) {
  std::vector<double> numbers;
  for (const std::string& field : fields) {
    double value = 0;
    if (field.find_first_not_of("+-.0123456789eE") != std::string::npos ||
        !CLI::detail::lexical_cast(field, value) || !std::isfinite(value))
      return std::nullopt;
    numbers.push_back(value);
  }
  return numbers;
}

/// Words, as spreadsheets write them above the columns; "nan" is none.
bool is_heading(const std::vector<std::string>& fields) {
  return std::all_of(fields.begin(), fields.end(), [](const std::string& field) {
    double value = 0;
    return !field.empty() && std::isalpha(static_cast<unsigned char>(field.front())) != 0 &&
           !CLI::detail::lexical_cast(field, value);
  });
}

/// @throws std::runtime_error
std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(file.string() + " cannot be read");
  std::string text(kLongestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kLongestFile)
    throw std::runtime_error(fmt::format("{} is longer than {} bytes: a path has at most {} places",
                                         file.string(), kLongestFile,
                                         control::MovePath::kMostPlaces));
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace

json read_places(const std::filesystem::path& file) {
  std::istringstream stream(text_of(file));
  json places = json::array();
  std::string line;
  bool may_be_heading = true;
  for (int count = 1; std::getline(stream, line); ++count) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> fields = fields_of(line);
    const bool heading = may_be_heading && is_heading(fields);
    may_be_heading = false;
    if (heading) continue;
    const auto numbers = numbers_of(fields);
    if (!numbers || numbers->size() < 2 || numbers->size() > 3)
      throw std::runtime_error(fmt::format(
          "{}:{}: '{:.60}' is no place: x and y in nm and, if it is wanted, the stay there in s",
          file.string(), count, line));
    json place = {{"x_nm", numbers->at(0)}, {"y_nm", numbers->at(1)}};
    if (numbers->size() == 3) place["dwell_s"] = numbers->at(2);
    places.push_back(place);
  }
  if (places.empty()) throw std::runtime_error(file.string() + " holds no place");
  if (places.size() > control::MovePath::kMostPlaces || places.dump().size() > kLongestPath)
    throw std::runtime_error(
        fmt::format("{} holds {} places in {} bytes of JSON; a path has at most {} places in {} "
                    "bytes: split it, or write fewer digits",
                    file.string(), places.size(), places.dump().size(),
                    control::MovePath::kMostPlaces, kLongestPath));
  return places;
}

void add_move(CLI::App& app, const CommonOptions& options) {
  const auto o = std::make_shared<MoveOptions>();
  CLI::App* command = app.add_subcommand(
      "move",
      "Move the sample while it is locked, by so many nm to the right and down in the image, or up "
      "(--dz), and hold it there");
  command->add_option("place", o->place_nm, "DX DY, from where it is held or moved to now, nm")
      ->expected(2)
      ->check(in_range(-1e6, 1e6, "NM"));
  command->add_flag("--to", o->to, "The two numbers count from the reference of the lock");
  const auto z = command->add_option("--z", o->z_nm, "z up, to so many nm from its reference")
                     ->check(in_range(-1e6, 1e6, "NM"));
  command->add_option("--dz", o->dz_nm, "z up by so many nm; alone, or with DX DY")
      ->check(in_range(-1e6, 1e6, "NM"))
      ->excludes(z);
  command
      ->add_option("--speed", o->speed_nm_per_s,
                   "nm/s; without: what the limits allow, at most 10000")
      ->check(in_range(1e-3, 1e9, "POSITIVE"));
  command
      ->add_option("--path", o->path,
                   "Through the places of this file, from the reference: x,y or x,y,dwell a line, "
                   "nm and s")
      ->check(CLI::ExistingFile);
  command->add_option("--repeat", o->repeats, "Through the places so many times")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--home", o->home, "Back to the reference of the lock");
  command->add_flag("--stop", o->stop, "Stay where it is on the way");
  command->add_flag("--wait", o->wait, "Return when it has arrived and lies still: in lock");
  command->callback([o, &options] { move(options, *o); });
}

}  // namespace driftd::clients
