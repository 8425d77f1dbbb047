// SPDX-License-Identifier: MIT
#include "config/documentation.hpp"
#include "config/options.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"

namespace driftd::config {

TEST_CASE("the committed schema is that of the option table", "[config]") {
  const bool up_to_date = test::project_file("config/driftd.schema.json") == schema_json(table());
  INFO("ninja -C BUILD config-docs brings it up to date");
  CHECK(up_to_date);
}

TEST_CASE("the reference page is that of the option table", "[config]") {
  const std::string page = test::project_file("docs/reference/configuration.md");
  const bool up_to_date = with_reference(table(), page) == page;
  INFO("ninja -C BUILD config-docs brings it up to date");
  CHECK(up_to_date);
}

TEST_CASE("a drifted page is told from an up-to-date one", "[config]") {
  const std::string page = test::project_file("docs/reference/configuration.md");
  std::string drifted = page;
  const std::size_t at = drifted.find("| `fitter.roi_px` | `auto`");
  REQUIRE(at != std::string::npos);
  drifted.replace(at, 26, "| `fitter.roi_px` | `15`");
  CHECK(drifted != page);
  CHECK(with_reference(table(), drifted) == page);
  CHECK_FALSE(with_reference(table(), "# a page without the two lines\n"));
}

TEST_CASE("the reference has a row for every option", "[config]") {
  const std::string text = reference_markdown(table());
  for (const Option& option : options()) {
    INFO(option.key);
    const bool there = text.find("\n| `" + std::string(option.key) + "` | ") != std::string::npos;
    CHECK(there);
  }
  for (const ListKey& list_key : marker_keys()) {
    INFO(list_key.name);
    const bool there =
        text.find("\n| `" + std::string(list_key.name) + "` | ") != std::string::npos;
    CHECK(there);
  }
}

TEST_CASE("the examples of messages on the page are real", "[config]") {
  const std::string page = test::project_file("docs/reference/configuration.md");
  const std::string text =
      "optics: {spot_sigma_px: 1.6}\n"
      "camera:\n"
      "  exposre_us: 12\n"
      "  frame_rate_hz: fast\n"
      "\n\n\n"
      "fitter:\n"
      "  roi_px: 5\n";
  std::string what;
  try {
    load_text(text, "lab.yaml");
  } catch (const ConfigError& error) {
    what = error.what();
  }
  // The page indents its examples by four columns.
  std::string indented = "    ";
  for (const char c : what) indented += c == '\n' ? std::string("\n    ") : std::string(1, c);
  INFO(indented);
  const bool there = what.size() > 4 && page.find(indented) != std::string::npos;
  CHECK(there);
}

}  // namespace driftd::config
