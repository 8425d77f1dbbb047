// SPDX-License-Identifier: MIT
#include "base/yaml/section.hpp"

#include <algorithm>
#include <set>

#include "base/yaml/nearest.hpp"

namespace driftd::yaml {

Section::Section(const YAML::Node& node, std::string path, Mistakes& mistakes)
    : path_(std::move(path)), reader_(mistakes) {
  if (!node.IsDefined() || node.IsNull()) return;
  if (node.IsMap()) {
    node_.reset(node);
  } else {
    reader_.refuse(path_, node, "a mapping of keys");
  }
}

std::string Section::full(const std::string& key) const {
  return path_.empty() ? key : path_ + '.' + key;
}

std::optional<Section::Entry> Section::find(const std::string& key) const {
  if (!node_.IsMap()) return std::nullopt;
  for (const auto& entry : node_) {
    if (entry.first.IsScalar() && entry.first.Scalar() == key)
      return Entry{entry.first, entry.second};
  }
  return std::nullopt;
}

bool Section::has(const std::string& key) const {
  return find(key).has_value();
}

std::optional<YAML::Node> Section::take(const std::string& key, const std::string& allowed) {
  known_.push_back(key);
  const auto entry = find(key);
  if (!entry) return std::nullopt;
  if (!entry->value.IsNull()) return entry->value;
  // It has no place of its own.
  reader_.mistakes().add(place_of(entry->name), full(key), "nothing", allowed);
  return std::nullopt;
}

void Section::reject(const std::string& key, const std::string& allowed,
                     const std::string& absent) {
  const auto entry = find(key);
  if (entry) {
    reader_.refuse(full(key), entry->value, allowed);
  } else {
    reader_.mistakes().add(place_of(node_), full(key), absent, allowed);
  }
}

void Section::number(const std::string& key, double& value, const Range& range) {
  const auto node = take(key, allowed_number(range, false));
  if (!node) return;
  if (const auto read = reader_.number(full(key), *node, range)) value = *read;
}

void Section::integer(const std::string& key, int& value, const Range& range) {
  const auto node = take(key, allowed_number(range, true));
  if (!node) return;
  if (const auto read = reader_.whole(full(key), *node, range)) value = static_cast<int>(*read);
}

void Section::integer64(const std::string& key, std::int64_t& value, std::int64_t min) {
  const auto node = take(key, "a whole number");
  if (!node) return;
  if (const auto read = reader_.whole64(full(key), *node, min)) value = *read;
}

void Section::boolean(const std::string& key, bool& value) {
  const auto node = take(key, "true or false");
  if (!node) return;
  if (const auto read = reader_.boolean(full(key), *node)) value = *read;
}

void Section::text(const std::string& key, std::string& value,
                   std::span<const std::string_view> choices) {
  const auto node = take(key, allowed_text(choices));
  if (!node) return;
  if (auto read = reader_.text(full(key), *node, choices)) value = std::move(*read);
}

std::optional<std::vector<double>> Section::numbers(const std::string& key, std::size_t count,
                                                    const Range& range) {
  const auto node = take(key, "a list of " + std::to_string(count));
  return node ? reader_.numbers(full(key), *node, count, range) : std::nullopt;
}

Section Section::section(const std::string& key) {
  known_.push_back(key);
  const auto entry = find(key);  // without a value: a section whose keys are all commented out
  return {entry ? entry->value : YAML::Node(), full(key), reader_.mistakes()};
}

void Section::each(const std::string& key,
                   const std::function<void(const YAML::Node&, const std::string&)>& read) {
  const auto node = take(key, "a list");
  if (!node) return;
  if (!node->IsSequence()) {
    reader_.refuse(full(key), *node, "a list");
    return;
  }
  for (std::size_t i = 0; i < node->size(); ++i) {
    read((*node)[i], full(key) + '[' + std::to_string(i) + ']');
  }
}

void Section::finish() {
  if (!node_.IsMap()) return;
  const std::vector<std::string_view> candidates(known_.begin(), known_.end());
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const YAML::Node& name = entry.first;
    const std::string key = full(key_text(name));
    if (!name.IsScalar()) {
      reader_.refuse(path_, name, "a name before the colon");
    } else if (!seen.insert(name.Scalar()).second) {
      reader_.mistakes().add(place_of(name), key, "found twice; allowed once");
    } else if (std::ranges::find(known_, name.Scalar()) == known_.end()) {
      reader_.mistakes().add(
          place_of(name), key,
          unknown_key(name.Scalar(), candidates, path_.empty() ? "" : path_ + '.'));
    }
  }
}

}  // namespace driftd::yaml
