// SPDX-License-Identifier: MIT
// What others say, as a part of what a person reads.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace driftd::clients {

/// For a terminal and a log: on one line, and without control characters (of Unicode both sets),
/// which would steer the terminal.
std::string plain(std::string text);
/// The same of each text in `value`; names of members stay.
void make_plain(nlohmann::json& value);

/// The beginning of a text in UTF-8: at most so many bytes, whole characters.
std::string cut(const std::string& text, std::size_t most_bytes);

}  // namespace driftd::clients
