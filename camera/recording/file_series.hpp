// SPDX-License-Identifier: MIT
// Files that are one movie, put in order by the numbers in their names. Pure functions, but for the
// list of a folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace driftd::camera {

/// Whether one name comes before another, numbers in them by their value: img_9 before img_10.
bool comes_before(std::string_view one, std::string_view other);

struct FileSeries {
  std::vector<std::filesystem::path> files;  ///< in order
  std::string missing;                       ///< numbers between theirs; "": none
};

/// @param files       at least one
/// @param are_chosen  by somebody, so that names without a number in common may be a movie
/// @throws RecordingError for names that count along several numbers, or have nothing in common
FileSeries in_series(std::vector<std::filesystem::path> files, bool are_chosen);

/// The TIFFs of a folder; hidden files left out. @throws RecordingError where there is none
std::vector<std::filesystem::path> tiffs_in(const std::filesystem::path& folder);

}  // namespace driftd::camera
