// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/frame_times.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/table_text.hpp"
#include "base/time_text.hpp"

namespace driftd::clients {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kMinus = "\xe2\x88\x92";  // U+2212, as typesetters write it
/// Longer texts are no times; std::regex goes a call deeper with each character.
constexpr std::size_t kLongest = 100;

/// Decimal places of a unit in nanoseconds.
int places_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::Seconds:
      return 9;
    case TimeUnit::Milliseconds:
      return 6;
    case TimeUnit::Microseconds:
      return 3;
    case TimeUnit::Nanoseconds:
      break;
  }
  return 0;
}

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::string trimmed(const std::string& text) {
  const auto begin = std::find_if_not(text.begin(), text.end(), is_blank);
  const auto end = std::find_if_not(text.rbegin(), text.rend(), is_blank).base();
  return begin < end ? std::string(begin, end) : std::string();
}

/// What ends a column.
enum class Ends { Comma, Wide, Blank };

/// A line with values: its fields, and how they were told apart.
struct TableLine {
  int line = 0;
  Ends ends = Ends::Blank;
  std::vector<std::string> fields;
  std::vector<bool> quoted;  ///< each field: it ends with its quotes
  std::vector<bool> spaced;  ///< each field: a blank stands before it
};

/// What stands in quotes is one field, without them.
TableLine fields_of(const std::string& line, Ends ends) {
  TableLine result{.ends = ends, .fields = {""}, .quoted = {false}, .spaced = {}};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      result.quoted.back() = true;
      continue;
    }
    const bool end = !quoted && (ends == Ends::Comma  ? c == ','
                                 : ends == Ends::Wide ? c == ';' || c == '\t'
                                                      : is_blank(c));
    if (!end) {
      result.fields.back() += c;
    } else if (ends != Ends::Blank || !result.fields.back().empty()) {
      result.fields.emplace_back();
      result.quoted.push_back(false);
    }
  }
  for (std::string& field : result.fields) {
    result.spaced.push_back(!field.empty() && is_blank(field[0]));
    field = trimmed(field);
  }
  return result;
}

bool has_outside_quotes(const std::string& line, std::string_view any_of) {
  bool quoted = false;
  return std::any_of(line.begin(), line.end(), [&](char c) {
    if (c == '"') quoted = !quoted;
    return !quoted && any_of.find(c) != std::string_view::npos;
  });
}

struct TableLines {
  std::vector<TableLine> rows;
  std::optional<TableLine> heading;
  /// The comment right before the first row where it has a name for each field, as numpy's savetxt
  /// writes headings.
  std::optional<TableLine> comment;
};

bool begins_with(const std::string& text, std::string_view any_of) {
  return !text.empty() && any_of.find(text[0]) != std::string_view::npos;
}

/// What programs write where there is no value.
bool is_missing(const std::string& text) {
  std::string word;
  for (const char c : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 12> kWords = {"nan", "none", "null",     "nil",
                                                       "na",  "n/a",  "#n/a",     "<na>",
                                                       "nat", "inf",  "infinity", "missing"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// A heading has a letter (any beyond ASCII but a minus is one), and no number before the column.
bool is_heading(const TableLine& row, std::size_t column) {
  if (column >= row.fields.size()) return false;
  const std::string& text = row.fields[column];
  return !begins_with(text, "0123456789+-.,") && !text.starts_with(kMinus) && !is_missing(text) &&
         !begins_with(row.fields[0], kDigits) && std::any_of(text.begin(), text.end(), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte >= 0x80 || std::isalpha(byte) != 0;
         });
}

bool has_digit_at(const std::string& text, std::size_t at) {
  return at < text.size() && kDigits.find(text[at]) != std::string_view::npos;
}

/// Commas, where there are any, unless blanks end the columns and the comma is a decimal sign: "7
/// 1795902646,59", "7 2026-11-28 21:50:46,59".
Ends ends_of(const std::string& line) {
  if (!has_outside_quotes(line, ",")) return Ends::Blank;
  const std::string first = fields_of(line, Ends::Comma).fields.front();
  const std::size_t blank = first.find_first_of(" \t");
  const bool two_values = blank != std::string::npos && has_digit_at(first, 0) &&
                          has_digit_at(first, first.find_first_not_of(" \t", blank));
  return two_values && !parse_date_time(first) ? Ends::Blank : Ends::Comma;
}

/// "ms" of "(ms)", "[ms]" and "ms."
std::string without_brackets(const std::string& text) {
  const std::size_t begin = text.find_first_not_of("([");
  const std::size_t end = text.find_last_not_of(")].");
  return begin <= end && end != std::string::npos ? text.substr(begin, end + 1 - begin) : "";
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  try {
    return text_lines(file);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

/// All lines but empty ones and comments (#).
TableLines read_rows(const std::filesystem::path& file, int column, bool decimal_comma) {
  TableLines result;
  std::optional<bool> wide;
  int number = 0;
  std::string comment;
  for (std::string& line : lines_of(file)) {
    ++number;
    line = trimmed(line);
    if (line.empty()) continue;
    if (line[0] == '#' && !line.starts_with("#N/A")) {
      comment = line.substr(1);
      continue;
    }
    const bool first = !wide;
    if (first) wide = has_outside_quotes(line, ";\t");
    const Ends ends = *wide ? Ends::Wide : decimal_comma ? Ends::Blank : ends_of(line);
    TableLine row = fields_of(line, ends);
    row.line = number;
    if (first && is_heading(row, static_cast<std::size_t>(column) - 1))
      result.heading = std::move(row);
    else
      result.rows.push_back(std::move(row));
    if (!first || comment.empty()) continue;
    TableLine before = fields_of(trimmed(comment), ends);
    before.line = number - 1;
    const TableLine& here = result.heading ? *result.heading : result.rows.front();
    if (before.fields.size() == here.fields.size()) result.comment = std::move(before);
  }
  if (result.rows.empty()) throw std::runtime_error(file.string() + ": has no line with a value");
  return result;
}

const std::string& field_of(const std::filesystem::path& file, const TableLine& row, int column) {
  static const std::string none;
  const auto at = static_cast<std::size_t>(column) - 1;
  const std::string& text = at < row.fields.size() ? row.fields[at] : none;
  if (!text.empty()) return text;
  throw std::runtime_error(fmt::format("{}:{}: has no column {}", file.string(), row.line, column));
}

bool matches(const std::string& text, const std::regex& pattern) {
  return text.size() <= kLongest && std::regex_match(text, pattern);
}

/// Refuses "1 234.5" and "1,234.5" where blanks or commas end the columns: it may be one number
/// with marks between its thousands. Headings tell that these are columns; --column does, too,
/// where all lines have as many.
void refuse_parted_number(const std::filesystem::path& file, const TableLines& table,
                          const TableLine& row, const TimeColumn& where) {
  static const std::regex group(R"(\d{3}([.,]\d+)?)");
  auto at = static_cast<std::size_t>(where.column) - 1;
  const bool commas = row.ends == Ends::Comma;
  if (row.ends == Ends::Wide || row.quoted[at] || (commas && where.no_decimal_comma)) return;
  std::string number = row.fields[at];
  while (++at < row.fields.size() && matches(row.fields[at], group) && !(commas && row.spaced[at]))
    number += (commas ? ',' : ' ') + row.fields[at];
  if (without_thousands(number) == number) return;
  const bool named = table.heading && table.heading->fields.size() == row.fields.size();
  const bool alike = std::ranges::all_of(
      table.rows, [&](const TableLine& other) { return other.fields.size() == row.fields.size(); });
  if (named || (where.told && alike)) return;
  throw std::runtime_error(fmt::format(
      "{}:{}: '{}' may be one number with {} between its thousands, or columns: write it without "
      "these, or let a line of headings{} tell that they are columns",
      file.string(), row.line, number, commas ? "commas" : "blanks",
      alike ? fmt::format(" or --column {}", where.column) : ""));
}

/// Times of a table, with what stands in the columns behind a date's.
class TimeReader {
 public:
  TimeReader(std::filesystem::path file, const TimeColumn& where)
      : file_(std::move(file)),
        where_(where),
        table_(read_rows(file_, where.column, where.decimal_comma)),
        points_(std::any_of(table_.rows.begin(), table_.rows.end(), [this](const TableLine& row) {
          const auto behind = static_cast<std::size_t>(where_.column);
          return matches(field_of(file_, row, where_.column), with_point_) ||
                 (behind < row.fields.size() && matches(row.fields[behind], time_) &&
                  matches(row.fields[behind], with_point_));
        })) {}

  FrameTimes read() {
    FrameTimes times;
    for (const TableLine& row : table_.rows) times.ns.push_back(time_of(row, times));
    if (!times.dates) judge_heading();
    tell_order(times);
    if (commas_ > 0) {
      refuse_columns();
      times.notes.push_back(
          fmt::format("{}: the comma behind the seconds of {} dates is taken for a decimal sign",
                      file_.string(), commas_));
    }
    if (without_offset_ > 0) {
      times.notes.push_back(
          fmt::format("{}: {} dates say nothing of their offset from UTC, and are taken as UTC",
                      file_.string(), without_offset_));
    }
    return times;
  }

 private:
  std::int64_t time_of(const TableLine& row, FrameTimes& times) {
    std::string text = without_thousands(field_of(file_, row, where_.column));
    refuse_parted_number(file_, table_, row, where_);
    const auto first = static_cast<std::size_t>(where_.column);  // the field behind
    std::size_t next = first;
    const auto next_is = [&](const std::regex& pattern) {
      return next < row.fields.size() && matches(row.fields[next], pattern);
    };
    join_time(row, text, next);
    if (row.ends == Ends::Blank && next_is(offset_)) {
      const std::string* const name = name_of(row, next, next - first);
      if (name == nullptr || matches(*name, zone_name_)) text += row.fields[next++];
    }
    const bool comma = row.ends == Ends::Comma && !where_.no_decimal_comma &&
                       next < row.fields.size() && !row.quoted[first - 1] && !row.spaced[next] &&
                       !next_is(other_date_);
    if (comma && joins(row) && matches(text, without_decimals_) && next_is(decimals_and_more_)) {
      if (!matches(text, to_the_second_) || !next_is(decimals_)) refuse_comma(row);
      const std::string& decimals = row.fields[next++];
      ++commas_;
      const std::size_t digits = std::min(decimals.find_first_not_of(kDigits), decimals.size());
      fewest_ = std::min(fewest_, digits);
      most_ = std::max(most_, digits);
      text += ',' + decimals;
    } else if (comma && matches(text, whole_) && next_is(fraction_)) {
      refuse_two_numbers(row);
      if (table_.heading && table_.heading->fields.size() == 1) text += ',' + row.fields[next++];
    }
    if (next < row.fields.size()) judge_behind(row, text, next, next - first);
    try {
      const std::int64_t ns = time_ns(text, where_.unit);
      if (!parse_decimal_ns(text, places_of(where_.unit))) {
        times.dates = true;
        if (!parse_date_time(text)->has_offset) ++without_offset_;
      }
      return ns;
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("{}:{}: {}", file_.string(), row.line, error.what()));
    }
  }

  /// Frames follow one another in time. Equal times are rounded ones; what goes back may be hours
  /// without AM and PM, or the hour that the end of summer time repeats.
  void tell_order(FrameTimes& times) const {
    std::size_t equal = 0, back = 0, first_equal = 0, first_back = 0;
    for (std::size_t i = 1; i < times.ns.size(); ++i) {
      if (times.ns[i] == times.ns[i - 1] && equal++ == 0) first_equal = i;
      if (times.ns[i] < times.ns[i - 1] && back++ == 0) first_back = i;
    }
    const auto note = [&](std::size_t count, std::size_t first, std::string_view what) {
      if (count == 0) return;
      times.notes.push_back(fmt::format("{}:{}: the time {} (and in {} more lines)", file_.string(),
                                        table_.rows[first].line, what, count - 1));
    };
    note(equal, first_equal,
         "is that of the line before: if it was rounded, the drift is that of another time");
    if (back == 0) return;
    const double before_ns = static_cast<double>(times.ns[first_back - 1]);
    note(back, first_back,
         fmt::format("goes back by {:.6g} s: lines in another order, hours without AM and PM, or a "
                     "clock that was set",
                     1e-9 * (before_ns - static_cast<double>(times.ns[first_back]))));
  }

  /// A date's time in the field behind it. No date is midnight while a time stands in its line.
  void join_time(const TableLine& row, std::string& text, std::size_t& next) const {
    if (next == row.fields.size() || matches(text, clock_) || !parse_date_time(text)) return;
    const std::string& behind = row.fields[next];
    const bool number = matches(text, whole_);  // 20261128
    const bool blank = row.ends == Ends::Blank && begins_with(behind, kDigits) && !number;
    if (matches(behind, time_) || blank) {
      text += ' ' + row.fields[next++];
      return;
    }
    const auto from = row.fields.begin() + static_cast<std::ptrdiff_t>(next);
    const bool elsewhere = std::any_of(
        from, row.fields.end(), [this](const std::string& field) { return matches(field, time_); });
    const bool has_digit = behind.find_first_of(kDigits) != std::string::npos;
    if (elsewhere || (!number && has_digit && !matches(behind, other_date_))) {
      throw std::runtime_error(
          fmt::format("{}:{}: '{}' is a date without a time, and '{}' behind it is no time like "
                      "09:47:12.345",
                      file_.string(), row.line, text, behind.substr(0, kLongest)));
    }
  }

  /// The heading's name of a field, where `joined` fields before it may have had one name together.
  [[nodiscard]] const std::string* name_of(const TableLine& row, std::size_t at,
                                           std::size_t joined) const {
    if (!table_.heading) return nullptr;
    const std::vector<std::string>& names = table_.heading->fields;
    if (names.size() == row.fields.size()) return &names[at];
    return names.size() + joined == row.fields.size() ? &names[at - joined] : nullptr;
  }

  /// What stands behind a time must not change it: an offset in a column of its own is joined,
  /// AM, PM, zones by name and units are refused.
  void judge_behind(const TableLine& row, std::string& text, std::size_t at,
                    std::size_t joined) const {
    const std::string& behind = row.fields[at];
    if (behind.empty()) return;
    if (parse_decimal_ns(text, places_of(where_.unit))) {
      const std::string unit = without_brackets(behind);
      if (matches(unit, units_) && !matches(unit, unit_of(where_.unit)))
        refuse_behind(row, behind, "is a unit of time: --unit s, ms, us or ns says it");
      return;
    }
    const auto date = parse_date_time(text);
    if (!date) return;
    if (matches(behind, half_day_)) refuse_zone(row, behind);
    const std::string* name = name_of(row, at, joined);
    const bool zone = name != nullptr && matches(*name, zone_name_);
    if (date->has_offset || (name != nullptr && !zone)) return;
    const bool may_join = row.ends != Ends::Blank && matches(text, clock_);
    if (may_join && matches(behind, zone ? offset_ : clear_offset_)) {
      text += behind;
      return;
    }
    if (matches(behind, offset_))
      refuse_behind(row, behind,
                    "may be an offset from UTC or another column: -08:00 is an offset, and a line "
                    "of headings names columns");
    const bool word = row.ends == Ends::Blank && !begins_with(behind, "0123456789.,#") &&
                      !matches(behind, signed_decimal_);
    if (zone || word || matches(behind, zone_) || behind.starts_with(kMinus))
      refuse_zone(row, behind);
  }

  /// A heading may have a unit, which is then that of the numbers.
  void judge_heading() const {
    const std::optional<TableLine>& heading = table_.heading ? table_.heading : table_.comment;
    if (!heading) return;
    const std::vector<std::string>& names = heading->fields;
    const auto at = static_cast<std::size_t>(where_.column);
    const bool alone = table_.rows.front().fields.size() == 1;  // "time in ms"
    std::string name = names.at(at - 1);
    for (std::size_t i = at; i < names.size(); ++i) {
      if (!alone && !begins_with(names[i], "([")) break;  // "Timestamp (ms)"
      name += ' ' + names[i];
    }
    std::smatch unit;
    if (name.size() > kLongest || !std::regex_match(name, unit, heading_unit_) ||
        matches(unit.str(unit[1].matched ? 1 : 2), unit_of(where_.unit)))
      return;
    throw std::runtime_error(
        fmt::format("{}:{}: the heading '{}' says {}, and another unit is taken: --unit s, ms, us "
                    "or ns says it",
                    file_.string(), heading->line, name, unit.str(unit[1].matched ? 1 : 2)));
  }

  [[noreturn]] void refuse_zone(const TableLine& row, const std::string& behind) const {
    refuse_behind(
        row, behind,
        "is no offset from UTC like Z, UTC, -08:00, -0800 or -08, and hours go from 00 to 24 "
        "without AM and PM; if it is another column, commas and a line of headings say it");
  }

  [[noreturn]] void refuse_behind(const TableLine& row, const std::string& behind,
                                  std::string_view why) const {
    throw std::runtime_error(fmt::format("{}:{}: '{}' behind the time {}", file_.string(), row.line,
                                         behind.substr(0, kLongest), why));
  }

  /// Whether a comma behind the seconds is a decimal sign: not where the heading has a name for
  /// what follows, nor where other times have a decimal point.
  [[nodiscard]] bool joins(const TableLine& row) const {
    return !points_ && (!table_.heading || table_.heading->fields.size() < row.fields.size());
  }

  /// Numbers of another column behind the seconds, by that they are of any length.
  void refuse_columns() const {
    const auto as_long = [this](const TableLine& row) {
      return row.fields.size() == table_.rows.front().fields.size();
    };
    if (table_.heading || fewest_ == most_ ||
        !std::all_of(table_.rows.begin(), table_.rows.end(), as_long))
      return;
    refuse_comma(table_.rows.front());
  }

  [[noreturn]] void refuse_comma(const TableLine& row) const {
    throw std::runtime_error(fmt::format(
        "{}:{}: the comma behind the time may be a decimal sign or end a column: "
        "--decimal-comma says the one, --no-decimal-comma or a line of headings the other",
        file_.string(), row.line));
  }

  /// Refuses a row in which a comma may be a decimal one or separate columns. --column says of two
  /// fields that they are two; of more fields it does not say which of them are one number.
  void refuse_two_numbers(const TableLine& row) const {
    const std::size_t fields = row.fields.size();
    const std::size_t names = table_.heading ? table_.heading->fields.size() : 0;
    const bool two = fields == 2;
    if (where_.unit == TimeUnit::Nanoseconds || points_ || names >= fields ||
        (two && (where_.told || names > 0)))
      return;
    const auto at = static_cast<std::size_t>(where_.column) - 1;
    throw std::runtime_error(fmt::format(
        "{}:{}: '{},{}' may be one number with a decimal comma or two columns: --decimal-comma "
        "says the one, {}--no-decimal-comma or a line of headings the other",
        file_.string(), row.line, row.fields[at], row.fields[at + 1],
        two ? fmt::format("--column {}, ", where_.column) : ""));
  }

  static const std::regex& unit_of(TimeUnit unit) {
    static const std::regex seconds("s|secs?|seconds?", std::regex::icase),
        milliseconds("ms|msecs?|milliseconds?", std::regex::icase),
        microseconds("(u|\xc2\xb5|\xce\xbc)s(ecs?)?|microseconds?", std::regex::icase),
        nanoseconds("ns|nsecs?|nanoseconds?", std::regex::icase);
    switch (unit) {
      case TimeUnit::Seconds:
        return seconds;
      case TimeUnit::Milliseconds:
        return milliseconds;
      case TimeUnit::Microseconds:
        return microseconds;
      case TimeUnit::Nanoseconds:
        break;
    }
    return nanoseconds;
  }

  const std::regex time_{R"(\d\d?:.*)"}, clock_{R"(\d.*[Tt ]\d.*)"},
      offset_{R"([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)"},
      clear_offset_{R"([Zz]|UTC|GMT|[+-](\d\d:|0\d)\d\d)"},
      half_day_{R"([ap]\.?m\.?)", std::regex::icase},
      zone_{R"([A-Z]{2,3}T|(UTC|GMT|Z)?[+-]\d\d?(:?\d\d)?|[A-Z][A-Za-z]+/[A-Za-z_/-]+)"},
      zone_name_{"((utc|gmt|time)[ _-]?)?(offset|zone)|tz|utc|gmt", std::regex::icase},
      heading_unit_{
          "(?:.*[^A-Za-z])?(ms|us|\xc2\xb5s|\xce\xbcs|ns|(?:milli|micro|nano)seconds?|m?secs?)"
          "[^A-Za-z]*|.*[(\\[](s|seconds?|mins?|minutes?|hr?s?|hours?|d|days?)[)\\]]",
          std::regex::icase},
      signed_decimal_{R"([+-]\d*[.,]\d.*)"},
      units_{
          "(m|u|n|\xc2\xb5|\xce\xbc)?s(ecs?)?|([a-z]+)?seconds?|mins?|minutes?|hr?s?|hours?|d|"
          "days?",
          std::regex::icase},
      without_decimals_{R"(\d[\dW-]*[Tt ]\d[\d:]*)"},
      to_the_second_{R"(.*([Tt ]\d?\d:\d\d:|[Tt ]\d{4})\d\d)"},
      decimals_{R"(\d+ ?([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)?)"},
      decimals_and_more_{R"(\d+( .*|[A-Zz].*|[+-]\d\d?(:?\d\d)?)?)"},
      fraction_{R"(\d+([eE][+-]?\d+)?( .*)?)"}, other_date_{R"(\d{4}-(\d\d-|W).*)"},
      whole_{R"([+-]?\d+)"}, with_point_{R"(\d.*:.*\.\d.*|[+-]?\d+\.\d.*)"};
  std::filesystem::path file_;
  TimeColumn where_;
  TableLines table_;
  bool points_;
  std::size_t commas_ = 0, without_offset_ = 0, fewest_ = kLongest, most_ = 0;
};

}  // namespace

std::int64_t time_ns(const std::string& text, TimeUnit unit) {
  if (text.size() <= kLongest) {
    if (const auto number = parse_decimal_ns(text, places_of(unit))) return *number;
    if (const auto date = parse_date_time(text)) return date->ns;
    if (parse_decimal_ns(text, 0)) {
      throw std::runtime_error(fmt::format(
          "'{}' is too large for a time in this unit: --unit s, ms, us or ns says another", text));
    }
  }
  throw std::runtime_error(
      fmt::format("'{}' is neither a time as a decimal number nor a date and time like "
                  "2026-11-23T09:47:12.345Z or 2026-11-23 09:47:12.345 +0100",
                  text.substr(0, kLongest)));
}

std::uint64_t frame_number(const std::string& text) {
  static const std::regex number(R"((\d{1,19})(?:\.0*)?)");
  std::smatch match;
  if (!std::regex_match(text, match, number))
    throw std::runtime_error(fmt::format("'{}' is no number of a frame", text));
  return std::stoull(match[1]);
}

FrameTimes read_times(const std::filesystem::path& file, const TimeColumn& where) {
  return TimeReader(file, where).read();
}

std::vector<std::string> read_column(const std::filesystem::path& file, int column, bool told) {
  std::vector<std::string> texts;
  const TableLines table = read_rows(file, column, false);
  for (const TableLine& row : table.rows) {
    texts.push_back(without_thousands(field_of(file, row, column)));
    refuse_parted_number(file, table, row, {.column = column, .told = told});
  }
  return texts;
}

}  // namespace driftd::clients
