// SPDX-License-Identifier: MIT
#include "daemon/marker_finder.hpp"

#include <algorithm>

namespace driftd::daemon {
namespace {

struct FittedCandidates {
  std::vector<control::Candidate> candidates;
  std::vector<fitter::Localization> fits;
};

FittedCandidates fit_candidates(const camera::Frame& frame, std::span<const std::uint16_t> pixels,
                                const control::DetectionSettings& settings,
                                const fitter::FitOptions& options) {
  FittedCandidates found;
  found.candidates = control::find_candidates(pixels, frame.width_px, frame.height_px, settings);
  const auto side = static_cast<std::size_t>(settings.roi_px);
  const auto width = static_cast<std::size_t>(frame.width_px);
  std::vector<std::uint16_t> rois;
  rois.reserve(found.candidates.size() * side * side);
  for (const control::Candidate& c : found.candidates) {
    const auto x = static_cast<std::size_t>(c.roi_x_px);
    const auto y = static_cast<std::size_t>(c.roi_y_px);
    for (std::size_t row = 0; row < side; ++row) {
      const auto line = pixels.subspan((y + row) * width + x, side);
      rois.insert(rois.end(), line.begin(), line.end());
    }
  }
  found.fits.resize(found.candidates.size());
  if (!found.candidates.empty()) {
    const fitter::Batch batch{.pixels = rois.data(),
                              .type = fitter::PixelType::U16,
                              .roi_px = settings.roi_px,
                              .count = found.candidates.size()};
    fitter::fit_batch_cpu(batch, options, found.fits);
  }
  return found;
}

}  // namespace

control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options) {
  const FittedCandidates found = fit_candidates(frame, pixels, settings, options);
  return control::judge_candidates(found.candidates, found.fits, frame.width_px, frame.height_px,
                                   frame.offset_x_px, frame.offset_y_px, settings);
}

control::ConstellationMatch find_markers_again(const MarkersReport& known,
                                               const camera::Frame& frame,
                                               std::span<const std::uint16_t> pixels,
                                               const control::DetectionSettings& detection,
                                               const fitter::FitOptions& options,
                                               control::ConstellationSettings settings) {
  std::vector<control::MarkerReference> markers;
  for (std::size_t i = 0; i < known.count; ++i) {
    if (known.entries[i].marker.role == control::MarkerRole::Tracking)
      markers.push_back(known.entries[i].reference);
  }
  const FittedCandidates found = fit_candidates(frame, pixels, detection, options);
  const auto spots = control::fitted_spots(found.candidates, found.fits, frame.offset_x_px,
                                           frame.offset_y_px, detection);
  const double half_px = 0.5 * detection.roi_px;  // wherever within its pixel a marker is
  settings.field_low_px = {frame.offset_x_px + half_px, frame.offset_y_px + half_px};
  settings.field_high_px = {frame.offset_x_px + frame.width_px - 1 - half_px,
                            frame.offset_y_px + frame.height_px - 1 - half_px};
  return control::match_constellation(markers, spots, settings);
}

}  // namespace driftd::daemon
