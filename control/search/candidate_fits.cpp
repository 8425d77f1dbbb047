// SPDX-License-Identifier: MIT
// The fits between the two steps of marker_detection.hpp.
#include <algorithm>
#include <cstddef>

#include "control/search/marker_detection.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control {

std::vector<fitter::Localization> fit_candidates(std::span<const std::uint16_t> image, int width_px,
                                                 std::span<const Candidate> candidates, int roi_px,
                                                 const fitter::FitOptions& options) {
  std::vector<fitter::Localization> fits(candidates.size());
  if (candidates.empty()) return fits;
  const auto side = static_cast<std::size_t>(roi_px);
  const auto width = static_cast<std::size_t>(width_px);
  std::vector<std::uint16_t> rois;
  rois.reserve(candidates.size() * side * side);
  for (const Candidate& c : candidates)
    for (std::size_t row = 0; row < side; ++row) {
      const auto y = static_cast<std::size_t>(c.roi_y_px) + row;
      const auto line = image.subspan(y * width + static_cast<std::size_t>(c.roi_x_px), side);
      rois.insert(rois.end(), line.begin(), line.end());
    }
  fitter::fit_batch_cpu({.pixels = rois.data(),
                         .type = fitter::PixelType::U16,
                         .roi_px = roi_px,
                         .count = candidates.size()},
                        options, fits);
  return fits;
}

}  // namespace driftd::control
