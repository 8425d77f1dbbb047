// SPDX-License-Identifier: MIT
#include "camera/recording/file_series.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <regex>
#include <set>
#include <system_error>
#include <utility>

#include "camera/recording/image_axes.hpp"
#include "camera/recording/image_stack.hpp"

namespace driftd::camera {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Whether this is a number's sign: a '-' before digits, at the beginning or behind a character
/// that separates words. (A '-' behind a word separates, and is no sign.)
bool is_sign(std::string_view name, std::size_t at) {
  constexpr std::string_view kSeparators = "_=(./";
  return name[at] == '-' && at + 1 < name.size() && is_digit(name[at + 1]) &&
         (at == 0 || kSeparators.find(name[at - 1]) != std::string_view::npos);
}

/// A number, or anything else, that begins there.
std::string_view part_at(std::string_view name, std::size_t begin) {
  const bool number = is_digit(name[begin]) || is_sign(name, begin);
  std::size_t end = begin + 1;
  while (end < name.size() &&
         (number ? is_digit(name[end]) : !is_digit(name[end]) && !is_sign(name, end))) {
    ++end;
  }
  return name.substr(begin, end - begin);
}

bool is_number(std::string_view part) {
  return is_digit(part.back());
}

std::string_view without_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  return digits;
}

/// Behind the digits of a date and time, in place of its separators: so many decimals it has.
constexpr std::string_view kWholeSeconds = "\1", kMilliseconds = "\2", kMicroseconds = "\3";
constexpr std::string_view kDateMarks = "\1\2\3";

/// The name with each date and time in it (2026-11-23_09-47-12, 20261123_094712_345) as one number,
/// which rises with it.
std::string with_dates_joined(std::string name) {
  static const std::regex date(
      R"((^|\D)(\d{4})([-_.]?)(0[1-9]|1[0-2])\3(0[1-9]|[12]\d|3[01])[-_ T.])"
      R"(([01]\d|2[0-3])([-_.:h]?)([0-5]\d)[-_.:m]?([0-5]\d)(?:[-_.,](\d{3}|\d{6}))?(?!\d))");
  constexpr std::size_t kLongest = 1000;  // std::regex goes a call deeper with each character
  std::smatch match;
  if (name.size() > kLongest || !std::regex_search(name, match, date)) return name;
  std::string joined = match[1];
  for (const std::size_t part : {2u, 4u, 5u, 6u, 8u, 9u, 10u}) joined += match[part];
  joined += match.length(10) == 0   ? kWholeSeconds
            : match.length(10) == 3 ? kMilliseconds
                                    : kMicroseconds;
  return match.prefix().str() + joined + with_dates_joined(match.suffix().str());
}

/// Below, at or above 0, as std::string_view::compare().
int compare_parts(std::string_view one, std::string_view other) {
  if (!is_number(one) || !is_number(other)) return one.compare(other);
  const bool below_zero = one[0] == '-';
  if (below_zero != (other[0] == '-')) return below_zero ? -1 : 1;
  if (below_zero) {
    one.remove_prefix(1);
    other.remove_prefix(1);
    std::swap(one, other);
  }
  one = without_zeros(one);
  other = without_zeros(other);
  if (one.size() != other.size()) return one.size() < other.size() ? -1 : 1;
  return one.compare(other);
}

/// What a name is without its numbers, and these.
struct NameParts {
  std::string text;                  ///< '\0' in place of each number
  std::vector<std::string> numbers;  ///< as they are written
};

NameParts parts_of(const std::filesystem::path& file) {
  NameParts parts;
  const std::string path = with_dates_joined(file.string());
  for (std::size_t at = 0; at < path.size();) {
    const std::string_view part = part_at(path, at);
    at += part.size();
    if (is_number(part)) {
      parts.text += '\0';
      parts.numbers.emplace_back(part);
    } else {
      parts.text += part;
    }
  }
  return parts;
}

/// Which of the numbers stand behind another and a point, as the decimals of 0.75 do; or a comma.
std::vector<bool> decimals_in(const NameParts& parts) {
  std::vector<bool> decimals;
  for (std::size_t at = 0; at < parts.text.size(); ++at) {
    if (parts.text[at] != '\0') continue;
    decimals.push_back(at >= 2 && (parts.text[at - 1] == '.' || parts.text[at - 1] == ',') &&
                       parts.text[at - 2] == '\0');
  }
  return decimals;
}

/// The name without its ending: .tif, .ome.tif
std::string stem_of(const std::filesystem::path& file) {
  std::filesystem::path stem = file.stem();
  if (stem.extension() == ".ome") stem = stem.stem();
  return (file.parent_path() / stem).string();
}

/// Whether the first of some files has no number where the others have one: movie.tif,
/// movie@0001.tif or movie_X2.tif.
bool begins_without(const std::vector<std::filesystem::path>& files) {
  if (files.size() < 2 || files[0].extension() != files[1].extension()) return false;
  const std::string first = stem_of(files[0]), second = stem_of(files[1]);
  if (!second.starts_with(first) || second.size() <= first.size()) return false;
  const std::string behind = second.substr(first.size());
  return !is_digit(behind[0]) && std::ranges::any_of(behind, is_digit);
}

std::optional<std::int64_t> number_in(const std::string& digits) {
  std::int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

bool comes_before(std::string_view one, std::string_view other) {
  std::size_t at = 0, at_other = 0;
  while (at < one.size() && at_other < other.size()) {
    const std::string_view part = part_at(one, at), part_of_other = part_at(other, at_other);
    const int order = compare_parts(part, part_of_other);
    if (order != 0) return order < 0;
    at += part.size();
    at_other += part_of_other.size();
  }
  return at == one.size() && at_other < other.size();
}

/// One of the numbers in names that are alike but for these.
struct Counter {
  std::set<std::string> values;
  bool rises = true;        ///< from each file to the next
  bool differs = false;     ///< as it is written
  bool as_decimals = true;  ///< rises where its digits are decimals, too, or they cannot be
};

Counter counter_of(const std::vector<NameParts>& parts, std::size_t number) {
  Counter counter;
  std::set<std::string> decimals;  // .1 and .10 are one
  for (std::size_t file = 0; file < parts.size(); ++file) {
    const std::string& here = parts[file].numbers[number];
    counter.values.emplace(without_zeros(here));
    decimals.insert(here.substr(0, here.find_last_not_of('0') + 1));
    if (file == 0) continue;
    const std::string& before = parts[file - 1].numbers[number];
    counter.rises = counter.rises && compare_parts(before, here) < 0;
    counter.differs = counter.differs || before != here;
    counter.as_decimals = counter.as_decimals && before < here;
  }
  counter.as_decimals = counter.as_decimals || decimals.size() < parts.size();
  return counter;
}

std::vector<std::filesystem::path> in_order(const std::vector<std::filesystem::path>& given) {
  std::vector<std::pair<std::string, std::filesystem::path>> named;
  named.reserve(given.size());
  for (const auto& file : given) named.emplace_back(with_dates_joined(stem_of(file)), file);
  std::ranges::sort(named, [](const auto& one, const auto& other) {
    return one.first == other.first ? one.second < other.second
                                    : comes_before(one.first, other.first);
  });
  std::vector<std::filesystem::path> files;
  files.reserve(given.size());
  for (auto& [name, file] : named) files.push_back(std::move(file));
  return files;
}

/// What stands around one of the numbers of a name.
struct Around {
  std::string before;  ///< letters, in lower case, behind what separates words
  bool is_date = false;
};

Around around(const NameParts& parts, std::size_t number) {
  std::size_t at = parts.text.find('\0');
  for (; number > 0; --number) at = parts.text.find('\0', at + 1);
  Around found;
  found.is_date =
      at + 1 < parts.text.size() && kDateMarks.find(parts.text[at + 1]) != std::string_view::npos;
  std::size_t begin = at;
  while (begin > 0 && std::isalpha(static_cast<unsigned char>(parts.text[begin - 1])) != 0) --begin;
  for (const char c : std::string_view(parts.text).substr(begin, at - begin))
    found.before += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return found;
}

/// What the names of files count along.
struct Counting {
  std::optional<std::size_t> number;  ///< that differs from file to file, and always rises
  bool decimal = false;               ///< numbers with a point, whose order is not known
  std::string differing;              ///< for people
};

/// @param parts  of files in the order of their numbers, with the same text
Counting counting_of(const std::vector<NameParts>& parts) {
  Counting counting;
  const std::vector<bool> decimals = decimals_in(parts.front());
  bool others_differ = false;
  for (std::size_t i = 0; i < decimals.size(); ++i) {
    const Counter counter = counter_of(parts, i);
    if (!counter.differs) continue;
    counting.differing += (counting.differing.empty() ? "" : ", ") + *counter.values.begin() +
                          " ... (" + std::to_string(counter.values.size()) + ")";
    const bool whole = !decimals[i] || counter.as_decimals;
    if (counter.rises && whole && !counting.number) counting.number = i;
    const bool has_decimals = i + 1 < decimals.size() && decimals[i + 1];
    if (decimals[i]) counting.decimal = true;
    if (!decimals[i] && !has_decimals) others_differ = true;
  }
  counting.decimal = counting.decimal && !counting.number && !others_differ;
  return counting;
}

}  // namespace

FileSeries in_series(const std::vector<std::filesystem::path>& given, bool are_chosen) {
  std::vector<std::filesystem::path> files = in_order(given);
  FileSeries as_given{.files = given,
                      .missing = {},
                      .along = {},
                      .order = files == given ? FileOrder::OfBoth : FileOrder::AsGiven};
  FileSeries series{.files = files,
                    .missing = {},
                    .along = {},
                    .order = files == given ? FileOrder::OfBoth : FileOrder::OfNumbers};
  const std::filesystem::path folder =
      files.front().has_parent_path() ? files.front().parent_path() : ".";
  const auto name = [](const std::filesystem::path& file) { return file.filename().string(); };
  if (begins_without(files)) files.erase(files.begin());
  std::vector<NameParts> parts;
  for (const auto& file : files) {
    parts.push_back(parts_of(file));
    if (parts.back().text == parts.front().text) continue;
    if (are_chosen) return as_given;
    throw RecordingError(folder, "has files that are not numbered alike, " + name(files.front()) +
                                     " and " + name(file) + ": name those of one movie");
  }
  const Counting counting = counting_of(parts);
  if (!counting.number && parts.size() > 1) {
    if (are_chosen && counting.decimal) return as_given;
    throw RecordingError(folder, "has " + std::to_string(parts.size()) +
                                     " files whose names count " +
                                     (counting.decimal ? "in decimals" : "along several numbers") +
                                     ", " + counting.differing + ", from " + name(files.front()) +
                                     " to " + name(files.back()) + ": name those of one movie" +
                                     (counting.decimal ? " in their order" : ""));
  }
  if (!counting.number) return series;  // one file
  const Around here = around(parts.front(), *counting.number);
  constexpr std::array<std::string_view, 8> kNoTimes{"c",  "ch",  "channel",  "w",
                                                     "xy", "pos", "position", "well"};
  if (std::ranges::find(kNoTimes, here.before) != kNoTimes.end()) series.along = here.before;
  std::vector<std::int64_t> numbers;
  for (const NameParts& part : parts) {
    const auto number = number_in(part.numbers[*counting.number]);
    if (number && !here.is_date) numbers.push_back(*number);
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
    if (hidden || (end != ".tif" && end != ".tiff")) continue;
    if (entry.is_regular_file(error)) files.push_back(entry.path());
    if (entry.is_symlink(error) && !entry.exists(error)) {
      throw RecordingError(entry.path(),
                           "is a link to " +
                               std::filesystem::read_symlink(entry.path(), error).string() +
                               ", which is not there: bring it to its place, or remove the link");
    }
  }
  if (files.empty()) throw RecordingError(folder, "is a folder without a TIFF file (.tif, .tiff)");
  return files;
}

}  // namespace driftd::camera
