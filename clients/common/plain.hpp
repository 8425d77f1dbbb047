// SPDX-License-Identifier: MIT
// What others say, as a part of what a person reads.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace driftd::clients {

/// For a terminal and a log: on one line, and without control characters (of Unicode both sets),
/// which would steer the terminal.
std::string plain(std::string text);
/// What others send, each text in it plain; names of members stay. What lies deeper in it than
/// anything of a daemon's is left out. Discarded where it is no JSON.
nlohmann::json parse_plain(std::string_view message);

/// The beginning of a text in UTF-8: at most so many bytes, whole characters.
std::string cut(const std::string& text, std::size_t most_bytes);

}  // namespace driftd::clients
