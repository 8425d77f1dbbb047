// SPDX-License-Identifier: MIT
#include "base/yaml/mistakes.hpp"

#include <algorithm>
#include <tuple>

namespace driftd::yaml {

void Mistakes::add(Place place, std::string_view key, std::string_view found,
                   std::string_view allowed) {
  add(place, key, std::string("found ").append(found).append("; allowed ").append(allowed));
}

void Mistakes::add(Place place, std::string_view key, std::string_view text) {
  list_.push_back({place, std::string(key).append(key.empty() ? "" : ": ").append(text)});
}

std::string Mistakes::report(const std::string& file) const {
  std::vector<Mistake> sorted = list_;
  std::ranges::stable_sort(sorted, {}, [](const Mistake& mistake) {
    return std::tuple(mistake.place.line, mistake.place.column);
  });
  std::string report;
  for (const Mistake& mistake : sorted) {
    if (!report.empty()) report += '\n';
    report += file + ':' + std::to_string(mistake.place.line) + ':' +
              std::to_string(mistake.place.column) + ": " + mistake.text;
  }
  return report;
}

}  // namespace driftd::yaml
