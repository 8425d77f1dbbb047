// SPDX-License-Identifier: MIT
// Reads the value of one option from its YAML node and checks type and range. Private to config/
// (yaml-cpp shows here); used by the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>

#include "config/mistakes.hpp"
#include "config/options.hpp"

namespace driftd::config {

Place place_of(const YAML::Node& node);
/// What the user wrote, on one line and not too long: `"fast"`, `12`, "a list of 3", "nothing".
std::string describe(const YAML::Node& node);

/// The same without quotes: a key in a message.
std::string key_text(const YAML::Node& node);

class ValueReader {
 public:
  explicit ValueReader(Mistakes& mistakes) : mistakes_(mistakes) {}
  /// Empty when the node is no such value; why is then among the mistakes.
  std::optional<Value> read(const Option& option, const YAML::Node& node);

 private:
  std::optional<double> number(const std::string& key, const Rules& rules, bool whole,
                               const YAML::Node& node);
  std::optional<std::string> text(const std::string& key, const Rules& rules,
                                  const YAML::Node& node);
  std::optional<Matrix2> matrix(const Option& option, const YAML::Node& node);
  std::optional<std::vector<ListedMarker>> markers(const Option& option, const YAML::Node& node);
  std::optional<ListedMarker> marker(const std::string& key, const YAML::Node& node);
  bool marker_key(const std::string& key, const ListKey& list_key, const YAML::Node& node,
                  ListedMarker& marker);
  void refuse(const std::string& key, const YAML::Node& node, const std::string& allowed);

  Mistakes& mistakes_;
};

}  // namespace driftd::config
