// SPDX-License-Identifier: MIT
#include "control/search/clip_level.hpp"

#include <vector>

namespace driftd::control {
namespace {

constexpr std::size_t kLeastPixels = 8;
constexpr double kTimesOthers = 8;
constexpr int kOtherValues = 16;

}  // namespace

ClipLevel clip_level(std::span<const std::uint16_t> image) {
  std::vector<std::size_t> counts(std::size_t{UINT16_MAX} + 1);
  for (const std::uint16_t value : image) ++counts[value];
  std::size_t level = counts.size();
  while (level > 0 && counts[level - 1] == 0) --level;
  if (level == 0) return {};
  --level;
  const std::size_t pixels = counts[level];
  std::size_t others = 0;
  int values = 0;
  for (std::size_t lower = level; lower > 0 && values < kOtherValues;) {
    if (counts[--lower] == 0) continue;
    others += counts[lower];
    ++values;
  }
  const bool stands_out =
      values == kOtherValues && pixels >= kLeastPixels &&
      static_cast<double>(pixels) * kOtherValues >= kTimesOthers * static_cast<double>(others);
  return stands_out ? ClipLevel{static_cast<std::uint32_t>(level), pixels} : ClipLevel{};
}

}  // namespace driftd::control
