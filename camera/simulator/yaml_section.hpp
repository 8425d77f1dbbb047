// SPDX-License-Identifier: MIT
// Strict reading of one YAML mapping: every key must be asked for, every value has a type and a
// range, and each mistake is noted with file, line and column instead of stopping at the first.
// Private to the scenario loader.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace driftd::simulator {

/// Mistakes of one file, in the order found.
class Mistakes {
 public:
  explicit Mistakes(std::string file) : file_(std::move(file)) {}
  void add(const YAML::Mark& mark, const std::string& text);
  bool empty() const noexcept { return lines_.empty(); }
  std::string text() const;  ///< one line each

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

struct Bounds {
  double low;
  double high;
};

/// One mapping being read. After all keys were asked for, finish() reports those left over.
class YamlSection {
 public:
  /// @param node  a mapping, or an empty node for "nothing given"
  YamlSection(const YAML::Node& node, std::string path, Mistakes& mistakes);

  void number(const std::string& key, double& value, Bounds bounds);
  void integer(const std::string& key, int& value, Bounds bounds);
  void integer64(const std::string& key, std::int64_t& value);
  void boolean(const std::string& key, bool& value);
  void text(const std::string& key, std::string& value);
  /// `count` numbers in a sequence; nothing when the key is absent or wrong.
  std::optional<std::vector<double>> numbers(const std::string& key, std::size_t count,
                                             Bounds bounds);
  YamlSection section(const std::string& key);
  /// Calls `read` with each item of a sequence and its path.
  void each(const std::string& key,
            const std::function<void(const YAML::Node&, const std::string&)>& read);
  bool has(const std::string& key) const;
  /// Notes a mistake at a key's value (at the section when the key is absent).
  void reject(const std::string& key, const std::string& text);
  void finish();

 private:
  YAML::Node take(const std::string& key);
  std::string full(const std::string& key) const;

  YAML::Node node_;
  std::string path_;
  Mistakes* mistakes_;
  std::vector<std::string> known_;
};

/// What a node holds, for messages: its text, or "a list" or "a mapping".
std::string describe(const YAML::Node& node);
/// "a number from 0 to 1".
std::string describe(const std::string& what, Bounds bounds);
/// The candidate that differs in the fewest letters, when that is few enough to be a slip.
std::optional<std::string> nearest(const std::string& word,
                                   const std::vector<std::string>& candidates);

}  // namespace driftd::simulator
