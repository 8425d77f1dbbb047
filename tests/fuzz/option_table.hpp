// SPDX-License-Identifier: MIT
// What holds for every configuration that an option table lets in, and for every refusal of a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/table.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {

/// The name that messages give each text.
constexpr const char* kFile = "f.yaml";

/// A file and its drop-ins, with record separators (0x1e) between them, which no YAML has.
std::vector<config::Text> texts_of(Bytes bytes);

/// Every value is one that the table allows and that the last text to give it has, and the YAML
/// that is written of it reads back to it.
/// @param again  another of the table's structs, to read into
void check_accepted(const config::Table& table, const config::Settings& settings,
                    const config::Origins& origins, config::Settings& again);

/// Each line is "f.yaml:LINE:COLUMN: ..." with a place in the text, one line of printable text.
void check_refusal(std::string_view refusal, std::string_view text);

}  // namespace driftd::fuzz
