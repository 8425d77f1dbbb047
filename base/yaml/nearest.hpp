// SPDX-License-Identifier: MIT
// Which known key a misspelt one may have meant. Private to those that load files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace driftd::yaml {

/// Fewest single-character insertions, deletions, replacements and swaps of neighbours that turn
/// one text into the other (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// "found an unknown key; did you mean PREFIX+CANDIDATE?" with the nearest candidate, or "...;
/// allowed are ..." when none is near.
std::string unknown_key(std::string_view word, std::span<const std::string_view> candidates,
                        std::string_view prefix);

}  // namespace driftd::yaml
