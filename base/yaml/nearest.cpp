// SPDX-License-Identifier: MIT
#include "base/yaml/nearest.hpp"

#include <algorithm>
#include <vector>

namespace driftd::yaml {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // rows[i % 3][j]: distance of the first i characters of a from the first j of b.
  std::vector<std::vector<std::size_t>> rows(3, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string unknown_key(std::string_view word, std::span<const std::string_view> candidates,
                        std::string_view prefix) {
  // A third of the letters wrong is still the same word to a reader; a longer text is no misspelt
  // key, and comparing it would only cost time.
  constexpr std::size_t kLongestWord = 100;
  std::size_t least = word.size() / 3 + 2;
  std::string_view nearest;
  for (const auto candidate : candidates) {
    const std::size_t distance =
        word.size() > kLongestWord ? least : edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  std::string text = "found an unknown key; ";
  if (!nearest.empty()) return text.append("did you mean ").append(prefix).append(nearest) + '?';
  text += "allowed are ";
  for (const auto candidate : candidates) {
    if (candidate != candidates.front()) text += ", ";
    text += candidate;
  }
  return text;
}

}  // namespace driftd::yaml
