// SPDX-License-Identifier: MIT
#include "clients/stage/config.hpp"

#include <array>
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
                   "`none`: there is none; allowed of the second controller alone.",
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
                   "second_controller."}),
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

template <auto Section>
std::vector<Option> axis_limit_rows(const std::string& section) {
  const auto key = [&](const char* name) { return section + '.' + name; };
  return {
      row<Section, &AxisSettings::min_nm>(
          key("min_nm"), -kMetre_nm,
          {.text = "Lowest place that the stage is sent to, on the controller's axis. The "
                   "controller's own travel holds as well.",
           .unit = "nm",
           .min = -kMetre_nm,
           .max = kMetre_nm}),
      row<Section, &AxisSettings::max_nm>(key("max_nm"), kMetre_nm,
                                          {.text = "Highest place that the stage is sent to.",
                                           .unit = "nm",
                                           .min = -kMetre_nm,
                                           .max = kMetre_nm}),
      row<Section, &AxisSettings::step_limit_nm>(
          key("step_limit_nm"), 100,
          {.text = "Longest single move, on the controller's axis. A controller that is slower "
                   "than the corrections takes several of the daemon's steps at once: so many "
                   "times control.step_limit_nm of driftd.",
           .unit = "nm",
           .min = 0,
           .max = 1'000'000,
           .above_min = true}),
      row<Section, &AxisSettings::rate_limit_nm_per_s>(
          key("rate_limit_nm_per_s"), 10'000,
          {.text = "Longest move, for the time since the move before it.",
           .unit = "nm/s",
           .min = 0,
           .max = 10'000'000,
           .above_min = true}),
      row<Section, &AxisSettings::range_limit_nm>(
          key("range_limit_nm"), 10'000,
          {.text = "Farthest from where the stage was when the lock engaged. Not less than "
                   "control.range_limit_nm of driftd, times the scale.",
           .unit = "nm",
           .min = 0,
           .max = kMetre_nm,
           .above_min = true}),
  };
}

std::vector<Option> motion_rows() {
  return {
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
              axis_mapping_rows<&Config::x>("x", "1"), axis_limit_rows<&Config::x>("x"),
              axis_mapping_rows<&Config::y>("y", "2"), axis_limit_rows<&Config::y>("y"),
              motion_rows(), service_rows()});
  return rows;
}

constexpr config::Section kSections[] = {
    {"controller", "The stage's controller."},
    {"second_controller",
     "Another controller, where x and y are not of one. Read only where an axis names it."},
    {"x", "Which axis follows a correction's x, and how far it may go."},
    {"y", "Which axis follows a correction's y, and how far it may go."},
    {"motion", "How often the controller is told and asked."},
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

Conflicts find_conflicts(const Config& config) {
  Conflicts conflicts;
  check_controller("controller", config.controller, conflicts);
  const bool both = config.x.controller == config.y.controller;
  if (!both) check_controller("second_controller", config.second_controller, conflicts);
  if (both && config.x.controller == Which::Second) {
    conflicts.push_back({{"x.controller", "y.controller"},
                         "second for both axes",
                         "first for one of them or both"});
  }
  check_axis("x", config.x, conflicts);
  check_axis("y", config.y, conflicts);
  // Two lines with a comma between are one controller of two equal units.
  const bool one_line = config.controller.device.find(',') == std::string::npos;
  if (both && one_line && config.x.axis == config.y.axis) {
    conflicts.push_back(
        {{"y.axis", "x.axis"}, quoted(config.y.axis) + ", as x.axis", "an axis of its own"});
  }
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

Config load_text(const std::string& text, const std::string& name) {
  Config config{};
  config::read_texts(table(), std::array{config::Text{name, text}}, config);
  return config;
}

Config load(const std::filesystem::path& file, config::Origins* origins) {
  Config config{};
  config::Origins found = config::read_texts(table(), config::texts_of(file), config);
  if (origins != nullptr) *origins = std::move(found);
  return config;
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
