// SPDX-License-Identifier: MIT
// The examples of docs/protocol.md as something to check real messages against: the same keys, each
// with a value of the same type, all the way down. One thread; reads the file at each call.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace driftd::test {

/// The example of each topic: the line of JSON in the block that begins "```json TOPIC".
/// @throws std::runtime_error when the file or any example in it cannot be read
inline std::map<std::string, nlohmann::json> protocol_examples(
    const std::filesystem::path& file = DRIFTD_SOURCE_DIR "/docs/protocol.md") {
  constexpr const char* kFence = "```json ";
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::map<std::string, nlohmann::json> examples;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kFence)) continue;
    const std::string topic = line.substr(std::string(kFence).size());
    std::string text;
    while (std::getline(in, line) && line != "```") text += line;
    examples[topic] = nlohmann::json::parse(text);
  }
  if (examples.empty()) throw std::runtime_error(file.string() + " has no examples");
  return examples;
}

namespace detail {

inline const char* type_of(const nlohmann::json& value) {
  return value.is_number() ? "number" : value.type_name();  // 1 and 1.0 are the same type in JSON
}

inline void compare(const nlohmann::json& example, const nlohmann::json& real,
                    const std::string& path, std::vector<std::string>& differences) {
  // docs/protocol.md: a value that does not exist is null.
  if (example.is_number() && real.is_null()) return;
  if (type_of(example) != std::string(type_of(real))) {
    differences.push_back(path + ": documented as " + type_of(example) + ", is " + type_of(real));
    return;
  }
  if (example.is_object()) {
    for (const auto& [key, value] : example.items()) {
      if (real.contains(key)) {
        compare(value, real[key], path + "/" + key, differences);
      } else {
        differences.push_back(path + "/" + key + ": documented, missing");
      }
    }
    for (const auto& [key, value] : real.items()) {
      if (!example.contains(key)) differences.push_back(path + "/" + key + ": not documented");
    }
  }
  // Every element is like the first of the example; an empty example says nothing of them.
  if (example.is_array() && !example.empty()) {
    for (std::size_t i = 0; i < real.size(); ++i) {
      compare(example[0], real[i], path + "/" + std::to_string(i), differences);
    }
  }
}

}  // namespace detail

/// How a real message differs in keys and types from the documented one, a line each; none: it does
/// not. A number may be null. Of an `event` of another code than the example's, only the fields
/// that every event has are compared: the others depend on the code.
inline std::vector<std::string> protocol_differences(
    const std::map<std::string, nlohmann::json>& examples, const std::string& topic,
    nlohmann::json real) {
  const auto found = examples.find(topic);
  if (found == examples.end()) return {"topic " + topic + ": not documented"};
  nlohmann::json example = found->second;
  if (topic == "event" && real.value("code", "") != example.at("code")) {
    nlohmann::json common;
    for (const char* key : {"v", "seq", "session", "time_ns", "level", "code", "text"}) {
      common[key] = example.at(key);
    }
    for (auto field = real.begin(); field != real.end();) {
      field = common.contains(field.key()) ? std::next(field) : real.erase(field);
    }
    example = common;
  }
  std::vector<std::string> differences;
  detail::compare(example, real, "", differences);
  return differences;
}

}  // namespace driftd::test
