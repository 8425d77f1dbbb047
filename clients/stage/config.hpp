// SPDX-License-Identifier: MIT
// The configuration of driftd-stage as plain structs, one per YAML section, and the option table
// that they are read, printed and documented by (config/table.hpp). Made once at start; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "clients/stage/interface/stage.hpp"
#include "config/config.hpp"
#include "config/table.hpp"

namespace driftd::stage {

/// Which controller an axis belongs to.
enum class Which : std::uint8_t { First, Second };

/// Sections controller and second_controller.
struct Controller {
  std::string driver, device;
  int baud;
  std::string library, command;
  bool switch_servo_on;
  int timeout_ms, start_timeout_ms;
};

/// Sections x and y. Lengths are on the controller's axis.
struct AxisSettings {
  Which controller;
  std::string axis;  ///< as the controller calls it
  bool reversed;
  double scale;  ///< nm on the controller's axis for 1 nm of correction
  double min_nm, max_nm;
  double step_limit_nm, rate_limit_nm_per_s, range_limit_nm;
};

struct Motion {
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
  Controller controller, second_controller;
  AxisSettings x, y;
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

/// What the driver of one controller is told.
StageOptions options_of(const Controller& controller, std::vector<std::string> axes);

}  // namespace driftd::stage

namespace driftd::config {

template <>
inline constexpr auto kNames<stage::Which> = std::to_array<Named<stage::Which>>({
    {"first", stage::Which::First},
    {"second", stage::Which::Second},
});

}  // namespace driftd::config
