// SPDX-License-Identifier: MIT
// Where a ROI lies in its frame, and what a pixel that is cut becomes. Host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "fitter/frames.hpp"
#include "fitter/host_device.hpp"

namespace driftd::fitter {

/// The first pixel of a ROI, in its frame.
struct Corner {
  std::int64_t x_px, y_px;
};

DRIFTD_HD Corner corner_of(const Place& place, int roi_px) {
  return {std::int64_t{place.x_px} - roi_px / 2, std::int64_t{place.y_px} - roi_px / 2};
}

/// Whether there is such a frame and it has all pixels of the ROI.
DRIFTD_HD bool is_within(const Frames& frames, const Place& place, int roi_px) {
  const Corner corner = corner_of(place, roi_px);
  return place.frame >= 0 && static_cast<std::size_t>(place.frame) < frames.count &&
         corner.x_px >= 0 && corner.y_px >= 0 && corner.x_px + roi_px <= frames.width_px &&
         corner.y_px + roi_px <= frames.height_px;
}

/// (pixel - offset) gain; NaN at or above saturation and where there is no gain.
DRIFTD_HD float converted_pixel(float pixel, float gain, float offset, float saturation) {
  const float light = (pixel - offset) * gain;
  const auto good = static_cast<int>(gain > 0) & static_cast<int>(pixel < saturation);
  return good != 0 ? light : std::numeric_limits<float>::quiet_NaN();
}

DRIFTD_HD float converted_variance(float variance, float gain) {
  return variance * (gain * gain);
}

}  // namespace driftd::fitter
