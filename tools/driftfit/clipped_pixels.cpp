// SPDX-License-Identifier: MIT
#include "tools/driftfit/clipped_pixels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "fitter/pixel_type.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kFewest = 3;  ///< pixels: a spot cut off at three quarters of its height
constexpr std::size_t kHot = 2;     ///< that may be brighter
/// A level counts from so many steps above the ROI's lowest value on, by the smallest step between
/// its values: lower spots have equal pixels by chance.
constexpr double kFewSteps = 64;
/// A round top has as many pixels within these steps below any level as at it.
constexpr double kStepsBelow = 8;

/// The highest level that so many pixels share, but for the hot ones. NaN is nowhere.
template <class Pixel>
std::optional<Pixel> shared_at_top(const Pixel* pixels, std::size_t area) {
  constexpr Pixel kNone = std::numeric_limits<Pixel>::lowest();
  std::array<Pixel, kHot + kFewest> top{};  // descending
  top.fill(kNone);
  for (std::size_t k = 0; k < area; ++k) {
    if (!(pixels[k] > top.back())) continue;
    std::size_t at = top.size() - 1;
    for (; at > 0 && top[at - 1] < pixels[k]; --at) top[at] = top[at - 1];
    top[at] = pixels[k];
  }
  for (std::size_t i = 0; i <= kHot; ++i)
    if (top[i] == top[i + kFewest - 1] && top[i] != kNone) return top[i];
  return std::nullopt;
}

/// Enough pixels of a level lie together, and none that is brighter beside them: that were a spot's
/// own top.
template <class Pixel>
bool is_flat(const Pixel* pixels, std::size_t side, Pixel level) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < side * side; ++k) {
    if (pixels[k] != level) continue;
    const std::size_t x = k % side, y = k / side;
    bool has = false;
    for (std::size_t v = y - (y > 0); v <= std::min(y + 1, side - 1); ++v) {
      for (std::size_t u = x - (x > 0); u <= std::min(x + 1, side - 1); ++u) {
        const Pixel there = pixels[v * side + u];
        if (there > level) return false;
        has = has || (v * side + u != k && there == level);
      }
    }
    count += has ? 1 : 0;
  }
  return count >= kFewest;
}

/// Whether a level is a ROI's edge, not one of the steps of a round top.
template <class Pixel>
bool is_edge(const Pixel* pixels, std::size_t area, Pixel level) {
  std::vector<double> values;
  for (std::size_t k = 0; k < area; ++k)
    if (pixels[k] <= level) values.push_back(static_cast<double>(pixels[k]));
  std::ranges::sort(values);
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] > values[i - 1]) step = std::min(step, values[i] - values[i - 1]);
  const auto edge = static_cast<double>(level);
  if (!(edge - values.front() >= kFewSteps * step)) return false;
  const auto equal = std::ranges::lower_bound(values, edge);
  // A spot without noise has the same values on all its sides.
  const double next_below = *(equal - 1);
  if (equal - std::ranges::lower_bound(values, next_below) >= std::ptrdiff_t{kFewest}) return false;
  const auto below = std::ranges::lower_bound(values, edge - (kStepsBelow + 0.5) * step);
  return values.end() - equal > equal - below;
}

/// Not above the level, so that it leaves out what is there.
std::string in_digits(double level) {
  if (level == std::floor(level) && std::abs(level) < 1e15) return fmt::format("{:.0f}", level);
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(level))) - 5);
  return fmt::format("{:.6g}", std::floor(level / unit) * unit);
}

}  // namespace

template <class Pixel>
void ClippedPixels::look_at(const Pixel* pixels, std::size_t side, std::size_t count) {
  const std::size_t area = side * side;
  rois_ += count;
  for (std::size_t i = 0; i < count; ++i, pixels += area) {
    const std::optional<Pixel> level = shared_at_top(pixels, area);
    if (!level) continue;
    if (is_flat(pixels, side, *level) && is_edge(pixels, area, *level))
      ++flat_[static_cast<double>(*level)];
  }
}

void ClippedPixels::look_at(const fitter::Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  fitter::with_pixels(batch.type, batch.pixels,
                      [&](const auto* pixels) { look_at(pixels, side, batch.count); });
}

std::string ClippedPixels::told() const {
  constexpr double kShare = 0.01;
  std::size_t all = 0;
  auto most = flat_.begin();
  for (auto level = flat_.begin(); level != flat_.end(); ++level) {
    all += level->second;
    if (level->second > most->second) most = level;
  }
  // By chance they stand at many levels.
  if (all == 0 || most->second < 2 || 2 * most->second < all) return {};
  const double share = static_cast<double>(most->second) / static_cast<double>(rois_);
  if (share < kShare) return {};
  const std::string level = in_digits(most->first);
  return fmt::format(
      "{:.0f} % of the ROIs have three neighbouring pixels or more of exactly {} at the top of "
      "their spot: spots that are clipped fit too wide; --saturation {} leaves them out\n",
      100 * share, level, level);
}

}  // namespace driftd::tools
