// SPDX-License-Identifier: MIT
// Rows of a record as CSV: a heading with the columns' names, NaN as an empty field. One thread.
#pragma once

#include <string>

#include "record/rows.hpp"

namespace driftd::clients {

std::string csv_heading(const record::TableLayout& layout);
/// Rows as the layout describes them.
std::string csv_lines(const record::TableLayout& layout, const void* rows, std::size_t count);
std::string csv_lines(std::span<const record::Event> events);

}  // namespace driftd::clients
