// SPDX-License-Identifier: MIT
#include "camera/simulator/yaml_section.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace driftd::simulator {
namespace {

std::string plain(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

bool finite_number(const YAML::Node& node, double& value) {
  return node.IsScalar() && YAML::convert<double>::decode(node, value) && std::isfinite(value);
}

}  // namespace

void Mistakes::add(const YAML::Mark& mark, const std::string& text) {
  lines_.push_back(file_ + ":" + std::to_string(mark.line + 1) + ":" +
                   std::to_string(mark.column + 1) + ": " + text);
}

std::string Mistakes::text() const {
  std::string all;
  for (const std::string& line : lines_) all += (all.empty() ? "" : "\n") + line;
  return all;
}

std::string describe(const YAML::Node& node) {
  if (node.IsScalar()) return "'" + node.Scalar() + "'";
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a mapping";
  return "nothing";
}

std::string describe(const std::string& what, Bounds bounds) {
  return what + " from " + plain(bounds.low) + " to " + plain(bounds.high);
}

std::optional<std::string> nearest(const std::string& word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t least = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

YamlSection::YamlSection(const YAML::Node& node, std::string path, Mistakes& mistakes)
    : path_(std::move(path)), mistakes_(&mistakes) {
  if (!node.IsDefined() || node.IsNull()) return;
  if (node.IsMap()) {
    node_.reset(node);
  } else {
    mistakes.add(node.Mark(), (path_.empty() ? "scenario" : path_) + ": found " + describe(node) +
                                  "; expected a mapping of keys");
  }
}

std::string YamlSection::full(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

bool YamlSection::has(const std::string& key) const {
  return node_.IsMap() && static_cast<const YAML::Node&>(node_)[key].IsDefined();
}

YAML::Node YamlSection::take(const std::string& key) {
  known_.push_back(key);
  if (!has(key)) return YAML::Node(YAML::NodeType::Undefined);
  return static_cast<const YAML::Node&>(node_)[key];
}

void YamlSection::reject(const std::string& key, const std::string& text) {
  const YAML::Mark mark =
      has(key) ? static_cast<const YAML::Node&>(node_)[key].Mark() : node_.Mark();
  mistakes_->add(mark.is_null() ? YAML::Mark() : mark, full(key) + ": " + text);
}

void YamlSection::number(const std::string& key, double& value, Bounds bounds) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  double found = 0;
  if (finite_number(node, found) && found >= bounds.low && found <= bounds.high) {
    value = found;
  } else {
    reject(key, "found " + describe(node) + "; allowed is " + describe("a number", bounds));
  }
}

void YamlSection::integer(const std::string& key, int& value, Bounds bounds) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  int found = 0;
  if (node.IsScalar() && YAML::convert<int>::decode(node, found) && found >= bounds.low &&
      found <= bounds.high) {
    value = found;
  } else {
    reject(key, "found " + describe(node) + "; allowed is " + describe("a whole number", bounds));
  }
}

void YamlSection::integer64(const std::string& key, std::int64_t& value) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  std::int64_t found = 0;
  if (node.IsScalar() && YAML::convert<std::int64_t>::decode(node, found)) {
    value = found;
  } else {
    reject(key, "found " + describe(node) + "; allowed is a whole number");
  }
}

void YamlSection::boolean(const std::string& key, bool& value) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)) {
    reject(key, "found " + describe(node) + "; allowed is true or false");
  }
}

void YamlSection::text(const std::string& key, std::string& value) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  if (node.IsScalar()) {
    value = node.Scalar();
  } else {
    reject(key, "found " + describe(node) + "; allowed is text");
  }
}

std::optional<std::vector<double>> YamlSection::numbers(const std::string& key, std::size_t count,
                                                        Bounds bounds) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return std::nullopt;
  std::vector<double> values;
  if (node.IsSequence() && node.size() == count) {
    for (const auto& item : node) {
      double value = 0;
      if (!finite_number(item, value) || value < bounds.low || value > bounds.high) break;
      values.push_back(value);
    }
  }
  if (values.size() == count) return values;
  reject(key, "found " + describe(node) + "; allowed is a list of " + std::to_string(count) +
                  " values, each " + describe("a number", bounds));
  return std::nullopt;
}

YamlSection YamlSection::section(const std::string& key) {
  return {take(key), full(key), *mistakes_};
}

void YamlSection::each(const std::string& key,
                       const std::function<void(const YAML::Node&, const std::string&)>& read) {
  const YAML::Node node = take(key);
  if (!node.IsDefined() || node.IsNull()) return;
  if (!node.IsSequence()) {
    reject(key, "found " + describe(node) + "; allowed is a list");
    return;
  }
  for (std::size_t i = 0; i < node.size(); ++i) {
    read(node[i], full(key) + "[" + std::to_string(i) + "]");
  }
}

void YamlSection::finish() {
  if (!node_.IsMap()) return;
  std::vector<std::string> seen;
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      mistakes_->add(entry.first.Mark(), full(key) + ": given twice");
    }
    seen.push_back(key);
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const auto guess = nearest(key, known_);
    std::string text = full(key) + ": unknown key";
    if (guess) text += "; did you mean '" + *guess + "'?";
    mistakes_->add(entry.first.Mark(), text);
  }
}

}  // namespace driftd::simulator
