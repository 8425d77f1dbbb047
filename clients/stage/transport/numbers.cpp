// SPDX-License-Identifier: MIT
#include "clients/stage/transport/numbers.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace driftd::stage {

namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr double kFarthest = 4e9;

}  // namespace

void append_fixed(std::string& text, double value, int digits) {
  const double half_a_digit = 0.5 * std::pow(10.0, -digits);
  if (std::abs(value) <= half_a_digit) value = 0.0;
  std::array<char, 48> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::fixed, digits);
  text.append(buffer.data(), written.ptr);
}

std::optional<int> parse_whole(std::string_view text) {
  const std::optional<double> value = parse_number(text);
  constexpr double kLeast = std::numeric_limits<int>::min();
  constexpr double kMost = std::numeric_limits<int>::max();
  if (!value || *value != std::floor(*value) || *value < kLeast || *value > kMost) {
    return std::nullopt;
  }
  return static_cast<int>(*value);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<double> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(std::abs(value) <= kFarthest))
    return std::nullopt;
  return value;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (true) {
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return found;
    const std::size_t end = std::min(text.find_first_of(kSpace, first), text.size());
    found.push_back(text.substr(first, end - first));
    text.remove_prefix(end);
  }
}

}  // namespace driftd::stage
