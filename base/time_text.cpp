// SPDX-License-Identifier: MIT
#include "base/time_text.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

namespace driftd {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000, kMinuteNs = 60 * kSecondNs,
                       kHourNs = 60 * kMinuteNs;
/// What int64 holds of nanoseconds, in whole years.
constexpr int kFirstYear = 1678, kLastYear = 2261;

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Takes a text apart from its beginning.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::size_t digits() const {
    std::size_t count = 0;
    while (count < rest_.size() && is_digit(rest_[count])) ++count;
    return count;
  }
  bool take(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    taken_ = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }
  [[nodiscard]] char taken() const { return taken_; }
  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  /// Whether a number of one digit stands before a colon.
  [[nodiscard]] bool digit_and_colon() const {
    return rest_.size() > 1 && is_digit(rest_[0]) && rest_[1] == ':';
  }
  bool take_blanks() {
    const std::size_t before = rest_.size();
    while (take(" \t")) {
    }
    return rest_.size() < before;
  }
  /// A number of so many digits.
  std::optional<int> number(std::size_t count) {
    if (digits() < count) return std::nullopt;
    int value = 0;
    std::from_chars(rest_.data(), rest_.data() + count, value);
    rest_.remove_prefix(count);
    return value;
  }
  /// The digits behind a point or comma, in 1e-9; 0 where there is neither, nothing without digits.
  std::optional<std::int64_t> billionths() {
    if (!take(".,")) return 0;
    const std::size_t count = digits();
    if (count == 0) return std::nullopt;
    std::string nine(rest_.substr(0, count));
    nine.resize(9, '0');
    rest_.remove_prefix(count);
    return std::stoll(nine);
  }

 private:
  std::string_view rest_;
  char taken_ = '\0';
};

std::optional<std::chrono::sys_days> week_date(Scanner& scan, std::chrono::year year,
                                               bool extended) {
  using namespace std::chrono;
  const auto week = scan.number(2);
  if (!week || *week < 1) return std::nullopt;
  int day = 1;
  const bool has_day = extended ? scan.take("-") : scan.digits() > 0;
  if (has_day) {
    const auto said = scan.number(1);
    if (!said || *said < 1 || *said > 7) return std::nullopt;
    day = *said;
  }
  // The first week is that with January 4.
  const auto first = [](std::chrono::year y) {
    const sys_days fourth = y / January / 4;
    return fourth - (weekday(fourth) - Monday);
  };
  const sys_days monday = first(year) + days(7 * (*week - 1));
  if (monday >= first(year + years(1))) return std::nullopt;
  return monday + days(day - 1);
}

std::optional<std::chrono::sys_days> parse_date(Scanner& scan) {
  using namespace std::chrono;
  const auto number = scan.number(4);
  if (!number || *number < kFirstYear || *number > kLastYear) return std::nullopt;
  const std::chrono::year year(*number);
  const bool extended = scan.take("-");
  if (scan.take("W")) return week_date(scan, year, extended);
  if (scan.digits() == 3) {
    const auto day = scan.number(3);
    if (!day || *day < 1 || *day > (year.is_leap() ? 366 : 365)) return std::nullopt;
    return sys_days(year / January / 1) + days(*day - 1);
  }
  const auto month = scan.number(2);
  if (!month || (extended && !scan.take("-"))) return std::nullopt;
  const auto day = scan.number(2);
  if (!day) return std::nullopt;
  const year_month_day date(year, std::chrono::month(static_cast<unsigned>(*month)),
                            std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return sys_days(date);
}

/// Since midnight. 24:00 is the next, and a leap second the one behind it.
std::optional<std::int64_t> parse_time(Scanner& scan, bool behind_blank) {
  const auto hour = scan.number(behind_blank && scan.digit_and_colon() ? 1 : 2);
  if (!hour || *hour > 24) return std::nullopt;
  std::int64_t ns = *hour * kHourNs;
  std::int64_t unit_ns = kHourNs;
  const bool extended = scan.take(":");
  if (extended || scan.digits() > 0) {
    const auto minute = scan.number(2);
    if (!minute || *minute > 59) return std::nullopt;
    ns += *minute * kMinuteNs;
    unit_ns = kMinuteNs;
    if (extended ? scan.take(":") : scan.digits() > 0) {
      const auto second = scan.number(2);
      if (!second || *second > 60 || (*second == 60 && *minute != 59)) return std::nullopt;
      ns += *second * kSecondNs;
      unit_ns = kSecondNs;
    }
  }
  if (behind_blank && unit_ns == kHourNs && scan.take(".,+-")) return std::nullopt;  // 21.50, 21-05
  const auto decimals = scan.billionths();
  if (!decimals) return std::nullopt;
  ns += *decimals * (unit_ns / kSecondNs);
  if (*hour == 24 && ns != 24 * kHourNs) return std::nullopt;
  return ns;
}

/// What is to be taken away from a local time; nothing where it is no offset.
std::optional<std::int64_t> parse_offset(Scanner& scan) {
  if (scan.take("Zz") || scan.take_word("UTC") || scan.take_word("GMT")) return 0;
  if (!scan.take("+-")) return std::nullopt;
  const std::int64_t sign = scan.taken() == '-' ? -1 : 1;
  const auto hours = scan.number(2);
  if (!hours || *hours > 23) return std::nullopt;
  std::int64_t ns = *hours * kHourNs;
  const bool extended = scan.take(":");
  for (const std::int64_t unit_ns : {kMinuteNs, kSecondNs}) {
    if (unit_ns == kSecondNs && extended && !scan.take(":")) break;
    if (!extended && scan.digits() == 0) break;
    const auto value = scan.number(2);
    if (!value || *value > 59) return std::nullopt;
    ns += *value * unit_ns;
    if (unit_ns != kSecondNs) continue;
    const auto decimals = scan.billionths();
    if (!decimals) return std::nullopt;
    ns += *decimals;
  }
  return sign * ns;
}

}  // namespace

std::optional<DateTime> parse_date_time(std::string_view text) {
  Scanner scan(text);
  const auto date = parse_date(scan);
  if (!date) return std::nullopt;
  DateTime result;
  result.ns = date->time_since_epoch().count() * 24 * kHourNs;
  if (scan.at_end()) return result;
  const bool blank = !scan.take("Tt");
  if (blank && !scan.take_blanks()) return std::nullopt;
  const auto time_ns = parse_time(scan, blank);
  if (!time_ns) return std::nullopt;
  result.ns += *time_ns;
  scan.take_blanks();
  if (scan.at_end()) return result;
  const auto offset_ns = parse_offset(scan);
  if (!offset_ns || !scan.at_end()) return std::nullopt;
  result.ns -= *offset_ns;
  result.has_offset = true;
  return result;
}

std::string date_time_text(std::int64_t ns) {
  using namespace std::chrono;
  const sys_time<milliseconds> when = floor<milliseconds>(sys_time<nanoseconds>(nanoseconds(ns)));
  const sys_days day = floor<days>(when);
  const year_month_day date(day);
  const hh_mm_ss time(when - day);
  const auto padded = [](auto number, std::size_t digits) {
    const std::string text = std::to_string(number);
    return std::string(digits - std::min(digits, text.size()), '0') + text;
  };
  return padded(static_cast<int>(date.year()), 4) + '-' +
         padded(static_cast<unsigned>(date.month()), 2) + '-' +
         padded(static_cast<unsigned>(date.day()), 2) + 'T' + padded(time.hours().count(), 2) +
         ':' + padded(time.minutes().count(), 2) + ':' + padded(time.seconds().count(), 2) + '.' +
         padded(time.subseconds().count(), 3) + 'Z';
}

std::optional<std::int64_t> parse_decimal_ns(std::string_view text, int places) {
  Scanner scan(text);
  const bool negative = scan.take("+-") && scan.taken() == '-';
  std::string digits;
  const auto take_digits = [&] {
    while (scan.take("0123456789")) digits += scan.taken();
  };
  take_digits();
  std::int64_t point = static_cast<std::int64_t>(digits.size());
  if (scan.take(".,")) take_digits();
  if (digits.empty()) return std::nullopt;
  if (scan.take("eE")) {
    const bool down = scan.take("+-") && scan.taken() == '-';
    const std::size_t count = scan.digits();
    if (count == 0 || count > 4) return std::nullopt;
    const int exponent = *scan.number(count);
    point += down ? -exponent : exponent;
  }
  if (!scan.at_end()) return std::nullopt;
  point += places;
  const std::size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  point -= static_cast<std::int64_t>(zeros);
  if (point <= 0 || digits.empty()) return 0;
  constexpr std::int64_t kMostDigits = 19;
  if (point > kMostDigits) return std::nullopt;
  digits.resize(static_cast<std::size_t>(point), '0');
  std::int64_t ns = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ns);
  if (error != std::errc()) return std::nullopt;
  return negative ? -ns : ns;
}

}  // namespace driftd
