// SPDX-License-Identifier: MIT
#include "random_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include "config/checks.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

namespace driftd::test {
namespace {

using config::ListedMarker;
using config::Matrix2;
using config::Rules;

std::size_t below(std::size_t count, Random& random) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

double random_number(const Rules& rules, Random& random) {
  const double least = rules.above_min ? std::nextafter(rules.min, rules.max) : rules.min;
  switch (below(6, random)) {
    case 0:
      return least;
    case 1:
      return rules.max;
    case 2:  // near the lower end, with all 53 bits in use
      return std::min(rules.max, least + std::uniform_real_distribution(0.0, 2.0)(random));
    case 3:  // small whole numbers, as people write them
      return std::clamp(static_cast<double>(below(100, random)), least, rules.max);
    default:
      return std::uniform_real_distribution(least, rules.max)(random);
  }
}

std::string random_text(const Rules& rules, Random& random) {
  if (!rules.choices.empty())
    return std::string(rules.choices[below(rules.choices.size(), random)]);
  static const std::array<std::string, 18> odd = {"",
                                                  " ",
                                                  "yes",
                                                  "null",
                                                  "~",
                                                  "1e3",
                                                  "0123",
                                                  "a: b",
                                                  "# no comment",
                                                  "\"",
                                                  "\\n",
                                                  "'",
                                                  "{[&*!|>%@`",
                                                  "- -",
                                                  "M\xC3\xBCller",
                                                  "tcp://127.0.0.1:6000",
                                                  "ipc:///run/x/y",
                                                  "a\\\"b "};
  return odd[below(odd.size(), random)];
}

std::vector<ListedMarker> random_markers(Random& random) {
  std::vector<ListedMarker> list;
  const std::size_t count = below(12, random);
  for (std::size_t i = 0; i < count; ++i) {
    // On a grid of 128 px, so that no two share a window.
    const double jitter_px = std::uniform_real_distribution(0.0, 64.0)(random);
    list.push_back(
        {static_cast<std::uint32_t>(4294967295U - i * 7),
         128 + 128 * static_cast<double>(i) + jitter_px, 128 + jitter_px,
         below(4, random) == 0 ? control::MarkerRole::Witness : control::MarkerRole::Tracking});
  }
  return list;
}

}  // namespace

config::Value random_value(const config::Option& option, Random& random) {
  struct Visitor {
    const config::Option& option;
    const Rules& rules;
    Random& random;
    config::Value operator()(bool) const { return below(2, random) == 1; }
    config::Value operator()(int) const {
      return static_cast<int>(std::floor(random_number(rules, random)));
    }
    config::Value operator()(double) const { return random_number(rules, random); }
    config::Value operator()(const std::string&) const { return random_text(rules, random); }
    config::Value operator()(const std::filesystem::path&) const {
      return std::filesystem::path(random_text(rules, random));
    }
    config::Value operator()(const Matrix2&) const {
      Matrix2 matrix{};
      for (auto& row : matrix) {
        for (double& element : row) element = random_number(rules, random);
      }
      return matrix;
    }
    config::Value operator()(const config::Endpoints&) const {
      config::Endpoints endpoints(1 + below(3, random));
      for (std::size_t i = 0; i < endpoints.size(); ++i) {
        const std::string name = option.key.substr(option.key.rfind('.') + 1) + std::to_string(i);
        endpoints[i] = below(4, random) == 0 ? random_text(rules, random) : "ipc://" + name;
      }
      return endpoints;
    }
    config::Value operator()(const std::vector<ListedMarker>&) const {
      return random_markers(random);
    }
  };
  return std::visit(Visitor{option, option.rules, random}, option.fallback);
}

config::Config random_config(Random& random, int changes) {
  config::Config config = config::default_config();
  for (int i = 0; i < changes; ++i) {
    const config::Option& option = config::options()[below(config::options().size(), random)];
    config::Config changed = config;
    option.set(changed, random_value(option, random));
    if (config::find_conflicts(changed).empty()) config = changed;
  }
  return config;
}

std::vector<std::string> differences(const config::Config& a, const config::Config& b) {
  std::vector<std::string> keys;
  for (const config::Option& option : config::options()) {
    if (option.get(a) != option.get(b)) keys.emplace_back(option.key);
  }
  return keys;
}

std::string file_with(const config::Option& option, const std::string& entry) {
  std::string text = "{" + entry + "}";
  std::string_view section = option.section();
  for (;;) {
    const std::size_t dot = section.rfind('.');
    if (dot == std::string_view::npos) break;
    text = "{" + std::string(section.substr(dot + 1)) + ": " + text + "}";
    section = section.substr(0, dot);
  }
  return std::string(section) + ": " + text + "\n";
}

std::string project_file(const std::string& path) {
  std::ifstream in(driftd::test::source_dir() / path, std::ios::binary);
  INFO(path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace driftd::test
