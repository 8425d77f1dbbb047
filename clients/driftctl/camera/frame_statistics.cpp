// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/frame_statistics.hpp"

#include <algorithm>
#include <numeric>

namespace driftd::clients {

FrameStatistics::FrameStatistics(const FrameShape& shape)
    : shape_(shape),
      sum_(shape.pixels()),
      sum_of_squares_(shape.pixels()),
      square_of_steps_(shape.pixels()),
      lowest_(shape.pixels(), UINT16_MAX),
      highest_(shape.pixels()),
      zeros_(shape.pixels()),
      levels_(std::size_t{UINT16_MAX} + 1) {}

void FrameStatistics::add(std::span<const std::uint16_t> pixels) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::uint16_t level = pixels[i];
    const double value = level;
    sum_[i] += value;
    sum_of_squares_[i] += value * value;
    zeros_[i] += level == 0 ? 1 : 0;
    lowest_[i] = std::min(lowest_[i], level);
    highest_[i] = std::max(highest_[i], level);
    ++levels_[level];
    total += level;
  }
  if (frames_ > 0) {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const double step = static_cast<double>(pixels[i]) - before_[i];
      square_of_steps_[i] += step * step;
    }
    if (std::equal(pixels.begin(), pixels.end(), before_.begin(), before_.end())) ++repeated_;
  }
  before_.assign(pixels.begin(), pixels.end());
  frame_means_.push_back(static_cast<double>(total) / static_cast<double>(pixels.size()));
  ++frames_;
}

int FrameStatistics::step() const noexcept {
  int step = 0;
  for (std::size_t level = 1; level < levels_.size() && step != 1; ++level) {
    if (levels_[level] > 0) step = std::gcd(step, static_cast<int>(level));
  }
  // Levels that are all multiples of something else than a power of two come from few levels.
  return step > 0 && (step & (step - 1)) == 0 ? step : 1;
}

double FrameStatistics::missing_levels() const {
  const auto all = std::accumulate(levels_.begin(), levels_.end(), std::uint64_t{0});
  std::uint64_t before = 0;
  int expected = 0;
  int missing = 0;
  const auto every = static_cast<std::size_t>(step());
  for (std::size_t level = 0; level < levels_.size(); level += every) {
    before += levels_[level];
    if (before < all / 20 || before > all - all / 20) continue;
    ++expected;
    if (levels_[level] == 0) ++missing;
  }
  // Three levels or fewer may have gaps by themselves.
  return expected > 3 ? static_cast<double>(missing) / expected : 0;
}

}  // namespace driftd::clients
