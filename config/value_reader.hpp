// SPDX-License-Identifier: MIT
// Reads the value of one option from its YAML node and checks type and range. Private to config/
// (yaml-cpp shows here); used by the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>

#include "base/yaml/reader.hpp"
#include "config/options.hpp"

namespace driftd::config {

class ValueReader {
 public:
  explicit ValueReader(yaml::Mistakes& mistakes) : reader_(mistakes) {}
  /// Empty when the node is no such value; why is then among the mistakes.
  std::optional<Value> read(const Option& option, const YAML::Node& node);

 private:
  std::optional<Endpoints> endpoints(const Option& option, const YAML::Node& node);
  std::optional<Matrix2> matrix(const Option& option, const YAML::Node& node);
  std::optional<std::vector<ListedMarker>> markers(const Option& option, const YAML::Node& node);
  std::optional<ListedMarker> marker(const std::string& key, const YAML::Node& node);
  bool marker_key(const std::string& key, const ListKey& list_key, const YAML::Node& node,
                  ListedMarker& marker);

  yaml::Reader reader_;
};

}  // namespace driftd::config
