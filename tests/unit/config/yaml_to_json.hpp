// SPDX-License-Identifier: MIT
// A YAML document as an editor's schema validator sees it: YAML 1.2 core schema, as JSON.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/yaml/scalar.hpp"

namespace driftd::test {

inline nlohmann::json yaml_to_json(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: {
      auto object = nlohmann::json::object();
      for (const auto& entry : node) {
        object[entry.first.IsScalar() ? entry.first.Scalar() : "?"] = yaml_to_json(entry.second);
      }
      return object;
    }
    case YAML::NodeType::Sequence: {
      auto array = nlohmann::json::array();
      for (const auto& entry : node) array.push_back(yaml_to_json(entry));
      return array;
    }
    case YAML::NodeType::Scalar: {
      const std::string& text = node.Scalar();
      if (node.Tag() != "?") return text;  // quoted
      if (const auto value = yaml::parse_bool(text)) return *value;
      const auto value = yaml::parse_real(text);
      if (!value) return text;
      // JSON does not tell 4e6 from 4000000; the library would.
      if (std::floor(*value) == *value && std::abs(*value) < 1e15) {
        return static_cast<std::int64_t>(*value);
      }
      return *value;
    }
    default:
      return nullptr;
  }
}

}  // namespace driftd::test
