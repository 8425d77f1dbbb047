// SPDX-License-Identifier: MIT
#include "clients/stage/config.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/yaml/scalar.hpp"
#include "config/drop_ins.hpp"
#include "config/endpoint.hpp"

namespace driftd::stage {
namespace {

using config::Conflict;
using config::joined;
using config::Option;
using config::row;

template <auto Section>
std::vector<Option> controller_rows(const std::string& section) {
  const auto key = [&](const char* name) { return section + '.' + name; };
  return {
      row<Section, &Controller::driver>(
          key("driver"), "none",
          {.text = "How the controller is spoken to, see docs/reference/stage-controllers.md. "
                   "`none`: there is none; not allowed of a controller that an axis names.",
           .choices = {"none", "pi_gcs2", "lc400", "asi", "piezoconcept", "thorlabs_apt", "library",
                       "program", "simulator"}}),
      row<Section, &Controller::device>(
          key("device"), "",
          {.text = "Where the controller is: `tcp://HOST:PORT`, a serial line such as "
                   "`/dev/serial/by-id/usb-...`, or what the driver takes "
                   "(docs/reference/stage-controllers.md). It must be given, but "
                   "for a library that finds its controller itself, and for a `command`."}),
      row<Section, &Controller::baud>(
          key("baud"), 115200,
          {.text = "Speed of a serial line. Other links do not read it.",
           .unit = "baud",
           .min = 300,
           .max = 12'000'000}),
      row<Section, &Controller::library>(
          key("library"), "",
          {.text = "File of the vendor's library, for `driver: library` alone."}),
      row<Section, &Controller::command>(
          key("command"), "",
          {.text =
               "For `driver: program` alone: the program that drives the stage and its arguments, "
               "which is started and spoken to by lines (docs/use/stages.md). A word with spaces "
               "in it stands between quotation marks. Instead of it `device` may be "
               "`unix:/PATH`, where such a program listens."}),
      row<Section, &Controller::switch_servo_on>(
          key("switch_servo_on"), false,
          {.text = "`true`: servos that are off are switched on when the connection is made. The "
                   "stage may move then. `false`: the report says `servo_off`, and somebody "
                   "else has to."}),
      row<Section, &Controller::timeout_ms>(key("timeout_ms"), 500,
                                            {.text = "No answer for so long is a lost connection. "
                                                     "The end of the program waits for an answer "
                                                     "that is owed.",
                                             .unit = "ms",
                                             .min = 10,
                                             .max = 5000}),
      row<Section, &Controller::start_timeout_ms>(
          key("start_timeout_ms"), 10'000,
          {.text =
               "For `driver: program` alone: its first answer, and that to each new connection, "
               "may take so long.",
           .unit = "ms",
           .min = 10,
           .max = 60'000}),
  };
}

template <auto Section>
std::vector<Option> axis_mapping_rows(const std::string& section, const char* fallback) {
  const auto key = [&](const char* name) { return section + '.' + name; };
  return {
      row<Section, &AxisSettings::controller>(
          key("controller"), Which::First,
          {.text = "`first`: the axis is one of section controller; `second`: of "
                   "second_controller; `third`: of third_controller."}),
      row<Section, &AxisSettings::axis>(
          key("axis"), fallback,
          {.text = "The controller's name of the axis. With quotes where it is a number."}),
      row<Section, &AxisSettings::reversed>(
          key("reversed"), false,
          {.text = "`true`: the controller counts against the direction of the corrections."}),
      row<Section, &AxisSettings::scale>(
          key("scale"), 1,
          {.text = "nm on the controller's axis for 1 nm of correction: 1 unless the controller's "
                   "nm are others than the sample's, behind a lever or a demagnification.",
           .min = 0,
           .max = 1000,
           .above_min = true}),
  };
}

/// What differs between the axes: an objective may meet a cover glass, a stage in x and y may not.
struct LimitDefaults {
  double step_nm = 100, rate_nm_per_s = 10'000, range_nm = 10'000;
  std::string_view places =
      "Lowest place that the stage is sent to, on the controller's axis. The controller's own "
      "travel holds as well.";
  std::string_view range =
      "Farthest from where the stage was when the lock engaged. Not less than "
      "control.range_limit_nm of driftd, times the scale.";
};
constexpr LimitDefaults kAxial = {
    .step_nm = 50,
    .rate_nm_per_s = 2000,
    .range_nm = 2000,
    .places =
        "Lowest place that z is sent to, on the controller's axis, whatever the corrections say: "
        "keep the objective off the cover glass. It must be given, with z.max_nm, but for "
        "`driver: simulator`. The controller's own travel holds as well.",
    .range =
        "Farthest from where z was when the lock engaged, and from where it was at the first "
        "correction of the lock. Not less than axial.range_limit_nm of driftd, times the "
        "scale."};

template <auto Section>
std::vector<Option> axis_limit_rows(const std::string& section, const LimitDefaults& defaults) {
  const auto key = [&](const char* name) { return section + '.' + name; };
  return {
      row<Section, &AxisSettings::min_nm>(
          key("min_nm"), -kMetre_nm,
          {.text = defaults.places, .unit = "nm", .min = -kMetre_nm, .max = kMetre_nm}),
      row<Section, &AxisSettings::max_nm>(key("max_nm"), kMetre_nm,
                                          {.text = "Highest place that the stage is sent to.",
                                           .unit = "nm",
                                           .min = -kMetre_nm,
                                           .max = kMetre_nm}),
      row<Section, &AxisSettings::step_limit_nm>(
          key("step_limit_nm"), defaults.step_nm,
          {.text = "Longest single move, on the controller's axis. A controller that is slower "
                   "than the corrections takes several of the daemon's steps at once: so many "
                   "times control.step_limit_nm (of z: axial.step_limit_nm) of driftd.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true}),
      row<Section, &AxisSettings::rate_limit_nm_per_s>(
          key("rate_limit_nm_per_s"), defaults.rate_nm_per_s,
          {.text = "Longest move, for the time since the move before it.",
           .unit = "nm/s",
           .min = 0,
           .max = 10'000'000,
           .above_min = true}),
      row<Section, &AxisSettings::range_limit_nm>(
          key("range_limit_nm"), defaults.range_nm,
          {.text = defaults.range, .unit = "nm", .min = 0, .max = kMetre_nm, .above_min = true}),
  };
}

std::vector<Option> motion_rows() {
  return {
      row<&Config::motion, &Motion::axes>(
          "motion.axes", Axes::Xy,
          {.text = "Which of the sections x, y and z are in use: `xy` follows the topic "
                   "`correction`, `z` the topic `axial`, `xyz` both."}),
      row<&Config::motion, &Motion::max_rate_hz>(
          "motion.max_rate_hz", 1000,
          {.text = "At most so many moves a second; the newest correction is taken, those between "
                   "are left out. Where the controller is slower it sets the pace itself.",
           .unit = "Hz",
           .min = 1,
           .max = 100'000}),
      row<&Config::motion, &Motion::position_interval_ms>(
          "motion.position_interval_ms", 50,
          {.text = "How often the controller is asked where the stage is. Moves wait meanwhile: "
                   "ask less often where an answer takes milliseconds.",
           .unit = "ms",
           .min = 10,
           .max = 10'000}),
      row<&Config::motion, &Motion::health_interval_ms>(
          "motion.health_interval_ms", 100,
          {.text = "How often it is asked whether it would obey. Moves wait meanwhile.",
           .unit = "ms",
           .min = 10,
           .max = 10'000}),
      row<&Config::connection, &Connection::start_without_controller>(
          "connection.start_without_controller", false,
          {.text = "When no controller answers at start: `true` keeps trying, as after a lost "
                   "connection; `false` ends the program with exit code 3."}),
      row<&Config::connection, &Connection::reconnect_min_ms>(
          "connection.reconnect_min_ms", 200,
          {.text = "Pause before the first new attempt after a lost connection; it doubles with "
                   "each failure.",
           .unit = "ms",
           .min = 10,
           .max = 600'000}),
      row<&Config::connection, &Connection::reconnect_max_ms>(
          "connection.reconnect_max_ms", 5000,
          {.text = "Longest pause between attempts.", .unit = "ms", .min = 10, .max = 600'000}),
  };
}

std::vector<Option> service_rows() {
  return {
      row<&Config::daemon, &Daemon::corrections>(
          "daemon.corrections", "ipc://corrections",
          {.text = "Where driftd publishes corrections: its `wire.corrections`."}),
      row<&Config::daemon, &Daemon::commands>(
          "daemon.commands", "ipc://commands",
          {.text = "Where driftd is told how the stage does: its `wire.commands`."}),
      row<&Config::realtime, &Scheduling::mode>(
          "realtime.mode", config::RealTimeMode::Prefer,
          {.text = "`require`: driftd-stage does not start without locked memory and SCHED_FIFO; "
                   "`prefer`: it says so and goes on; `off`: it does not ask."}),
      row<&Config::realtime, &Scheduling::priority>(
          "realtime.priority", 40,
          {.text = "SCHED_FIFO priority of the thread that moves the stage. Below those of driftd.",
           .min = 1,
           .max = 98}),
      row<&Config::realtime, &Scheduling::cpu>(
          "realtime.cpu", -1,
          {.text = "CPU that this thread is pinned to. -1: the kernel chooses.",
           .min = -1,
           .max = 1023}),
      row<&Config::log, &Log::level>(
          "log.level", config::LogLevel::Info,
          {.text = "`debug` tells every change of what is due; `info` what an operator wants to "
                   "know."}),
  };
}

const std::vector<Option>& rows() {
  static const std::vector<Option> rows =
      joined({controller_rows<&Config::controller>("controller"),
              controller_rows<&Config::second_controller>("second_controller"),
              controller_rows<&Config::third_controller>("third_controller"),
              axis_mapping_rows<&Config::x>("x", "1"), axis_limit_rows<&Config::x>("x", {}),
              axis_mapping_rows<&Config::y>("y", "2"), axis_limit_rows<&Config::y>("y", {}),
              axis_mapping_rows<&Config::z>("z", "3"), axis_limit_rows<&Config::z>("z", kAxial),
              motion_rows(), service_rows()});
  return rows;
}

constexpr config::Section kSections[] = {
    {"controller", "The stage's controller."},
    {"second_controller",
     "Another controller, where the axes are not of one. Read only where an axis names it."},
    {"third_controller", "The same, where each axis has one of its own."},
    {"x", "Which axis follows a correction's x, and how far it may go."},
    {"y", "Which axis follows a correction's y, and how far it may go."},
    {"z",
     "Which axis follows a correction's z, and how far it may go. Read only where motion.axes has "
     "it. z is up along the optical axis, the sample's; driftd's axial.stage.gain says which way "
     "the stage goes."},
    {"motion", "Which axes there are. How often the controller is told and asked."},
    {"connection", "What happens without the controller."},
    {"daemon", "The sockets of driftd; the same kinds of address as in its `wire`."},
    {"realtime", "How the thread that moves the stage is scheduled."},
    {"log", "What goes to the journal."},
};

using Conflicts = std::vector<Conflict>;

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

void check_controller(const std::string& section, const Controller& controller,
                      Conflicts& conflicts) {
  if (controller.driver == "none")
    conflicts.push_back({{section + ".driver"}, "none", "the kind of controller"});
  // A vendor's library may find its controller itself.
  const bool may_lack = controller.driver == "library" || controller.driver == "program";
  if (controller.device.empty() && !may_lack)
    conflicts.push_back({{section + ".device"}, "nothing", "where the controller is"});
  if ((controller.driver == "library") == controller.library.empty()) {
    conflicts.push_back({{section + ".library", section + ".driver"},
                         quoted(controller.library) + " with driver " + controller.driver,
                         "a file with driver library, and with no other"});
  }
  const bool program = controller.driver == "program";
  if (program ? controller.command.empty() == controller.device.empty()
              : !controller.command.empty()) {
    conflicts.push_back({{section + ".command", section + ".device", section + ".driver"},
                         quoted(controller.command) + " with device " + quoted(controller.device) +
                             " and driver " + controller.driver,
                         "a command or the device `unix:/PATH` with driver program, and no command "
                         "with any other"});
  }
}

void check_axis(const std::string& section, const AxisSettings& axis, Conflicts& conflicts) {
  if (axis.axis.empty())
    conflicts.push_back({{section + ".axis"}, "nothing", "the controller's name of the axis"});
  if (axis.min_nm >= axis.max_nm) {
    conflicts.push_back({{section + ".min_nm", section + ".max_nm"},
                         yaml::format_real(axis.min_nm) + " nm with " + section + ".max_nm " +
                             yaml::format_real(axis.max_nm),
                         "less than " + section + ".max_nm"});
  }
  if (axis.step_limit_nm > axis.range_limit_nm) {
    conflicts.push_back({{section + ".step_limit_nm", section + ".range_limit_nm"},
                         yaml::format_real(axis.step_limit_nm) + " nm with " + section +
                             ".range_limit_nm " + yaml::format_real(axis.range_limit_nm),
                         "at most " + section + ".range_limit_nm"});
  }
}

void check_endpoint(const char* key, const std::string& endpoint, Conflicts& conflicts) {
  auto allowed = config::refused_endpoint(endpoint, false);
  if (!allowed && endpoint.ends_with(":*")) allowed = "a port, as driftd's log says it";
  // Corrections expire by the clock of the daemon's computer.
  if (allowed) allowed = allowed->substr(0, allowed->find(';')) + ", on the daemon's own computer";
  if (allowed) conflicts.push_back({{key}, quoted(endpoint), *std::move(allowed)});
}

/// Each axis in use is of a controller that is described, and no two are one.
void check_controllers(const Config& config, const std::string& letters, Conflicts& conflicts) {
  const auto is_used = [&](Which which) {
    return std::ranges::any_of(
        letters, [&](char letter) { return settings_of(config, letter).controller == which; });
  };
  check_controller("controller", config.controller, conflicts);
  if (is_used(Which::Second))
    check_controller("second_controller", config.second_controller, conflicts);
  if (is_used(Which::Third))
    check_controller("third_controller", config.third_controller, conflicts);
  const bool gap = is_used(Which::Third) && !is_used(Which::Second);
  if (is_used(Which::First) && !gap) return;
  std::vector<std::string> keys;
  for (const char letter : letters) keys.push_back(std::string(1, letter) + ".controller");
  const std::string missing = is_used(Which::First) ? "second" : "first";
  conflicts.push_back({std::move(keys), "no axis of the " + missing + " controller",
                       missing + " for one of them or more"});
}

void check_axes_differ(const Config& config, const std::string& letters, Conflicts& conflicts) {
  for (std::size_t i = 0; i < letters.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const AxisSettings& axis = settings_of(config, letters[i]);
      const AxisSettings& before = settings_of(config, letters[j]);
      // Two lines with a comma between are one controller of equal units.
      const bool one_line =
          controller_of(config, axis.controller).device.find(',') == std::string::npos;
      if (axis.controller != before.controller || axis.axis != before.axis || !one_line) continue;
      const std::string key = std::string(1, letters[i]) + ".axis";
      const std::string other = std::string(1, letters[j]) + ".axis";
      conflicts.push_back(
          {{key, other}, quoted(axis.axis) + ", as " + other, "an axis of its own"});
    }
  }
}

/// Nobody but who set up the microscope knows where the cover glass is.
void check_ends_of_z(const Config& config, Conflicts& conflicts) {
  if (controller_of(config, config.z.controller).driver == "simulator") return;
  if (config.z.min_nm > -kMetre_nm && config.z.max_nm < kMetre_nm) return;
  conflicts.push_back({{"z.min_nm", "z.max_nm"},
                       yaml::format_real(config.z.min_nm) + " nm with z.max_nm " +
                           yaml::format_real(config.z.max_nm),
                       "both ends of where z may be sent, off the cover glass"});
}

Conflicts find_conflicts(const Config& config) {
  Conflicts conflicts;
  const std::string letters = letters_of(config.motion.axes);
  check_controllers(config, letters, conflicts);
  for (const char letter : letters)
    check_axis(std::string(1, letter), settings_of(config, letter), conflicts);
  check_axes_differ(config, letters, conflicts);
  if (letters.ends_with('z')) check_ends_of_z(config, conflicts);
  const Connection& connection = config.connection;
  if (connection.reconnect_min_ms > connection.reconnect_max_ms) {
    conflicts.push_back({{"connection.reconnect_min_ms", "connection.reconnect_max_ms"},
                         std::to_string(connection.reconnect_min_ms) + " ms",
                         "at most connection.reconnect_max_ms"});
  }
  check_endpoint("daemon.corrections", config.daemon.corrections, conflicts);
  check_endpoint("daemon.commands", config.daemon.commands, conflicts);
  return conflicts;
}

}  // namespace

const config::Table& table() {
  static const config::Table table = {.title = "driftd-stage configuration",
                                      .options = rows(),
                                      .sections = kSections,
                                      .reloads = false,
                                      .find_conflicts = [](const config::Settings& settings) {
                                        return find_conflicts(static_cast<const Config&>(settings));
                                      }};
  return table;
}

namespace {

/// Whoever describes an axis of z wants it moved. @throws ConfigError where it would not be
void check_z_is_in_use(const Config& config, const config::Origins& origins) {
  const auto given = origins.lower_bound("z.");
  if (origins.contains("motion.axes") || given == origins.end() || !given->first.starts_with("z."))
    return;
  const config::Given& first = given->second.back();
  throw config::ConfigError(
      fmt::format("{}:{}: {} is given, and motion.axes, which is {} by default, leaves z out: set "
                  "motion.axes to xyz or z, or leave the section z out",
                  first.name, first.line, given->first, letters_of(config.motion.axes)));
}

}  // namespace

Config load_text(const std::string& text, const std::string& name) {
  Config config{};
  check_z_is_in_use(config,
                    config::read_texts(table(), std::array{config::Text{name, text}}, config));
  return config;
}

Config load(const std::filesystem::path& file, config::Origins* origins) {
  Config config{};
  config::Origins found = config::read_texts(table(), config::texts_of(file), config);
  check_z_is_in_use(config, found);
  if (origins != nullptr) *origins = std::move(found);
  return config;
}

std::string letters_of(Axes axes) {
  return axes == Axes::Z ? "z" : axes == Axes::Xyz ? "xyz" : "xy";
}

const AxisSettings& settings_of(const Config& config, char letter) {
  return letter == 'x' ? config.x : letter == 'y' ? config.y : config.z;
}

const Controller& controller_of(const Config& config, Which which) {
  return which == Which::First    ? config.controller
         : which == Which::Second ? config.second_controller
                                  : config.third_controller;
}

const Controller& controller_of(const Config& config, std::string_view letters) {
  Which first = Which::Third;
  for (const char letter : letters) first = std::min(first, settings_of(config, letter).controller);
  return controller_of(config, first);
}

std::vector<Config> parts_of(const Config& config) {
  const bool z_apart = config.motion.axes == Axes::Xyz &&
                       config.z.controller != config.x.controller &&
                       config.z.controller != config.y.controller;
  if (!z_apart) return {config};
  std::vector<Config> parts(2, config);
  parts[0].motion.axes = Axes::Xy;
  parts[1].motion.axes = Axes::Z;
  return parts;
}

StageOptions options_of(const Controller& controller, std::vector<std::string> axes) {
  return {.driver = controller.driver,
          .device = controller.device,
          .axes = std::move(axes),
          .baud = controller.baud,
          .library = controller.library,
          .command = controller.command,
          .switch_servo_on = controller.switch_servo_on,
          .timeout_ms = controller.timeout_ms,
          .start_timeout_ms = controller.start_timeout_ms};
}

}  // namespace driftd::stage
