// SPDX-License-Identifier: MIT
#include "config/options.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"

namespace driftd::config {

TEST_CASE("what to_yaml writes, load_text reads back exactly", "[config]") {
  test::Random random(5);
  std::size_t least_changed = options().size();
  for (int i = 0; i < 200; ++i) {
    const Config config = test::random_config(random);
    const std::string text = to_yaml(config);
    INFO(text);
    const Config read = load_text(text, "printed");
    REQUIRE(test::differences(config, read).empty());
    REQUIRE(to_yaml(read) == text);
    least_changed = std::min(least_changed, test::differences(config, default_config()).size());
  }
  // The property was tried away from the defaults.
  CHECK(least_changed > options().size() / 3);
}

TEST_CASE("the printed configuration has every key", "[config]") {
  const std::string text = to_yaml(default_config());
  for (const Option& option : options()) {
    INFO(option.key);
    const bool printed = text.find("  " + std::string(option.name()) + ": ") != std::string::npos;
    CHECK(printed);
  }
}

TEST_CASE("markers survive the round trip with all their digits", "[config]") {
  Config config = default_config();
  config.markers.mode = MarkerMode::List;
  config.markers.list = {
      {4294967295U, 0.1 + 0.2 + 100, 1.0 / 3 + 100, control::MarkerRole::Tracking},
      {1, 300, 64.00000000000001, control::MarkerRole::Tracking},
      {2, 500, 65, control::MarkerRole::Tracking},
      {3, 700, 65, control::MarkerRole::Witness}};
  const Config read = load_text(to_yaml(config), "printed");
  const bool same = read.markers.list == config.markers.list;
  CHECK(same);
}

}  // namespace driftd::config
