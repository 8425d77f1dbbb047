// SPDX-License-Identifier: MIT
#include "fuzz/option_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <variant>

#include "base/yaml/scalar.hpp"
#include "config/options.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

using config::ListedMarker;
using config::Option;
using config::Rules;
using config::Value;

bool is_allowed(double value, const Rules& rules) {
  return std::isfinite(value) && value <= rules.max &&
         (rules.above_min ? value > rules.min : value >= rules.min);
}

bool is_line(std::string_view text) {
  return yaml::first_no_text(text) == std::string_view::npos &&
         std::ranges::none_of(
             text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

bool is_allowed(const std::string& text, const Rules& rules) {
  return is_line(text) &&
         (rules.choices.empty() || std::ranges::find(rules.choices, text) != rules.choices.end());
}

bool is_allowed(const std::vector<ListedMarker>& markers) {
  return markers.size() <= config::kMaxListedMarkers &&
         std::ranges::all_of(markers, [](const ListedMarker& marker) {
           return std::isfinite(marker.x_px) && std::isfinite(marker.y_px);
         });
}

bool is_allowed(const Option& option, const Value& value) {
  if (config::is_auto(option, value)) return true;
  struct Visitor {
    const Rules& rules;
    bool operator()(bool) const { return true; }
    bool operator()(int whole) const { return is_allowed(double{1} * whole, rules); }
    bool operator()(double number) const { return is_allowed(number, rules); }
    bool operator()(const std::string& text) const { return is_allowed(text, rules); }
    bool operator()(const std::filesystem::path& path) const { return is_line(path.string()); }
    bool operator()(const config::Matrix2& matrix) const {
      return std::ranges::all_of(matrix, [this](const auto& row) {
        return is_allowed(row[0], rules) && is_allowed(row[1], rules);
      });
    }
    bool operator()(const std::vector<ListedMarker>& markers) const { return is_allowed(markers); }
    bool operator()(const config::Endpoints& endpoints) const {
      return !endpoints.empty() && endpoints.size() <= config::kMostEndpoints &&
             std::ranges::all_of(endpoints, is_line);
    }
  };
  return std::visit(Visitor{option.rules}, value);
}

bool is_same(const ListedMarker& a, const ListedMarker& b) {
  return a.id == b.id && a.x_px == b.x_px && a.y_px == b.y_px && a.role == b.role;
}

bool is_same(const Value& a, const Value& b) {
  const auto* markers = std::get_if<std::vector<ListedMarker>>(&a);
  if (markers == nullptr) {
    return std::visit(
        [&b]<typename T>(const T& value) {
          if constexpr (std::is_same_v<T, std::vector<ListedMarker>>) {
            return false;
          } else {
            return std::get<T>(b) == value;
          }
        },
        a);
  }
  return std::ranges::equal(*markers, std::get<std::vector<ListedMarker>>(b),
                            [](const auto& one, const auto& other) { return is_same(one, other); });
}

/// Takes a number and the colon behind it off the front; 0: there is none.
int take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || !text.starts_with(':')) return 0;
  text.remove_prefix(1);
  return number;
}

}  // namespace

std::vector<config::Text> texts_of(Bytes bytes) {
  std::vector<config::Text> texts;
  for (std::string& part : split(text_of(bytes), '\x1e', 20))
    texts.push_back({kFile, std::move(part)});
  return texts;
}

void check_accepted(const config::Table& table, const config::Settings& settings,
                    const config::Origins& origins, config::Settings& again) {
  for (const Option& option : table.options) {
    const Value value = option.get(settings);
    require(is_allowed(option, value), "a value is one that the table allows", option.key);
    const auto given = origins.find(option.key);
    require(is_same(value, given == origins.end() ? option.fallback : given->second.back().value),
            "a value is what the last text says", option.key);
  }
  const std::string written = to_yaml(table, settings, &origins);
  try {
    config::read_texts(table, std::array{config::Text{kFile, written}}, again);
  } catch (const config::ConfigError& error) {
    require(false, "what is written can be read", error.what());
  }
  for (const Option& option : table.options) {
    require(is_same(option.get(settings), option.get(again)), "what is written reads as the same",
            option.key);
  }
}

void check_refusal(std::string_view refusal, std::string_view text) {
  const auto lines = 1 + std::ranges::count(text, '\n');
  require(!refusal.empty(), "a refusal says something");
  const std::string name = std::string(kFile) + ':';
  for (const std::string& sentence : split(refusal, '\n', text.size() + 1000)) {
    std::string_view rest = sentence;
    require(rest.starts_with(name), "a refusal names the file", refusal);
    rest.remove_prefix(name.size());
    const int line = take_number(rest), column = take_number(rest);
    require(line >= 1 && line <= lines && column >= 1, "a refusal names a place", refusal);
    require(rest.size() > 5 && rest.size() < 4000, "a refusal is a sentence", refusal);
    require(is_line(rest), "a refusal is a line of text", refusal);
  }
}

}  // namespace driftd::fuzz
