// SPDX-License-Identifier: MIT
// Numbers as text: what a YAML scalar says, and the shortest text that says the same number.
// Private to config/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftd::config {

/// A decimal number of the YAML 1.2 core schema ("1", "-.5", "4e6"); empty for anything else, also
/// for infinities, NaN and numbers that a double cannot hold.
std::optional<double> parse_real(std::string_view text);
/// "true" and "false" as YAML 1.2 writes them; "yes", "on" and the like are texts.
std::optional<bool> parse_bool(std::string_view text);
/// The shortest decimal text that parse_real() reads back to the same bits.
std::string format_real(double value);

}  // namespace driftd::config
