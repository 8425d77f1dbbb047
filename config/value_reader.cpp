// SPDX-License-Identifier: MIT
#include "config/value_reader.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/yaml/nearest.hpp"

namespace driftd::config {
using yaml::key_text;
using yaml::place_of;

std::optional<Value> ValueReader::read(const Option& option, const YAML::Node& node) {
  const std::string key(option.key);
  const Rules& rules = option.rules;
  if (std::holds_alternative<bool>(option.fallback)) {
    if (const auto value = reader_.boolean(key, node)) return *value;
  } else if (std::holds_alternative<int>(option.fallback)) {
    if (const auto value = reader_.whole(key, node, rules.range())) return static_cast<int>(*value);
  } else if (std::holds_alternative<double>(option.fallback)) {
    if (const auto value = reader_.number(key, node, rules.range())) return *value;
  } else if (std::holds_alternative<std::string>(option.fallback)) {
    if (auto value = reader_.text(key, node, rules.choices)) return std::move(*value);
  } else if (std::holds_alternative<std::filesystem::path>(option.fallback)) {
    if (auto value = reader_.text(key, node)) return std::filesystem::path(std::move(*value));
  } else if (std::holds_alternative<Matrix2>(option.fallback)) {
    if (const auto value = matrix(option, node)) return *value;
  } else if (std::holds_alternative<Endpoints>(option.fallback)) {
    if (auto value = endpoints(option, node)) return std::move(*value);
  } else if (auto value = markers(option, node)) {
    return std::move(*value);
  }
  return std::nullopt;
}

std::optional<Endpoints> ValueReader::endpoints(const Option& option, const YAML::Node& node) {
  if (!node.IsSequence()) {
    auto one = reader_.text(option.key, node);
    return one ? std::optional(Endpoints{std::move(*one)}) : std::nullopt;
  }
  if (node.size() == 0 || node.size() > kMostEndpoints) {
    reader_.refuse(option.key, node, allowed(option));
    return std::nullopt;
  }
  Endpoints list;
  for (std::size_t i = 0; i < node.size(); ++i) {
    auto one = reader_.text(option.key + '[' + std::to_string(i) + ']', node[i]);
    if (!one) return std::nullopt;
    list.push_back(std::move(*one));
  }
  return list;
}

std::optional<Matrix2> ValueReader::matrix(const Option& option, const YAML::Node& node) {
  const auto is_pair = [](const YAML::Node& list) { return list.IsSequence() && list.size() == 2; };
  if (!is_pair(node) || !is_pair(node[0]) || !is_pair(node[1])) {
    reader_.refuse(std::string(option.key), node, allowed(option));
    return std::nullopt;
  }
  Matrix2 value{};
  bool good = true;
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      const std::string key =
          std::string(option.key) + '[' + std::to_string(row) + "][" + std::to_string(column) + ']';
      const auto element = reader_.number(key, node[row][column], option.rules.range());
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
    reader_.refuse(key, node, allowed(option));
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
    reader_.refuse(key, node, "a mapping like {id: 1, x_px: 101.2, y_px: 55.9}");
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
      reader_.mistakes().add(place_of(entry.first), key + '.' + key_text(entry.first),
                             yaml::unknown_key(name, names, ""));
      good = false;
    } else if (!seen.insert(known->name).second) {
      reader_.mistakes().add(place_of(entry.first), key + '.' + name, "found twice; allowed once");
      good = false;
    } else if (entry.second.IsNull()) {  // has no place of its own
      reader_.mistakes().add(place_of(entry.first), key + '.' + name, "nothing", allowed(*known));
      good = false;
    } else {
      good = marker_key(key, *known, entry.second, marker) && good;
    }
  }
  for (const ListKey& list_key : marker_keys()) {
    if (seen.contains(list_key.name)) continue;
    if (list_key.required) {
      reader_.mistakes().add(place_of(node), key + '.' + std::string(list_key.name),
                             "found no such key; every listed marker needs one");
      good = false;
    } else {
      marker.role = value_named<control::MarkerRole>(list_key.choice).value();
    }
  }
  return good ? std::optional(marker) : std::nullopt;
}

bool ValueReader::marker_key(const std::string& key, const ListKey& list_key,
                             const YAML::Node& node, ListedMarker& marker) {
  const std::string full_key = key + '.' + std::string(list_key.name);
  if (!list_key.rules.choices.empty()) {
    const auto role = reader_.text(full_key, node, list_key.rules.choices);
    if (role) marker.role = value_named<control::MarkerRole>(*role).value();
    return role.has_value();
  }
  const yaml::Range range = list_key.rules.range();
  const auto value =
      list_key.whole ? reader_.whole(full_key, node, range) : reader_.number(full_key, node, range);
  if (!value) return false;
  if (list_key.name == "id") marker.id = static_cast<std::uint32_t>(*value);
  if (list_key.name == "x_px") marker.x_px = *value;
  if (list_key.name == "y_px") marker.y_px = *value;
  return true;
}

}  // namespace driftd::config
