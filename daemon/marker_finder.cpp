// SPDX-License-Identifier: MIT
#include "daemon/marker_finder.hpp"

#include <algorithm>
#include <vector>

namespace driftd::daemon {

control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options) {
  const auto candidates =
      control::find_candidates(pixels, frame.width_px, frame.height_px, settings);
  const auto side = static_cast<std::size_t>(settings.roi_px);
  const auto width = static_cast<std::size_t>(frame.width_px);
  std::vector<std::uint16_t> rois;
  rois.reserve(candidates.size() * side * side);
  for (const control::Candidate& c : candidates) {
    const auto x = static_cast<std::size_t>(c.roi_x_px);
    const auto y = static_cast<std::size_t>(c.roi_y_px);
    for (std::size_t row = 0; row < side; ++row) {
      const auto line = pixels.subspan((y + row) * width + x, side);
      rois.insert(rois.end(), line.begin(), line.end());
    }
  }
  std::vector<fitter::Localization> fits(candidates.size());
  if (!candidates.empty()) {
    const fitter::Batch batch{.pixels = rois.data(),
                              .type = fitter::PixelType::U16,
                              .roi_px = settings.roi_px,
                              .count = candidates.size()};
    fitter::fit_batch_cpu(batch, options, fits);
  }
  return control::judge_candidates(candidates, fits, frame.width_px, frame.height_px,
                                   frame.offset_x_px, frame.offset_y_px, settings);
}

}  // namespace driftd::daemon
