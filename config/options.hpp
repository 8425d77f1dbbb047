// SPDX-License-Identifier: MIT
// driftd's option table (config/table.hpp): every key of the configuration with its place in
// Config. Constant after first use; any thread.
#pragma once

#include "config/table.hpp"
#include "control/values/types.hpp"

namespace driftd::config {

/// A key of one entry of markers.list.
struct ListKey {
  std::string_view name;
  bool required;
  bool whole;               ///< a whole number; otherwise a number, or a text when it has choices
  std::string_view choice;  ///< default of a text
  Rules rules;
};

const Table& table();
/// All options, section by section in the order of sections().
std::span<const Option> options();
std::span<const Section> sections();
std::span<const ListKey> marker_keys();
/// Entries that markers.list may have.
constexpr std::size_t kMaxListedMarkers = control::kMaxMarkers;

/// Null when there is no such option.
const Option* find_option(std::string_view key);

std::string allowed(const ListKey& list_key);

/// The table's rows, one file of rows per subject (options_*.cpp).
std::vector<Option> source_options();
std::vector<Option> tracking_options();
std::vector<Option> lock_options();
std::vector<Option> service_options();

std::span<const RemovedKey> removed_keys();

}  // namespace driftd::config
