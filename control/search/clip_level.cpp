// SPDX-License-Identifier: MIT
#include "control/search/clip_level.hpp"

#include <vector>

namespace driftd::control {
namespace {

constexpr std::size_t kLeastPixels = 8;
constexpr double kTimesOthers = 8;
constexpr int kOtherValues = 16;
/// A level has at least so many times the pixels that are brighter, which are hot ones.
constexpr std::size_t kTimesHot = 8;

/// Whether so many pixels have a value as have no other large one.
bool stands_out(const std::vector<std::size_t>& counts, std::size_t value) {
  std::size_t others = 0;
  int values = 0;
  for (std::size_t lower = value; lower > 0 && values < kOtherValues;) {
    if (counts[--lower] == 0) continue;
    others += counts[lower];
    ++values;
  }
  return values == kOtherValues && static_cast<double>(counts[value]) * kOtherValues >=
                                       kTimesOthers * static_cast<double>(others);
}

}  // namespace

ClipLevel clip_level(std::span<const std::uint16_t> image) {
  std::vector<std::size_t> counts(std::size_t{UINT16_MAX} + 1);
  for (const std::uint16_t value : image) ++counts[value];
  std::size_t above = 0;
  for (std::size_t value = counts.size(); value-- > 0 && kTimesHot * above <= image.size();) {
    const std::size_t pixels = counts[value];
    if (pixels >= kLeastPixels && pixels >= kTimesHot * above && stands_out(counts, value))
      return {static_cast<std::uint32_t>(value), pixels};
    above += pixels;
  }
  return {};
}

}  // namespace driftd::control
