// SPDX-License-Identifier: MIT
#include "clients/driftctl/frame_times.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/time_text.hpp"

namespace driftd::clients {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Excel begins its UTF-8 files with it
constexpr std::string_view kDigits = "0123456789";
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
};

/// What stands in quotes is one field, without them.
TableLine fields_of(const std::string& line, Ends ends) {
  TableLine result{.ends = ends, .fields = {""}, .quoted = {false}};
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
  for (std::string& field : result.fields) field = trimmed(field);
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
};

bool is_heading(const TableLine& row, std::size_t column) {
  if (column >= row.fields.size()) return false;
  const std::string& text = row.fields[column];
  return !text.empty() && (kDigits.find(text[0]) == std::string_view::npos) &&
         std::string_view("+-.,").find(text[0]) == std::string_view::npos;
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

/// All lines but empty ones and comments (#).
TableLines read_rows(const std::filesystem::path& file, int column, bool decimal_comma) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  TableLines result;
  std::optional<bool> wide;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    const bool first = !wide;
    if (first) wide = has_outside_quotes(line, ";\t");
    const Ends ends = *wide ? Ends::Wide : decimal_comma ? Ends::Blank : ends_of(line);
    TableLine row = fields_of(line, ends);
    row.line = number;
    if (first && is_heading(row, static_cast<std::size_t>(column) - 1))
      result.heading = std::move(row);
    else
      result.rows.push_back(std::move(row));
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

/// Times of a table, with what stands in the columns behind a date's.
class TimeReader {
 public:
  TimeReader(std::filesystem::path file, const TimeColumn& where)
      : file_(std::move(file)),
        where_(where),
        table_(read_rows(file_, where.column, where.decimal_comma)),
        points_(std::any_of(table_.rows.begin(), table_.rows.end(), [this](const TableLine& row) {
          return matches(field_of(file_, row, where_.column), with_point_);
        })) {}

  FrameTimes read() {
    FrameTimes times;
    for (const TableLine& row : table_.rows) times.ns.push_back(time_of(row, times));
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
    const auto column = static_cast<std::size_t>(where_.column) - 1;
    std::string text = field_of(file_, row, where_.column);
    auto next = row.fields.begin() + where_.column;
    const auto next_is = [&](const std::regex& pattern) {
      return next != row.fields.end() && matches(*next, pattern);
    };
    if (matches(text, date_) && next_is(time_)) text += ' ' + *next++;
    if (row.ends == Ends::Blank && next_is(offset_)) text += *next++;
    if (row.ends == Ends::Comma && !row.quoted[column] && joins(row) &&
        matches(text, to_the_second_) && next_is(decimals_)) {
      ++commas_;
      const std::size_t digits = std::min(next->find_first_not_of(kDigits), next->size());
      fewest_ = std::min(fewest_, digits);
      most_ = std::max(most_, digits);
      text += ',' + *next++;
    }
    if (row.ends == Ends::Comma && row.fields.size() == 2 && matches(row.fields[0], whole_) &&
        matches(row.fields[1], whole_)) {
      refuse_two_numbers(row);
      if (table_.heading && table_.heading->fields.size() == 1) text += ',' + *next++;
    }
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
    throw std::runtime_error(
        fmt::format("{}: the comma behind the seconds may be a decimal sign or end a column: "
                    "--decimal-comma says the one, a line of headings the other",
                    file_.string()));
  }

  void refuse_two_numbers(const TableLine& row) const {
    if (where_.told || table_.heading || where_.unit == TimeUnit::Nanoseconds) return;
    throw std::runtime_error(
        fmt::format("{}:{}: '{},{}' may be one number with a decimal comma or two columns: "
                    "--decimal-comma says the one, --column {} or a line of headings the other",
                    file_.string(), row.line, row.fields[0], row.fields[1], where_.column));
  }

  const std::regex date_{R"(\d{4}-\d\d-\d\d)"}, time_{R"(\d\d:.*)"},
      offset_{R"([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)"},
      to_the_second_{R"(.*([T ]\d\d:\d\d:|T\d{4})\d\d)"},
      decimals_{R"(\d+ ?([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)?)"}, whole_{R"([+-]?\d+)"},
      with_point_{R"(\d.*:.*\.\d.*)"};
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

std::vector<std::string> read_column(const std::filesystem::path& file, int column) {
  std::vector<std::string> texts;
  for (const TableLine& row : read_rows(file, column, false).rows)
    texts.push_back(field_of(file, row, column));
  return texts;
}

}  // namespace driftd::clients
