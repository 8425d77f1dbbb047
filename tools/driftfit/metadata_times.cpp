// SPDX-License-Identifier: MIT
#include "tools/driftfit/metadata_times.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace driftd::tools {

/// Not by a parser of JSON, which would take longer than the fits.
std::optional<double> elapsed_s(std::string_view json) noexcept {
  constexpr std::string_view kKey = "\"ElapsedTime-ms\"";
  if (json.find(kKey) == std::string_view::npos) return std::nullopt;
  std::size_t colon = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i < json.size() && colon == std::string_view::npos; ++i) {
    if (json[i] == '{' || json[i] == '[') ++depth;
    if (json[i] == '}' || json[i] == ']') --depth;
    if (json[i] != '"') continue;
    const std::size_t begin = i;
    for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\' ? 1u : 0u;
    if (depth != 1 || json.substr(begin, kKey.size()) != kKey) continue;
    const std::size_t behind = json.find_first_not_of(" \t\r\n", i + 1);
    if (behind != std::string_view::npos && json[behind] == ':') colon = behind;
  }
  if (colon == std::string_view::npos) return std::nullopt;
  const std::size_t begin = json.find_first_not_of(" \t\r\n\"", colon + 1);
  if (begin == std::string_view::npos) return std::nullopt;
  double ms = 0;
  const auto read = std::from_chars(json.data() + begin, json.data() + json.size(), ms);
  if (read.ec != std::errc{} || !std::isfinite(ms)) return std::nullopt;
  return ms / 1000;
}

std::vector<double> times_in_metadata(camera::ImageStack& stack, std::int64_t first,
                                      std::int64_t count) {
  // Where the first, the middle and the last have no text, no frame is asked: it takes a while.
  const auto has_text = [&](std::int64_t frame) { return !stack.metadata(frame).empty(); };
  if (count <= 0 ||
      !(has_text(first) || has_text(first + count / 2) || has_text(first + count - 1)))
    return {};
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> times_s(static_cast<std::size_t>(stack.shape().frames), kUnknown);
  for (std::int64_t i = first; i < first + count; ++i) {
    if (!stack.is_repeat(i))
      times_s[static_cast<std::size_t>(i)] = elapsed_s(stack.metadata(i)).value_or(kUnknown);
  }
  const bool any = std::ranges::any_of(times_s, [](double time_s) { return !std::isnan(time_s); });
  return any ? times_s : std::vector<double>();
}

}  // namespace driftd::tools
