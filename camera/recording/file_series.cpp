// SPDX-License-Identifier: MIT
#include "camera/recording/file_series.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>

#include "camera/recording/image_axes.hpp"
#include "camera/recording/image_stack.hpp"

namespace driftd::camera {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// A run of digits, or of anything else.
std::string_view take_part(std::string_view& text) {
  std::size_t end = 1;
  while (end < text.size() && is_digit(text[end]) == is_digit(text[0])) ++end;
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end);
  return part;
}

std::string_view without_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  return digits;
}

/// Below, at or above 0, as std::string_view::compare().
int compare_parts(std::string_view one, std::string_view other) {
  if (!is_digit(one[0]) || !is_digit(other[0])) return one.compare(other);
  one = without_zeros(one);
  other = without_zeros(other);
  if (one.size() != other.size()) return one.size() < other.size() ? -1 : 1;
  return one.compare(other);
}

/// What a name is without its numbers, and these.
struct NameParts {
  std::string text;                  ///< '\0' in place of each number
  std::vector<std::string> numbers;  ///< without zeros before them
};

NameParts parts_of(const std::filesystem::path& file) {
  NameParts parts;
  const std::string path = file.string();
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view part = take_part(rest);
    if (is_digit(part[0])) {
      parts.text += '\0';
      parts.numbers.emplace_back(without_zeros(part));
    } else {
      parts.text += part;
    }
  }
  return parts;
}

/// Without the folder and what ends the name.
std::string stem_of(const std::filesystem::path& file) {
  return (file.parent_path() / file.stem()).string();
}

/// Whether the first of some files has no number where the others have one: movie.tif,
/// movie@0001.tif or movie_X2.tif.
bool begins_without(const std::vector<std::filesystem::path>& files) {
  if (files.size() < 2) return false;
  const std::string first = stem_of(files[0]), second = stem_of(files[1]);
  return second.starts_with(first) && second.size() > first.size() &&
         !is_digit(second[first.size()]) && files[0].extension() == files[1].extension();
}

std::optional<std::int64_t> number_in(const std::string& digits) {
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

bool comes_before(std::string_view one, std::string_view other) {
  while (!one.empty() && !other.empty()) {
    const int order = compare_parts(take_part(one), take_part(other));
    if (order != 0) return order < 0;
  }
  return one.empty() && !other.empty();
}

FileSeries in_series(std::vector<std::filesystem::path> files, bool are_chosen) {
  std::ranges::sort(files, [](const auto& one, const auto& other) {
    const std::string first = stem_of(one), second = stem_of(other);
    return first == second ? one < other : comes_before(first, second);
  });
  const auto twice = std::ranges::adjacent_find(files);
  if (twice != files.end()) throw RecordingError(*twice, "is named twice");
  const std::filesystem::path folder =
      files.front().has_parent_path() ? files.front().parent_path() : ".";
  const auto name = [](const std::filesystem::path& file) { return file.filename().string(); };
  FileSeries series{.files = files, .missing = {}};
  if (begins_without(files)) files.erase(files.begin());
  std::vector<NameParts> parts;
  for (const auto& file : files) {
    parts.push_back(parts_of(file));
    if (parts.back().text == parts.front().text) continue;
    if (are_chosen) return series;
    throw RecordingError(folder, "has files that are not numbered alike, " + name(files.front()) +
                                     " and " + name(file) + ": name those of one movie");
  }
  // The number that differs from file to file, and always rises.
  std::optional<std::size_t> counts;
  std::string differing;
  for (std::size_t i = 0; i < parts.front().numbers.size(); ++i) {
    std::set<std::string> values;
    bool rises = true;
    for (std::size_t file = 0; file < parts.size(); ++file) {
      const std::string& here = parts[file].numbers[i];
      values.insert(here);
      rises = rises && (file == 0 || compare_parts(parts[file - 1].numbers[i], here) < 0);
    }
    if (values.size() < 2) continue;
    differing += (differing.empty() ? "" : ", ") + *values.begin() + " ... (" +
                 std::to_string(values.size()) + ")";
    if (rises && !counts) counts = i;
  }
  if (!counts && parts.size() > 1) {
    throw RecordingError(folder, "has " + std::to_string(parts.size()) +
                                     " files whose names count along several numbers, " +
                                     differing + ", from " + name(files.front()) + " to " +
                                     name(files.back()) + ": name those of one movie");
  }
  std::vector<std::int64_t> numbers;
  for (const NameParts& part : parts) {
    const auto number = counts ? number_in(part.numbers[*counts]) : std::nullopt;
    if (number) numbers.push_back(*number);
  }
  series.missing = missing_between(numbers);
  return series;
}

std::vector<std::filesystem::path> tiffs_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string end = entry.path().extension().string();
    std::ranges::transform(end, end.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool hidden = entry.path().filename().string().starts_with('.');
    if ((end == ".tif" || end == ".tiff") && !hidden && entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) throw RecordingError(folder, "is a folder without a TIFF file (.tif, .tiff)");
  return files;
}

}  // namespace driftd::camera
