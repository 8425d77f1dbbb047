// SPDX-License-Identifier: MIT
#include "base/table_text.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace driftd {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Excel begins its UTF-8 files with it
/// No line of a table is longer; what has no lines is not read without an end.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

std::size_t digits_at(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
}

[[noreturn]] void refuse(std::size_t line, const std::string& what) {
  throw std::runtime_error("is no table of text: line " + std::to_string(line) + " " + what);
}

}  // namespace

std::vector<std::string> text_lines(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file)) throw std::runtime_error("cannot be opened");
  std::vector<std::string> lines{""};
  std::array<char, 65536> block{};
  bool returned = false;
  while (in.read(block.data(), block.size()), in.gcount() > 0) {
    for (const char c : std::string_view(block.data(), static_cast<std::size_t>(in.gcount()))) {
      if (c == '\n' && returned) {
        returned = false;
        continue;
      }
      returned = c == '\r';
      std::string& line = lines.back();
      if (c == '\0' && lines.size() == 1 &&
          (line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff")))
        throw std::runtime_error(
            "is UTF-16, which Windows calls Unicode: save it as UTF-8 or ASCII");
      if (c == '\0') refuse(lines.size(), "has a byte of value 0");
      if (line.size() >= kLongestLine) refuse(lines.size(), "is longer than 1 MiB");
      if (c == '\n' || c == '\r')
        lines.emplace_back();
      else
        line += c;
    }
  }
  if (lines.front().starts_with(kByteOrderMark)) lines.front().erase(0, kByteOrderMark.size());
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::string without_thousands(const std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::size_t head = digits_at(text, sign);
  if (head < 1 || head > 3 || text[sign] == '0') return text;
  constexpr std::array<std::string_view, 8> kBetween = {
      " ", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89", "'", "\xe2\x80\x99", ",", "."};
  for (const std::string_view mark : kBetween) {
    std::size_t at = sign + head, groups = 0;
    std::string number = text.substr(0, at);
    while (text.compare(at, mark.size(), mark) == 0 && digits_at(text, at + mark.size()) == 3) {
      number += text.substr(at + mark.size(), 3);
      at += mark.size() + 3;
      ++groups;
    }
    const bool decimals = at + 1 < text.size() && (text[at] == '.' || text[at] == ',') &&
                          mark[0] != text[at] && at + 1 + digits_at(text, at + 1) == text.size();
    const bool may_be_decimal = mark == "," || mark == ".";
    if (groups == 0 || (!decimals && (at != text.size() || (may_be_decimal && groups < 2))))
      continue;
    return number + text.substr(at);
  }
  return text;
}

}  // namespace driftd
