// SPDX-License-Identifier: MIT
// Text to the one YAML document that it holds. Private to config/ (yaml-cpp shows here); used by
// the thread that loads.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>

#include "config/mistakes.hpp"

namespace driftd::config {

Place place_of(const YAML::Mark& mark);

/// Null when the text is empty. No value when it is no YAML; why is then among the mistakes.
std::optional<YAML::Node> read_document(const std::string& text, Mistakes& mistakes);

}  // namespace driftd::config
