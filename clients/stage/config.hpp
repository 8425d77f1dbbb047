// SPDX-License-Identifier: MIT
// The configuration of driftd-stage as plain structs, one per YAML section, and the option table
// that they are read, printed and documented by (config/table.hpp). Made once at start; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "clients/stage/interface/stage.hpp"
#include "config/config.hpp"
#include "config/table.hpp"

namespace driftd::stage {

/// Which controller an axis belongs to.
enum class Which : std::uint8_t { First, Second, Third };

/// Which of the sections x, y and z are in use.
enum class Axes : std::uint8_t { Xy, Xyz, Z };

/// Sections controller, second_controller and third_controller.
struct Controller {
  std::string driver, device;
  int baud;
  std::string library, command;
  bool switch_servo_on;
  int timeout_ms, start_timeout_ms;
};

/// Sections x, y and z. Lengths are on the controller's axis.
struct AxisSettings {
  Which controller;
  std::string axis;  ///< as the controller calls it
  bool reversed;
  double scale;  ///< nm on the controller's axis for 1 nm of correction
  double min_nm, max_nm;
  double step_limit_nm, rate_limit_nm_per_s, range_limit_nm;
};

struct Motion {
  Axes axes;
  double max_rate_hz;
  int position_interval_ms, health_interval_ms;
};

struct Connection {
  bool start_without_controller;
  int reconnect_min_ms, reconnect_max_ms;
};

struct Daemon {
  std::string corrections, commands;
};

struct Scheduling {
  config::RealTimeMode mode;
  int priority, cpu;
};

struct Log {
  config::LogLevel level;
};

struct Config : config::Settings {
  Controller controller, second_controller, third_controller;
  AxisSettings x, y, z;
  Motion motion;
  Connection connection;
  Daemon daemon;
  Scheduling realtime;
  Log log;
};

const config::Table& table();

/// Reads, checks and merges a file and its drop-ins over the defaults. @throws config::ConfigError
Config load(const std::filesystem::path& file, config::Origins* origins = nullptr);
/// The same from text; `name` stands for the file in messages.
Config load_text(const std::string& text, const std::string& name);

/// The axes in use, a letter each, in their order.
std::string letters_of(Axes axes);
const AxisSettings& settings_of(const Config& config, char letter);
const Controller& controller_of(const Config& config, Which which);
/// The first of the controllers that these axes are of.
const Controller& controller_of(const Config& config, std::string_view letters);

/// The configuration in parts whose controllers have nothing to do with one another: each is
/// driven, and told of, by itself. One part, or x and y beside a z that has a controller of its
/// own.
std::vector<Config> parts_of(const Config& config);

/// What the driver of one controller is told.
StageOptions options_of(const Controller& controller, std::vector<std::string> axes);

}  // namespace driftd::stage

namespace driftd::config {

template <>
inline constexpr auto kNames<stage::Which> = std::to_array<Named<stage::Which>>({
    {"first", stage::Which::First},
    {"second", stage::Which::Second},
    {"third", stage::Which::Third},
});

template <>
inline constexpr auto kNames<stage::Axes> = std::to_array<Named<stage::Axes>>({
    {"xy", stage::Axes::Xy},
    {"xyz", stage::Axes::Xyz},
    {"z", stage::Axes::Z},
});

}  // namespace driftd::config
