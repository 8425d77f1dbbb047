// SPDX-License-Identifier: MIT
#include "daemon/markers/marker_finder.hpp"

#include <algorithm>

#include "control/search/turned_constellation.hpp"

namespace driftd::daemon {
namespace {

struct FittedCandidates {
  std::vector<control::Candidate> candidates;
  std::vector<fitter::Localization> fits;
};

FittedCandidates fit_candidates(const camera::Frame& frame, std::span<const std::uint16_t> pixels,
                                const control::DetectionSettings& settings,
                                const fitter::FitOptions& options, control::SearchBounds* bounds) {
  FittedCandidates found;
  found.candidates =
      control::find_candidates(pixels, frame.width_px, frame.height_px, settings, bounds);
  found.fits =
      control::fit_candidates(pixels, frame.width_px, found.candidates, settings.roi_px, options);
  return found;
}

}  // namespace

control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options,
                                      control::SearchBounds* bounds) {
  const FittedCandidates found = fit_candidates(frame, pixels, settings, options, bounds);
  return control::judge_candidates(found.candidates, found.fits, frame.width_px, frame.height_px,
                                   frame.offset_x_px, frame.offset_y_px, settings);
}

control::ConstellationMatch find_markers_again(
    const MarkersReport& known, const camera::Frame& frame, std::span<const std::uint16_t> pixels,
    const control::DetectionSettings& detection, const fitter::FitOptions& options,
    control::ConstellationSettings settings, control::SearchBounds* bounds) {
  std::vector<control::MarkerReference> markers;
  for (std::size_t i = 0; i < known.count; ++i) {
    if (known.entries[i].marker.role == control::MarkerRole::Tracking)
      markers.push_back(known.entries[i].reference);
  }
  const FittedCandidates found = fit_candidates(frame, pixels, detection, options, bounds);
  auto spots = control::fitted_spots(found.candidates, found.fits, frame.offset_x_px,
                                     frame.offset_y_px, detection);
  const std::size_t pairs = settings.most_turn_rad > 0 ? kMostTurnedPairs : kMostPairs;
  const std::size_t most = pairs / std::max<std::size_t>(1, markers.size());
  if (spots.size() > most) {  // the brightest come first
    if (bounds != nullptr) bounds->spots_left_out += spots.size() - most;
    spots.resize(most);
  }
  const double half_px = 0.5 * detection.roi_px;  // wherever within its pixel a marker is
  settings.field_low_px = {frame.offset_x_px + half_px, frame.offset_y_px + half_px};
  settings.field_high_px = {frame.offset_x_px + frame.width_px - 1 - half_px,
                            frame.offset_y_px + frame.height_px - 1 - half_px};
  if (settings.most_turn_rad > 0)
    return control::match_turned_constellation(
        markers, spots, settings, bounds != nullptr ? bounds->stop : std::stop_token{});
  return control::match_constellation(markers, spots, settings);
}

}  // namespace driftd::daemon
