// SPDX-License-Identifier: MIT
#include "daemon/markers/marker_finder.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

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

/// A part of a frame, as a frame of its own.
struct Part {
  camera::Frame frame;
  std::vector<std::uint16_t> pixels;
};

/// What a spot there is judged by: its surroundings, neighbours included. Large frames full of
/// texture take no longer.
Part part_around(control::Vec2 place_px, const camera::Frame& frame,
                 std::span<const std::uint16_t> pixels, int roi_px) {
  constexpr int kLeastReachPx = 64;
  const int reach_px = std::max(kLeastReachPx, 3 * roi_px);
  const auto range = [&](double place, int offset, int size) {
    const int middle = std::clamp(static_cast<int>(std::lround(place)) - offset, 0, size - 1);
    const int begin = std::max(0, middle - reach_px);
    return std::pair{begin, std::min(size, middle + reach_px + 1) - begin};
  };
  const auto [x, width] = range(place_px.x, frame.offset_x_px, frame.width_px);
  const auto [y, height] = range(place_px.y, frame.offset_y_px, frame.height_px);
  Part part{.frame = frame, .pixels = {}};
  part.frame.width_px = width;
  part.frame.height_px = height;
  part.frame.offset_x_px += x;
  part.frame.offset_y_px += y;
  for (int row = y; row < y + height; ++row) {
    const auto begin = static_cast<std::size_t>(row) * static_cast<std::size_t>(frame.width_px) +
                       static_cast<std::size_t>(x);
    const auto line = pixels.subspan(begin, static_cast<std::size_t>(width));
    part.pixels.insert(part.pixels.end(), line.begin(), line.end());
  }
  return part;
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

SpotAt find_spot_at(control::Vec2 place_px, const camera::Frame& frame,
                    std::span<const std::uint16_t> pixels,
                    const control::DetectionSettings& settings, const fitter::FitOptions& options) {
  const Part part = part_around(place_px, frame, pixels, settings.roi_px);
  control::DetectionSettings any = settings;
  any.max_count = static_cast<int>(control::kMaxMarkers);
  any.border_px = 0;
  any.min_distance_px = 0.5 * (settings.roi_px + 1);
  any.witness_fraction = 0;
  const control::DetectionResult found = find_markers(part.frame, part.pixels, any, options);
  double nearest_px = 0.5 * settings.roi_px;
  const double reach_px = nearest_px;
  const auto is_nearer = [&](double x_px, double y_px) {
    const double away_px = std::hypot(x_px - place_px.x, y_px - place_px.y);
    if (away_px > nearest_px) return false;
    nearest_px = away_px;
    return true;
  };
  SpotAt spot{.place_px = {},
              .problem = fmt::format("no spot within {:.1f} px of ({:.1f}, {:.1f})", reach_px,
                                     place_px.x, place_px.y)};
  for (const control::Rejection& other : found.rejected) {
    if (is_nearer(other.x_px, other.y_px))
      spot.problem =
          fmt::format("the spot at ({:.1f}, {:.1f}): {}", other.x_px, other.y_px, other.reason);
  }
  nearest_px = reach_px;  // one that is good goes before any that is not
  for (const control::Marker& marker : found.markers) {
    if (is_nearer(marker.x_px, marker.y_px)) spot = {{marker.x_px, marker.y_px}, {}};
  }
  return spot;
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
