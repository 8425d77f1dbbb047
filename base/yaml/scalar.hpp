// SPDX-License-Identifier: MIT
// Scalars as text: what a YAML scalar says, the shortest text that says the same number, and what
// is text at all. Private to those that load files; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace driftd::yaml {

/// A decimal number of the YAML 1.2 core schema ("1", "-.5", "4e6"); empty for anything else, also
/// for infinities, NaN and numbers that a double cannot hold.
std::optional<double> parse_real(std::string_view text);
/// "true" and "false" as YAML 1.2 writes them; "yes", "on" and the like are texts.
std::optional<bool> parse_bool(std::string_view text);
/// The shortest decimal text that parse_real() reads back to the same bits.
std::string format_real(double value);

/// Offset of the first byte that is no part of a Unicode character in UTF-8 (RFC 3629); zero bytes
/// and the code points that Unicode sets aside as noncharacters count as none. npos: all text.
std::size_t first_no_text(std::string_view bytes);

/// For a terminal and a log: on one line, without control characters (of Unicode both sets) and
/// without bytes that are no text, each byte of which becomes `instead`.
std::string printable(std::string text, char instead = '?');

}  // namespace driftd::yaml
