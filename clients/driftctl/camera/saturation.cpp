// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/saturation.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

namespace driftd::clients {

Saturation find_saturation(const FrameStatistics& s) {
  constexpr std::size_t kFewest = 4;
  constexpr double kNearTheTop = 0.7;
  int brightest = 0;
  std::vector<double> means;
  means.reserve(s.shape().pixels());
  for (std::size_t i = 0; i < s.shape().pixels(); ++i) {
    brightest = std::max(brightest, static_cast<int>(s.highest(i)));
    means.push_back(s.mean(i));
  }
  const auto middle = means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2);
  std::nth_element(means.begin(), middle, means.end());
  const double dim = *middle;
  // Bright pixels that never change: clipped by the levels, or by a full well with its own gain.
  const int step = s.step();  // which goes through all levels
  const double far_up = std::max(dim + kNearTheTop * (brightest - dim), dim + 20.0 * step);
  std::vector<int> still;
  std::size_t reached = 0;
  for (std::size_t i = 0; i < s.shape().pixels(); ++i) {
    if (s.highest(i) >= s.top()) ++reached;
    if (s.highest(i) - s.lowest(i) <= step && s.mean(i) >= far_up) {
      still.push_back(s.lowest(i));
    }
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
        "{} pixel{} reached {} ADU, the largest value of {} bits: less light (or exposure) keeps "
        "markers off it",
        reached, reached == 1 ? "" : "s", s.top(), s.shape().bits);
  } else if (step > 1) {
    saturation.level_adu = s.top();
    saturation.text = fmt::format("the largest level in steps of {}; no pixel reached it", step);
  } else {
    saturation.text = fmt::format(
        "no pixel is saturated; the brightest value was {} ADU, the largest of {} bits is {}",
        brightest, s.shape().bits, s.top());
  }
  return saturation;
}

}  // namespace driftd::clients
