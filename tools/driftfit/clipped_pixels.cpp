// SPDX-License-Identifier: MIT
#include "tools/driftfit/clipped_pixels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "fitter/pixel_type.hpp"

namespace driftd::tools {

/// NaN is never the largest.
template <class Pixel>
void ClippedPixels::look_at(const Pixel* pixels, std::size_t area, std::size_t count) {
  constexpr std::ptrdiff_t kFewest = 3;  // a spot cut off at three quarters of its height
  Pixel largest = 0;
  for (std::size_t k = 0; k < area * count; ++k) largest = std::max(largest, pixels[k]);
  rois_ += count;
  if (static_cast<double>(largest) < largest_) return;
  if (static_cast<double>(largest) > largest_) flat_ = 0;
  largest_ = static_cast<double>(largest);
  for (std::size_t i = 0; i < count; ++i, pixels += area) {
    const auto equal = std::count(pixels, pixels + area, largest);
    if (equal >= kFewest && equal < static_cast<std::ptrdiff_t>(area)) ++flat_;
  }
}

void ClippedPixels::look_at(const fitter::Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  fitter::with_pixels(batch.type, batch.pixels,
                      [&](const auto* pixels) { look_at(pixels, side * side, batch.count); });
}

std::string ClippedPixels::told() const {
  // Few counts are equal by chance.
  constexpr double kFewCounts = 64, kShare = 0.01;
  const double share =
      static_cast<double>(flat_) / static_cast<double>(std::max<std::size_t>(rois_, 1));
  if (largest_ < kFewCounts || flat_ < 2 || share < kShare) return {};
  return fmt::format(
      "{:.0f} % of the ROIs have three pixels or more of {:g}, the largest value there is: spots "
      "that "
      "are clipped fit too wide; --saturation {:g} leaves them out\n",
      100 * share, largest_, largest_);
}

}  // namespace driftd::tools
