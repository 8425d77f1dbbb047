// SPDX-License-Identifier: MIT
// Text to the one YAML document that it holds. Private to those that load files (yaml-cpp shows
// here); used by the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <optional>
#include <string>

#include "base/yaml/mistakes.hpp"

namespace driftd::yaml {

Place place_of(const YAML::Mark& mark);

/// The file's bytes. No value when it cannot be read or is far too large; why is then among the
/// mistakes.
std::optional<std::string> read_file(const std::filesystem::path& file, Mistakes& mistakes);

/// Null when the text is empty. No value when it is no YAML; why is then among the mistakes.
std::optional<YAML::Node> read_document(const std::string& text, Mistakes& mistakes);

}  // namespace driftd::yaml
