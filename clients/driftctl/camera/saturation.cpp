// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/saturation.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "base/median.hpp"

namespace driftd::clients {
namespace {

/// Whether no neighbour gets a quarter of the light that a pixel shows: a hot pixel, or where a
/// particle went through. The narrowest spot gives its neighbours more.
bool is_alone(const FrameStatistics& s, std::size_t pixel, double dim) {
  constexpr double kQuarter = 0.25;
  const auto width = static_cast<std::size_t>(s.shape().width_px);
  const auto height = static_cast<std::size_t>(s.shape().height_px);
  const std::size_t x = pixel % width, y = pixel / width;
  const double lit = dim + kQuarter * (s.highest(pixel) - dim);
  for (std::size_t v = y - (y > 0 ? 1 : 0); v <= std::min(y + 1, height - 1); ++v) {
    for (std::size_t u = x - (x > 0 ? 1 : 0); u <= std::min(x + 1, width - 1); ++u) {
      const std::size_t other = v * width + u;
      if (other != pixel && s.highest(other) > lit) return false;
    }
  }
  return true;
}

}  // namespace

Saturation find_saturation(const FrameStatistics& s) {
  constexpr std::size_t kFewest = 4;
  constexpr double kNearTheTop = 0.7;
  std::vector<double> means;
  means.reserve(s.shape().pixels());
  for (std::size_t i = 0; i < s.shape().pixels(); ++i) {
    means.push_back(s.mean(i));
  }
  const double dim = median(std::move(means));
  int brightest = 0;  // of those that are not alone
  for (std::size_t i = 0; i < s.shape().pixels(); ++i) {
    const int highest = s.highest(i);
    if (highest > brightest && !is_alone(s, i, dim)) brightest = highest;
  }
  // Bright pixels that never change: clipped by the levels, or by a full well with its own gain.
  const int step = s.step();  // which goes through all levels
  const double far_up = std::max(dim + kNearTheTop * (brightest - dim), dim + 20.0 * step);
  std::vector<int> still;
  std::size_t reached = 0, hot = 0;
  for (std::size_t i = 0; i < s.shape().pixels(); ++i) {
    const bool at_top = s.highest(i) >= s.top();
    const bool stands = s.highest(i) - s.lowest(i) <= step && s.mean(i) >= far_up;
    if (!at_top && !stands) continue;
    const bool alone = is_alone(s, i, dim);
    if (at_top) ++(alone ? hot : reached);
    if (stands && !alone) still.push_back(s.lowest(i));
  }
  Saturation saturation;
  if (still.size() >= kFewest) {
    std::sort(still.begin(), still.end());
    saturation.level_adu = still[still.size() / 100];
    saturation.seen = true;
    saturation.text = fmt::format(
        "{} pixels are saturated, at {} to {} ADU: less light (or exposure) makes their markers "
        "useful",
        still.size(), still.front(), still.back());
  } else if (reached > 0) {
    saturation.level_adu = s.top();
    saturation.seen = true;
    saturation.text = fmt::format(
        "{} reached {} ADU, the largest value of {} bits: less light (or exposure) keeps "
        "markers off it",
        counted(reached, "pixel"), s.top(), s.shape().bits);
  } else if (step > 1) {
    saturation.level_adu = s.top();
    saturation.text = fmt::format("the largest level in steps of {}; no pixel reached it", step);
  } else {
    saturation.text = fmt::format(
        "no pixel is saturated; the brightest value was {} ADU, the largest of {} bits is {}",
        brightest, s.shape().bits, s.top());
  }
  if (hot > 0) {
    saturation.text +=
        fmt::format(" (without {} at {} ADU whose neighbours are dark: hot pixels, or particles)",
                    counted(hot, "pixel"), s.top());
  }
  return saturation;
}

}  // namespace driftd::clients
