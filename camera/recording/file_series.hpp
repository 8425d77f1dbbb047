// SPDX-License-Identifier: MIT
// Files that are one movie, put in order by the numbers in their names. Pure functions, but for the
// list of a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace driftd::camera {

enum class FileOrder : std::uint8_t { OfBoth, OfNumbers, AsGiven };

struct FileSeries {
  std::vector<std::filesystem::path> files;  ///< in order
  std::string missing;                       ///< numbers between theirs; "": none
  std::string along;                         ///< "ch", "pos": what is no time; "": may be one
  FileOrder order = FileOrder::OfBoth;       ///< of the numbers in their names, and as given
};

/// Names that are alike but for a number that counts are put in its order, img_9 before img_10 and
/// f_-1 before f_0; others that somebody chose stay in theirs.
/// @param given       at least one
/// @param are_chosen  by somebody, so that names without a number in common may be a movie
/// @throws RecordingError for names that count along several numbers, or have nothing in common
FileSeries in_series(const std::vector<std::filesystem::path>& given, bool are_chosen);

/// The TIFFs of a folder; hidden files left out. @throws RecordingError where there is none
std::vector<std::filesystem::path> tiffs_in(const std::filesystem::path& folder);

}  // namespace driftd::camera
