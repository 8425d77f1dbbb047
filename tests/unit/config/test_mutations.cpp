// SPDX-License-Identifier: MIT
// The loader on damaged files: it loads or throws ConfigError, whatever the bytes.
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "config/options.hpp"
#include "random_config.hpp"
#include "schema_validator.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

std::vector<std::string> examples() {
  std::vector<std::string> texts;
  for (const char* name : {"simulator", "gige", "usb3", "replay"}) {
    texts.push_back(test::project_file("config/examples/" + std::string(name) + ".yaml"));
  }
  return texts;
}

std::size_t below(std::size_t count, test::Random& random) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

/// One random edit of the kind that slips, tools and broken disks make.
void mutate(std::string& text, const std::vector<std::string>& others, test::Random& random) {
  static const std::array<std::string, 30> tokens = {
      ":",    ": ",   "- ",    "[",     "]",     "{",      "}",      "\"",
      "'",    "\n",   "\t",    "#",     "&a ",   "*a",     "<<: *a", "!!binary ",
      "|\n",  ">-\n", "---\n", "...\n", "? ",    "%YAML ", "@",      "\xEF\xBB\xBF",
      "\xFF", "\\x",  "~",     ".nan",  "1e999", "-0"};
  if (text.empty()) text.push_back('x');
  const std::size_t at = below(text.size(), random);
  const std::size_t length = std::min(text.size() - at, below(40, random) + 1);
  switch (below(6, random)) {
    case 0:
      text[at] = static_cast<char>(below(256, random));
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, tokens[below(tokens.size(), random)]);
      break;
    case 3:
      text.insert(below(text.size(), random), text.substr(at, length));
      break;
    case 4:
      text.resize(at);
      break;
    default: {
      const std::string& other = others[below(others.size(), random)];
      const std::size_t from = below(other.size(), random);
      text.insert(at, other.substr(from, below(200, random)));
    }
  }
}

/// Every line of a report names the file and a place in it.
bool is_report(const std::string& report) {
  std::size_t start = 0;
  while (true) {
    const std::size_t end = report.find('\n', start);
    const std::string line = report.substr(start, end - start);
    if (!line.starts_with("f:") || line.find(": ") == std::string::npos) return false;
    if (end == std::string::npos) return true;
    start = end + 1;
  }
}

}  // namespace

TEST_CASE("a damaged file loads or is refused with a report", "[config]") {
  const std::vector<std::string> originals = examples();
  const test::SchemaValidator schema;
  test::Random random(7);
  int loaded = 0;
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = originals[below(originals.size(), random)];
    const std::size_t edits = 1 + below(4, random);
    for (std::size_t edit = 0; edit < edits; ++edit) mutate(text, originals, random);
    INFO(text);
    try {
      const Config config = load_text(text, "f");
      ++loaded;
      // What the loader takes, it can print and take again, and an editor does not underline.
      REQUIRE(test::differences(config, load_text(to_yaml(config), "f")).empty());
      REQUIRE(schema.accepts(text));
    } catch (const ConfigError& error) {
      ++refused;
      INFO(error.what());
      REQUIRE(is_report(error.what()));
    }
  }
  // Both outcomes were tried often: an edit of a comment loads, most others do not.
  CHECK(loaded > 200);
  CHECK(refused > 1000);
}

TEST_CASE("hostile YAML neither overflows the stack nor runs away", "[config]") {
  for (const char* open : {"[", "{", "- ", "a: {", "? ", "!!x "}) {
    std::ostringstream deep;
    for (int i = 0; i < 100000; ++i) deep << open;
    INFO(open);
    CHECK_THROWS_AS(load_text(deep.str(), "f"), ConfigError);
  }
  CHECK_THROWS_AS(load_text("&a [*a, *a]\n", "f"), ConfigError);
  CHECK_THROWS_AS(load_text("camera: &a {id: *a}\n", "f"), ConfigError);
  std::ostringstream laughs;
  laughs << "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    laughs << 'a' << i << ": &a" << i << " [*a" << i - 1 << ", *a" << i - 1 << "]\n";
  }
  CHECK_THROWS_AS(load_text(laughs.str(), "f"), ConfigError);
  CHECK_THROWS_AS(load_text(std::string("camera: {id: a\0b}\n", 18), "f"), ConfigError);
}

}  // namespace driftd::config
