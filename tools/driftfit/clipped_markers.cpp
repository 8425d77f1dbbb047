// SPDX-License-Identifier: MIT
#include "tools/driftfit/clipped_markers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/counted.hpp"

namespace driftd::tools {
namespace {

/// What --saturation leaves.
struct Left {
  std::size_t markers = 0, frames = 0;  ///< that enough of these markers are in
};

Left left_below(double level, const MarkerTracks& tracks, const ClippedSettings& settings) {
  const auto is_left = [&](std::size_t frame, std::size_t m) {
    return static_cast<double>(tracks.top(frame, m)) < level;
  };
  std::vector<std::size_t> followed;
  for (std::size_t frame = 0; frame < tracks.frames() && followed.empty(); ++frame)
    for (std::size_t m = 0; m < tracks.markers(); ++m)
      if (settings.picked || is_left(frame, m)) followed.push_back(m);
  Left left{.markers = followed.size()};
  const auto needed = std::min<std::ptrdiff_t>(settings.min_markers, std::ssize(followed));
  for (std::size_t frame = 0; frame < tracks.frames(); ++frame) {
    const auto seen =
        std::ranges::count_if(followed, [&](std::size_t m) { return is_left(frame, m); });
    left.frames += needed > 0 && seen >= needed ? 1 : 0;
  }
  return left;
}

constexpr const char* kLessLight = "less light or a shorter exposure helps";

}  // namespace

std::string clipped_markers_in_words(const ClippedPixels& clipped, const MarkerTracks& tracks,
                                     const ClippedSettings& settings) {
  const auto level = clipped.level();
  if (!level) return {};
  const Left left = left_below(*level, tracks, settings);
  const auto frames = static_cast<double>(tracks.frames());
  const bool enough =
      left.frames > 0 && static_cast<double>(left.frames) >= settings.min_share * frames;
  const std::string drift =
      fmt::format("a drift in {} of {}", left.frames, counted(tracks.frames(), "frame"));
  if (!enough) {
    return fmt::format("{}; {} (--saturation {} would leave {})\n", clipped.told(*level),
                       kLessLight, level_in_digits(*level), drift);
  }
  return fmt::format("{}; --saturation {} leaves them out, and {} of {} with {}\n",
                     clipped.told(*level), level_in_digits(*level), left.markers,
                     counted(tracks.markers(), "marker"), drift);
}

std::string clipped_spots_in_words(const ClippedPixels& clipped) {
  const auto level = clipped.level();
  if (!level) return {};
  const std::size_t left = clipped.below(*level);
  if (left == 0) {
    return fmt::format("{}; {} (--saturation {} would leave none)\n", clipped.told(*level),
                       kLessLight, level_in_digits(*level));
  }
  return fmt::format("{}; --saturation {} leaves out the {} of {} that reach it\n",
                     clipped.told(*level), level_in_digits(*level), clipped.rois() - left,
                     counted(clipped.rois(), "spot"));
}

}  // namespace driftd::tools
