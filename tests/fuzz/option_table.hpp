// SPDX-License-Identifier: MIT
// What holds for every configuration that an option table lets in, and for every refusal of a file.
#pragma once

#include <string>
#include <string_view>

#include "config/table.hpp"

namespace driftd::fuzz {

/// The name that messages give the text.
constexpr const char* kFile = "f.yaml";

/// Every value is one that the table allows, and the YAML that is written of it reads back to it.
/// @param again  another of the table's structs, to read into
void check_accepted(const config::Table& table, const config::Settings& settings,
                    config::Settings& again);

/// Each line is "f.yaml:LINE:COLUMN: ..." with a place in the text, one line of printable text.
void check_refusal(std::string_view refusal, std::string_view text);

}  // namespace driftd::fuzz
