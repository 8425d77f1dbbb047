// SPDX-License-Identifier: MIT
// The schema says what the loader does, as far as a schema can: types, ranges, names.
#include <cmath>

#include "base/yaml/scalar.hpp"
#include "config/options.hpp"
#include "mistakes_of.hpp"
#include "random_config.hpp"
#include "schema_validator.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

/// A file with this one key. Its list and matrix values are YAML in flow style.
std::string file_with(const Option& option, const std::string& value) {
  return test::file_with(option, std::string(option.name()) + ": " + value);
}

/// Values of the wrong type, or out of range, for the option.
std::vector<std::string> wrong_values(const Option& option) {
  const Rules& rules = option.rules;
  std::vector<std::string> wrong = {"{a: 1}", "[[[]]]"};
  const bool whole = std::holds_alternative<int>(option.fallback);
  if (whole || std::holds_alternative<double>(option.fallback)) {
    wrong.insert(wrong.end(), {"fast", "\"12\"", "true", "[1]"});
    wrong.push_back(yaml::format_real(rules.min - 1));
    wrong.push_back(yaml::format_real(rules.max + 1));
    if (whole) wrong.push_back(yaml::format_real(rules.min + 0.5));
    if (rules.above_min) wrong.push_back(yaml::format_real(rules.min));
  } else if (std::holds_alternative<bool>(option.fallback)) {
    wrong.insert(wrong.end(), {"yes", "1", "\"true\""});
  } else if (std::holds_alternative<Matrix2>(option.fallback)) {
    wrong.insert(wrong.end(),
                 {"1", "[1, 0, 0, 1]", "[[1, 0]]", "[[1, 0], [0]]", "[[1, 0], [0, 11]]",
                  "[[1, 0], [0, x]]", "[[1, 0], [0, 1], [0, 0]]"});
  } else if (std::holds_alternative<std::vector<ListedMarker>>(option.fallback)) {
    wrong.insert(wrong.end(),
                 {"1", "[1]", "[{id: 1}]", "[{id: 1, x_px: 9, y_px: 9, z_px: 9}]",
                  "[{id: 0, x_px: 9, y_px: 9}]", "[{id: 1, x_px: -1, y_px: 9}]",
                  "[{id: 1.5, x_px: 9, y_px: 9}]", "[{id: 1, x_px: 9, y_px: 9, role: boss}]"});
  } else if (std::holds_alternative<Endpoints>(option.fallback)) {
    wrong.insert(wrong.end(), {"[]", "[1, [2]]", "[a, b, c, d, e, f, g, h, i]"});
  } else if (!rules.choices.empty()) {
    wrong.insert(wrong.end(), {"nonsense", "12", "\"\""});
  }
  return wrong;
}

}  // namespace

TEST_CASE("the examples are valid by the schema", "[config]") {
  const test::SchemaValidator schema;
  for (const char* name : {"simulator", "gige", "usb3", "replay"}) {
    INFO(name);
    CHECK(schema.accepts(test::project_file("config/examples/" + std::string(name) + ".yaml")));
  }
}

TEST_CASE("an empty file and an empty section are valid by the schema", "[config]") {
  const test::SchemaValidator schema;
  CHECK(schema.accepts("# nothing\n"));
  CHECK(schema.accepts("camera:\n  # exposure_us: 1\n"));
}

TEST_CASE("the schema accepts what to_yaml prints", "[config]") {
  const test::SchemaValidator schema;
  test::Random random(6);
  for (int i = 0; i < 50; ++i) {
    const std::string text = to_yaml(test::random_config(random));
    INFO(text);
    REQUIRE(schema.accepts(text));
  }
}

TEST_CASE("schema and loader refuse the same wrong values of every option", "[config]") {
  const test::SchemaValidator schema;
  for (const Option& option : options()) {
    for (const std::string& value : wrong_values(option)) {
      const std::string text = file_with(option, value);
      INFO(text);
      CHECK_FALSE(schema.accepts(text));
      const std::string report = test::mistakes_of(text);
      const bool named = report.find(": " + std::string(option.key)) != std::string::npos;
      CHECK(named);
    }
  }
}

TEST_CASE("schema and loader accept both ends of every range", "[config]") {
  const test::SchemaValidator schema;
  for (const Option& option : options()) {
    const bool whole = std::holds_alternative<int>(option.fallback);
    if (!whole && !std::holds_alternative<double>(option.fallback)) continue;
    const Rules& rules = option.rules;
    const double least = rules.above_min ? std::nextafter(rules.min, rules.max) : rules.min;
    for (const double value : {least, rules.max}) {
      const std::string text = file_with(option, yaml::format_real(value));
      INFO(text);
      CHECK(schema.accepts(text));
      // The loader may find a combination that makes no sense, but no fault with the value.
      const bool in_itself =
          test::mistakes_of(text).find("; allowed " + allowed(option)) == std::string::npos;
      CHECK(in_itself);
    }
  }
}

TEST_CASE("the schema refuses unknown sections, keys and shapes", "[config]") {
  const test::SchemaValidator schema;
  CHECK_FALSE(schema.accepts("cammera: {}\n"));
  CHECK_FALSE(schema.accepts("camera: {exposre_us: 1}\n"));
  CHECK_FALSE(schema.accepts("camera: 7\n"));
  CHECK_FALSE(schema.accepts("- camera\n"));
}

}  // namespace driftd::config
