// SPDX-License-Identifier: MIT
// What is generated from an option table and committed: the JSON Schema that editors use, and the
// tables of a reference page (docs/reference/configuration.md,
// docs/reference/stage-configuration.md). Used by driftd-config-docs and by the test that compares.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/table.hpp"

namespace driftd::config {

/// JSON Schema, draft 7. It knows types, ranges, choices and names; combinations it does not.
std::string schema_json(const Table& table);

/// The reference tables, section by section.
std::string reference_markdown(const Table& table);

/// `page` with the text between its two marker lines replaced by the tables; empty when the page
/// lacks them.
std::optional<std::string> with_reference(const Table& table, std::string_view page);

}  // namespace driftd::config
