// SPDX-License-Identifier: MIT
#include "config/value_reader.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "config/nearest.hpp"
#include "config/scalar.hpp"
#include "config/yaml_document.hpp"

namespace driftd::config {
namespace {

/// yaml-cpp tags a plain scalar "?" and a quoted or block one "!".
bool is_plain(const YAML::Node& node) {
  return node.IsScalar() && node.Tag() == "?";
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

Place place_of(const YAML::Node& node) {
  return place_of(node.Mark());
}

std::string key_text(const YAML::Node& node) {
  constexpr std::size_t kLongest = 60;
  if (node.IsSequence()) return "a list of " + std::to_string(node.size());
  if (node.IsMap()) return "a mapping";
  if (!node.IsScalar()) return "nothing";
  std::string text = node.Scalar();
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::ranges::replace_if(text, is_control, '?');
  return text;
}

std::string describe(const YAML::Node& node) {
  const std::string text = key_text(node);
  const bool bare = !node.IsScalar() || (is_plain(node) && (parse_real(text) || parse_bool(text)));
  return bare ? text : '"' + text + '"';
}

void ValueReader::refuse(const std::string& key, const YAML::Node& node,
                         const std::string& allowed) {
  mistakes_.add(place_of(node), key, describe(node), allowed);
}

std::optional<Value> ValueReader::read(const Option& option, const YAML::Node& node) {
  const std::string key(option.key);
  const Rules& rules = option.rules;
  if (std::holds_alternative<bool>(option.fallback)) {
    const auto value = is_plain(node) ? parse_bool(node.Scalar()) : std::nullopt;
    if (value) return *value;
    refuse(key, node, allowed(option));
  } else if (std::holds_alternative<int>(option.fallback)) {
    if (const auto value = number(key, rules, true, node)) return static_cast<int>(*value);
  } else if (std::holds_alternative<double>(option.fallback)) {
    if (const auto value = number(key, rules, false, node)) return *value;
  } else if (std::holds_alternative<std::string>(option.fallback)) {
    if (auto value = text(key, rules, node)) return std::move(*value);
  } else if (std::holds_alternative<std::filesystem::path>(option.fallback)) {
    if (auto value = text(key, rules, node)) return std::filesystem::path(std::move(*value));
  } else if (std::holds_alternative<Matrix2>(option.fallback)) {
    if (const auto value = matrix(option, node)) return *value;
  } else if (auto value = markers(option, node)) {
    return std::move(*value);
  }
  return std::nullopt;
}

std::optional<double> ValueReader::number(const std::string& key, const Rules& rules, bool whole,
                                          const YAML::Node& node) {
  const auto value = is_plain(node) ? parse_real(node.Scalar()) : std::nullopt;
  if (value && in_range(*value, rules) && (!whole || std::floor(*value) == *value)) return *value;
  refuse(key, node, allowed_number(rules, whole));
  return std::nullopt;
}

std::optional<std::string> ValueReader::text(const std::string& key, const Rules& rules,
                                             const YAML::Node& node) {
  const bool known =
      node.IsScalar() && (rules.choices.empty() ||
                          std::ranges::find(rules.choices, node.Scalar()) != rules.choices.end());
  if (known && std::ranges::none_of(node.Scalar(), is_control)) return node.Scalar();
  refuse(key, node, known ? "text on one line" : allowed_text(rules));
  return std::nullopt;
}

std::optional<Matrix2> ValueReader::matrix(const Option& option, const YAML::Node& node) {
  const auto is_pair = [](const YAML::Node& list) { return list.IsSequence() && list.size() == 2; };
  if (!is_pair(node) || !is_pair(node[0]) || !is_pair(node[1])) {
    refuse(std::string(option.key), node, allowed(option));
    return std::nullopt;
  }
  Matrix2 value{};
  bool good = true;
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      const std::string key =
          std::string(option.key) + '[' + std::to_string(row) + "][" + std::to_string(column) + ']';
      const auto element = number(key, option.rules, false, node[row][column]);
      good = good && element;
      value[row][column] = element.value_or(0);
    }
  }
  return good ? std::optional(value) : std::nullopt;
}

std::optional<std::vector<ListedMarker>> ValueReader::markers(const Option& option,
                                                              const YAML::Node& node) {
  const std::string key(option.key);
  if (!node.IsSequence() || node.size() > kMaxListedMarkers) {
    refuse(key, node, allowed(option));
    return std::nullopt;
  }
  std::vector<ListedMarker> list;
  bool good = true;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const auto entry = marker(key + '[' + std::to_string(i) + ']', node[i]);
    good = good && entry;
    if (entry) list.push_back(*entry);
  }
  return good ? std::optional(std::move(list)) : std::nullopt;
}

std::optional<ListedMarker> ValueReader::marker(const std::string& key, const YAML::Node& node) {
  if (!node.IsMap()) {
    refuse(key, node, "a mapping like {id: 1, x_px: 101.2, y_px: 55.9}");
    return std::nullopt;
  }
  ListedMarker marker{};
  bool good = true;
  std::set<std::string_view> seen;
  for (const auto& entry : node) {
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const auto known = std::ranges::find(marker_keys(), std::string_view(name), &ListKey::name);
    if (known == marker_keys().end()) {
      std::vector<std::string_view> names;
      for (const ListKey& list_key : marker_keys()) names.push_back(list_key.name);
      mistakes_.add(place_of(entry.first), key + '.' + key_text(entry.first),
                    unknown_key(name, names, ""));
      good = false;
    } else if (!seen.insert(known->name).second) {
      mistakes_.add(place_of(entry.first), key + '.' + name, "found twice; allowed once");
      good = false;
    } else if (entry.second.IsNull()) {  // has no place of its own
      mistakes_.add(place_of(entry.first), key + '.' + name, "nothing", allowed(*known));
      good = false;
    } else {
      good = marker_key(key, *known, entry.second, marker) && good;
    }
  }
  for (const ListKey& list_key : marker_keys()) {
    if (seen.contains(list_key.name)) continue;
    if (list_key.required) {
      mistakes_.add(place_of(node), key + '.' + std::string(list_key.name),
                    "found no such key; every listed marker needs one");
      good = false;
    } else {
      marker.role = list_key.choice;
    }
  }
  return good ? std::optional(std::move(marker)) : std::nullopt;
}

bool ValueReader::marker_key(const std::string& key, const ListKey& list_key,
                             const YAML::Node& node, ListedMarker& marker) {
  const std::string full_key = key + '.' + std::string(list_key.name);
  if (!list_key.rules.choices.empty()) {
    auto role = text(full_key, list_key.rules, node);
    if (role) marker.role = std::move(*role);
    return role.has_value();
  }
  const auto value = number(full_key, list_key.rules, list_key.whole, node);
  if (!value) return false;
  if (list_key.name == "id") marker.id = static_cast<std::uint32_t>(*value);
  if (list_key.name == "x_px") marker.x_px = *value;
  if (list_key.name == "y_px") marker.y_px = *value;
  return true;
}

}  // namespace driftd::config
