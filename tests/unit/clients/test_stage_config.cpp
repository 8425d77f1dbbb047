// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "clients/stage/config.hpp"
#include "clients/stage/program.hpp"
#include "config/documentation.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

namespace driftd::stage {
namespace {

const std::filesystem::path kRoot = driftd::test::source_dir();
const std::string kController = "controller: {driver: simulator, device: /tmp/s}\n";

std::string text_of(const std::string& path) {
  std::ifstream in(kRoot / path, std::ios::binary);
  INFO(path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string mistakes_of(const std::string& text) {
  try {
    load_text(text, "f");
    return "";
  } catch (const config::ConfigError& error) {
    return error.what();
  }
}

/// Another value of the same type.
struct Other {
  const config::Option& option;
  config::Value operator()(bool value) const { return !value; }
  config::Value operator()(int value) const { return value + 1; }
  config::Value operator()(double value) const { return value + 1; }
  config::Value operator()(const std::string& value) const {
    for (const std::string_view choice : option.rules.choices)
      if (choice != value) return std::string(choice);
    return value + "o";
  }
  template <typename T>
  config::Value operator()(const T& value) const {
    return value;
  }
};

}  // namespace

TEST_CASE("the committed schema and page are those of driftd-stage's table", "[stage]") {
  INFO("ninja -C BUILD config-docs brings them up to date");
  const bool schema = text_of("config/driftd-stage.schema.json") == config::schema_json(table());
  CHECK(schema);
  const std::string page = text_of("docs/reference/stage-configuration.md");
  const bool reference = config::with_reference(table(), page) == page;
  CHECK(reference);
  for (const config::Option& option : table().options) {
    INFO(option.key);
    CHECK(page.find("\n| `" + option.key + "` | ") != std::string::npos);
  }
}

TEST_CASE("every option has a section, a text and a name of its own", "[stage]") {
  std::set<std::string> keys;
  for (const config::Option& option : table().options) {
    INFO(option.key);
    CHECK(keys.insert(option.key).second);
    CHECK(option.rules.text.ends_with('.'));
    CHECK(std::ranges::count(table().sections, option.section(), &config::Section::name) == 1);
  }
}

TEST_CASE("driftd-stage's file is read, printed and read again", "[stage]") {
  const Config config =
      load_text(kController +
                    "x: {axis: \"3\", reversed: true, scale: 2.5, min_nm: -7}\n"
                    "y: {axis: A}\nmotion: {max_rate_hz: 250}\nrealtime: {mode: require}\n",
                "f");
  CHECK(config.controller.device == "/tmp/s");
  CHECK(config.x.axis == "3");
  CHECK(config.x.reversed);
  CHECK(config.x.scale == 2.5);
  CHECK(config.x.min_nm == -7);
  CHECK(config.y.axis == "A");
  CHECK(config.y.scale == 1);
  CHECK(config.motion.max_rate_hz == 250);
  CHECK(config.realtime.mode == config::RealTimeMode::Require);
  CHECK(config.daemon.corrections == "ipc://corrections");
  const std::string printed = config::to_yaml(table(), config);
  const Config again = load_text(printed, "printed");
  for (const config::Option& option : table().options) {
    INFO(option.key);
    const bool same = option.get(config) == option.get(again);
    CHECK(same);
    CHECK(printed.find("  " + std::string(option.name()) + ": ") != std::string::npos);
  }
}

TEST_CASE("each option stands for a field of its own", "[stage]") {
  const Config first = load_text(kController, "f");
  for (const config::Option& option : table().options) {
    Config changed = first;
    option.set(changed, std::visit(Other{option}, option.get(first)));
    for (const config::Option& other : table().options) {
      INFO(option.key << " and " << other.key);
      const bool same = other.get(first) == other.get(changed);
      CHECK(same == (other.key != option.key));
    }
  }
}

TEST_CASE("what makes no sense for a stage is a mistake", "[stage]") {
  CHECK(mistakes_of("") ==
        "f:1:1: controller.driver: found none; allowed the kind of controller\n"
        "f:1:1: controller.device: found nothing; allowed where the controller is");
  // What it lacks because it is no YAML is not told.
  CHECK(mistakes_of("controller: {driver: \"\\_\"}\n") ==
        "f:1:22: found an escape that makes no text; allowed text in UTF-8");
  CHECK(mistakes_of("controller: {\n").starts_with("f:2:1: not valid YAML: "));
  CHECK(mistakes_of(kController) == "");
  CHECK(mistakes_of("controller: {driver: pi, device: a}\n").find("allowed one of none, pi_gcs2") !=
        std::string::npos);
  CHECK(mistakes_of("controller: {driver: library, device: a}\n") ==
        "f:1:22: controller.library: found \"\" with driver library; allowed a file with driver "
        "library, and with no other");
  CHECK(mistakes_of(kController + "x: {min_nm: 5, max_nm: 5}\n") ==
        "f:2:13: x.min_nm: found 5 nm with x.max_nm 5; allowed less than x.max_nm");
  CHECK(mistakes_of(kController + "y: {step_limit_nm: 30, range_limit_nm: 20}\n") ==
        "f:2:20: y.step_limit_nm: found 30 nm with y.range_limit_nm 20; allowed at most "
        "y.range_limit_nm");
  CHECK(mistakes_of(kController + "y: {axis: \"1\"}\n") ==
        "f:2:11: y.axis: found \"1\", as x.axis; allowed an axis of its own");
  CHECK(mistakes_of("controller: {driver: thorlabs_apt, device: \"/dev/a, /dev/b\"}\n"
                    "y: {axis: \"1\"}\n") == "");
  CHECK(mistakes_of("controller: {driver: library, library: libmadlib.so}\n") == "");
  CHECK(mistakes_of("controller: {driver: program, command: python3 stage.py}\n") == "");
  CHECK(mistakes_of("controller: {driver: program, device: \"unix:/run/s\"}\n") == "");
  CHECK(mistakes_of("controller: {driver: program}\n") ==
        "f:1:22: controller.command: found \"\" with device \"\" and driver program; allowed a "
        "command or the device `unix:/PATH` with driver program, and no command with any other");
  CHECK(mistakes_of("controller: {driver: program, command: a, device: \"unix:/run/s\"}\n") != "");
  CHECK(mistakes_of("controller: {driver: asi, command: a, device: /dev/ttyS0}\n") != "");
  CHECK(mistakes_of(kController + "y: {axis: \"1\", controller: second}\n")
            .find("second_controller.driver: found none") != std::string::npos);
  CHECK(mistakes_of(kController + "y: {axis: \"1\", controller: second}\n"
                                  "second_controller: {driver: asi, device: /dev/ttyS0}\n") == "");
  CHECK(mistakes_of(kController + "x: {controller: second}\ny: {controller: second}\n") != "");
  CHECK(mistakes_of(kController + "connection: {reconnect_min_ms: 6000}\n") != "");
  CHECK(mistakes_of(kController + "daemon: {corrections: \"tcp://127.0.0.1:*\"}\n") != "");
  CHECK(mistakes_of(kController + "daemon: {commands: \"tcp://*:5\"}\n") != "");
  CHECK(mistakes_of(kController + "x: {reverse: true}\n") ==
        "f:2:5: x.reverse: found an unknown key; did you mean x.reversed?");
  CHECK(mistakes_of(kController + "x: {scale: 0}\n") ==
        "f:2:12: x.scale: found 0; allowed a number above 0 up to 1000");
}

TEST_CASE("z is read where it is in use, and wants its ends", "[stage]") {
  const std::string ends = "z: {min_nm: 10, max_nm: 100000}\n";
  const std::string asi = "controller: {driver: asi, device: /dev/ttyS0}\n";
  CHECK(mistakes_of(kController + "motion: {axes: xyz}\n") == "");  // the simulator's
  CHECK(mistakes_of(asi + "z: {axis: \"1\"}\n") ==
        "f:2: z.axis is given, and motion.axes, which is xy by default, leaves z out: set "
        "motion.axes to xyz or z, or leave the section z out");
  CHECK(mistakes_of(asi + "motion: {axes: xy}\nz: {axis: \"1\"}\n") == "");
  CHECK(
      mistakes_of(asi + "motion: {axes: z}\nz: {max_nm: 5}\n") ==
      "f:3:13: z.min_nm: found -1000000000 nm with z.max_nm 5; allowed both ends of where z may be "
      "sent, off the cover glass");
  CHECK(mistakes_of(asi + "motion: {axes: xyz}\n" + ends) == "");
  CHECK(mistakes_of(asi + "motion: {axes: z}\n" + ends) == "");
  CHECK(mistakes_of(asi + "motion: {axes: xyz}\nz: {min_nm: 10, max_nm: 100, axis: \"2\"}\n") ==
        "f:3:36: z.axis: found \"2\", as y.axis; allowed an axis of its own");
  CHECK(mistakes_of(asi + "motion: {axes: z}\nz: {min_nm: 1, max_nm: 9, controller: second}\n")
            .find("z.controller: found no axis of the first controller") != std::string::npos);
  CHECK(mistakes_of(asi + "motion: {axes: xyz}\nz: {min_nm: 1, max_nm: 9, controller: third}\n")
            .find("third_controller.driver: found none") != std::string::npos);
  CHECK(load_text(kController, "f").z.range_limit_nm == 2000);
}

TEST_CASE("the drivers of the table are those that there are", "[stage]") {
  const auto option = std::ranges::find(table().options, "controller.driver", &config::Option::key);
  REQUIRE(option != table().options.end());
  std::set<std::string> told;  // `none` is no driver
  for (const std::string_view driver : option->rules.choices)
    if (driver != "none") told.emplace(driver);
  std::set<std::string> there;
  try {
    StageOptions options;
    options.driver = "none";
    make_stage(options);
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    const std::string before = "expected one of ";
    REQUIRE(text.find(before) != std::string::npos);
    std::istringstream names(text.substr(text.find(before) + before.size()));
    for (std::string name; std::getline(names >> std::ws, name, ',');) there.insert(name);
  }
  CHECK(told == there);
}

TEST_CASE("a limit of driftd's passes the default limits of its stage", "[stage]") {
  const config::Config daemon = config::default_config();
  const Config stage = load_text(kController, "f");
  for (const AxisSettings& axis : {stage.x, stage.y}) {
    CHECK(axis.step_limit_nm > daemon.control.step_limit_nm);
    CHECK(axis.rate_limit_nm_per_s > daemon.control.rate_limit_nm_per_s);
    CHECK(axis.range_limit_nm > daemon.control.range_limit_nm);
  }
}

TEST_CASE("every example of a stage loads", "[stage]") {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "clients/stage/examples")) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    Config config{};
    CHECK_NOTHROW(config = load(entry.path()));
    CHECK_NOTHROW(make_stage(config));  // the driver takes its options, too
    const bool has_schema = text_of("clients/stage/examples/" + name)
                                .starts_with(
                                    "# yaml-language-server: "
                                    "$schema=../../../config/driftd-stage.schema.json\n");
    CHECK(has_schema);
    ++examples;
  }
  CHECK(examples >= 5);
}

}  // namespace driftd::stage
