// SPDX-License-Identifier: MIT
#include "tools/driftfit/metadata_times.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace driftd::tools {

/// Not by a parser of JSON, which would take longer than the fits.
std::optional<double> elapsed_s(std::string_view json) noexcept {
  constexpr std::string_view kKey = "\"ElapsedTime-ms\"";
  const std::size_t key = json.find(kKey);
  if (key == std::string_view::npos) return std::nullopt;
  const std::size_t colon = json.find_first_not_of(" \t\r\n", key + kKey.size());
  if (colon == std::string_view::npos || json[colon] != ':') return std::nullopt;
  const std::size_t begin = json.find_first_not_of(" \t\r\n\"", colon + 1);
  if (begin == std::string_view::npos) return std::nullopt;
  double ms = 0;
  const auto read = std::from_chars(json.data() + begin, json.data() + json.size(), ms);
  if (read.ec != std::errc{} || !std::isfinite(ms)) return std::nullopt;
  return ms / 1000;
}

std::vector<double> times_in_metadata(camera::ImageStack& stack, std::int64_t first,
                                      std::int64_t count) {
  if (count <= 0 || !elapsed_s(stack.metadata(first))) return {};
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> times_s(static_cast<std::size_t>(stack.shape().frames), kUnknown);
  for (std::int64_t i = first; i < first + count; ++i) {
    if (!stack.is_repeat(i))
      times_s[static_cast<std::size_t>(i)] = elapsed_s(stack.metadata(i)).value_or(kUnknown);
  }
  return times_s;
}

}  // namespace driftd::tools
