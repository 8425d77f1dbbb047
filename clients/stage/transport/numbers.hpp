// SPDX-License-Identifier: MIT
// Numbers as controllers write them, whatever the locale is. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace driftd::stage {

/// With `digits` after the point and never "-0.000". `value` must be finite and below 1e16.
void append_fixed(std::string& text, double value, int digits);

/// All of `text`, spaces around and a leading + allowed; nothing when it is no number, or
/// one beyond 4e9: no stage goes so far, and nm of it are below append_fixed()'s limit.
std::optional<double> parse_number(std::string_view text);

/// As parse_number(), for a whole number that fits into an int, as codes do.
std::optional<int> parse_whole(std::string_view text);

std::string_view trimmed(std::string_view text);

/// The words of `text` between spaces.
std::vector<std::string_view> words(std::string_view text);

}  // namespace driftd::stage
