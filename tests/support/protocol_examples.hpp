// SPDX-License-Identifier: MIT
// The examples of docs/reference/protocol.md, for tests of what reads such messages. (That the
// daemon sends what they show is tested with protocol.py.) One thread; reads the file at each call.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/source_dir.hpp"

namespace driftd::test {

/// The example of each topic: the line of JSON in the block that begins "```json TOPIC".
/// @throws std::runtime_error when the file or any example in it cannot be read
inline std::map<std::string, nlohmann::json> protocol_examples(
    const std::filesystem::path& file = driftd::test::source_dir() / "docs/reference/protocol.md") {
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

}  // namespace driftd::test
