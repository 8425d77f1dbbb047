// SPDX-License-Identifier: MIT
#include "clients/driftctl/frame_times.hpp"

#include <spdlog/fmt/fmt.h>

#include <cctype>
#include <ctime>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace driftd::clients {
namespace {

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

/// "12", "345" with 9 places: 12345000000.
std::int64_t scaled(const std::string& whole, std::string fraction, int places) {
  fraction.resize(static_cast<std::size_t>(places), '0');
  return std::stoll(whole + fraction);
}

bool is_same_second(const std::tm& a, const std::tm& b) {
  return a.tm_year == b.tm_year && a.tm_mon == b.tm_mon && a.tm_mday == b.tm_mday &&
         a.tm_hour == b.tm_hour && a.tm_min == b.tm_min && a.tm_sec == b.tm_sec;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  const bool separated = line.find_first_of(",;\t") != std::string::npos;
  for (const char c : line) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    const bool ends = separated ? c == ',' || c == ';' || c == '\t' : blank;
    if (ends && (separated || !fields.back().empty()))
      fields.emplace_back();
    else if (!blank && c != '"')
      fields.back() += c;
  }
  return fields;
}

}  // namespace

std::int64_t time_ns(const std::string& text, TimeUnit unit) {
  static const std::regex number(R"((-?\d{1,19})(?:\.(\d*))?)");
  static const std::regex date(
      R"((\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|\+00:?00)?)");
  constexpr std::size_t kLongest = 100;  // std::regex goes a call deeper with each character
  std::smatch match;
  try {
    if (text.size() > kLongest) throw std::out_of_range("time");
    if (std::regex_match(text, match, number)) return scaled(match[1], match[2], places_of(unit));
    if (std::regex_match(text, match, date)) {
      std::tm utc{};
      utc.tm_year = std::stoi(match[1]) - 1900;
      utc.tm_mon = std::stoi(match[2]) - 1;
      utc.tm_mday = std::stoi(match[3]);
      utc.tm_hour = std::stoi(match[4]);
      utc.tm_min = std::stoi(match[5]);
      utc.tm_sec = std::stoi(match[6]);
      const std::tm said = utc;
      const std::time_t seconds = timegm(&utc);  // makes a day in March of a 30th of February
      if (is_same_second(said, utc)) return scaled(std::to_string(seconds), match[7], 9);
    }
  } catch (const std::out_of_range&) {  // more digits than there are nanoseconds
  }
  throw std::runtime_error(
      fmt::format("'{}' is neither a time as a decimal number nor a date like "
                  "2026-11-23T09:47:12.345Z",
                  text.substr(0, kLongest)));
}

std::uint64_t frame_number(const std::string& text) {
  static const std::regex number(R"((\d{1,19})(?:\.0*)?)");
  std::smatch match;
  if (!std::regex_match(text, match, number))
    throw std::runtime_error(fmt::format("'{}' is no number of a frame", text));
  return std::stoull(match[1]);
}

std::vector<std::string> read_column(const std::filesystem::path& file, int column) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  std::vector<std::string> texts;
  std::string line;
  bool first = true;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::vector<std::string> fields = fields_of(line.substr(begin));
    const bool there = fields.size() >= static_cast<std::size_t>(column);
    const std::string text = there ? fields[static_cast<std::size_t>(column) - 1] : "";
    const bool heading = first && !text.empty() && text.find_first_of("0123456789") != 0 &&
                         text[0] != '-' && text[0] != '+';
    first = false;
    if (heading) continue;
    if (text.empty()) {
      throw std::runtime_error(
          fmt::format("{}:{}: has no column {}", file.string(), number, column));
    }
    texts.push_back(text);
  }
  if (texts.empty()) throw std::runtime_error(file.string() + ": has no line with a value");
  return texts;
}

}  // namespace driftd::clients
