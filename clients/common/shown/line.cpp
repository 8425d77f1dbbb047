// SPDX-License-Identifier: MIT
#include "clients/common/shown/line.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "clients/common/plain.hpp"
#include "clients/common/shown/fields.hpp"

namespace driftd::clients::shown {

using nlohmann::json;

Line pair(const char* label, const std::string& x, const std::string& y, const std::string& rest) {
  return {fmt::format("{:<12}{:>11}{:>11} nm{}", label, x, y, rest), Tone::Plain};
}

void add_words(std::string rest, Tone tone, std::vector<Line>& lines) {
  constexpr std::size_t kIndent = 12;
  while (!rest.empty()) {
    std::size_t end = rest.size();
    if (end > kColumns - kIndent) end = rest.rfind(' ', kColumns - kIndent);
    if (end == std::string::npos || end == 0) end = kColumns - kIndent;
    if (end == kColumns - kIndent) end = cut(rest, end).size();
    lines.push_back({std::string(kIndent, ' ') + rest.substr(0, end), tone});
    rest.erase(0, std::min(rest.size(), end + (end < rest.size() && rest[end] == ' ' ? 1 : 0)));
  }
}

void add_text(const json& status, const char* pointer, Tone tone, std::vector<Line>& lines) {
  if (const std::string words = text(status, pointer); words != "-") add_words(words, tone, lines);
}

}  // namespace driftd::clients::shown
