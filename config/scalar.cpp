// SPDX-License-Identifier: MIT
#include "config/scalar.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace driftd::config {

std::optional<double> parse_real(std::string_view text) {
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  const std::string_view unsigned_text = text.substr(has_sign ? 1 : 0);
  // std::from_chars also knows "inf" and "nan"; YAML numbers start with a digit or a point.
  if (unsigned_text.empty() ||
      std::string_view(".0123456789").find(unsigned_text.front()) == std::string_view::npos) {
    return std::nullopt;
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(unsigned_text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return text.starts_with('-') ? -value : value;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::string format_real(double value) {
  // Plain digits where people would write them so, an exponent elsewhere.
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= 1e-3 && size < 1e10);
  std::array<char, 64> buffer{};
  char* const end = buffer.data() + buffer.size();
  const auto result = plain ? std::to_chars(buffer.data(), end, value, std::chars_format::fixed)
                            : std::to_chars(buffer.data(), end, value);
  return {buffer.data(), result.ptr};
}

}  // namespace driftd::config
