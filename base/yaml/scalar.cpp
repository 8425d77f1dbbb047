// SPDX-License-Identifier: MIT
#include "base/yaml/scalar.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

namespace driftd::yaml {

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

std::size_t first_no_text(std::string_view bytes) {
  constexpr std::array<std::uint32_t, 5> kLeastOfLength = {0, 1, 0x80, 0x800, 0x10000};
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    const auto length = static_cast<std::size_t>(std::max(1, std::countl_one(lead)));
    // A lead byte has none or two to four ones; one alone marks a following byte.
    if (length > 4 || (length == 1 && lead >= 0x80) || length > bytes.size() - i) return i;
    std::uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
    for (const char c : bytes.substr(i + 1, length - 1)) {
      const auto next = static_cast<unsigned char>(c);
      if (next >> 6 != 0b10) return i;
      code = code << 6 | (next & 0x3fU);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    const bool noncharacter = (code >= 0xfdd0 && code < 0xfdf0) || (code & 0xfffe) == 0xfffe;
    if (code < kLeastOfLength[length] || code > 0x10ffff || surrogate || noncharacter) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string printable(std::string text, char instead) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool second_set = byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) < 0xa0;
    if (second_set) text[i] = text[i + 1] = instead;
    if (byte(i) < 0x20 || byte(i) == 0x7f) text[i] = instead;
  }
  for (std::size_t from = 0; from < text.size(); ++from) {
    const std::size_t next = first_no_text(std::string_view(text).substr(from));
    if (next == std::string_view::npos) break;
    from += next;
    text[from] = instead;
  }
  return text;
}

}  // namespace driftd::yaml
