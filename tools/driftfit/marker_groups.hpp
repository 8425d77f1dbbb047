// SPDX-License-Identifier: MIT
// Markers that move apart: slowly, or in groups of which none can be said to be the sample. Pure.
//
// What is compared is how far markers are from their places, less the drift, in blocks of up to ten
// frames, three at both ends, since the frames next to the reference. Markers are apart where that
// is more than a quarter of a pixel and far more than the fits promise; what they promise, not what
// is seen, is the measure, so that nothing falls silent because it is everywhere. What is apart in
// fewer than three frames may be a wrong fit.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tools/driftfit/marker_tracks.hpp"

namespace driftd::tools {

struct MarkersApart {
  std::vector<std::size_t> some, others;  ///< never fewer others
  double most_px = 0;                     ///< by how much
  std::size_t first = 0, last = 0;        ///< frames in which it is more than kApartPx

  /// More agree with the others; else nobody can tell which is the sample.
  bool is_decided() const noexcept { return others.size() > some.size(); }
};

constexpr double kApartPx = 0.25;

/// Where a marker is when the drift is 0.
struct MarkerPlace {
  double x_px, y_px;
  int frames = 0;  ///< that it is known from
};

/// How the drift was found. All must outlive it.
struct SolvedDrift {
  const MarkerTracks& tracks;
  const PlaceBegins& begins;
  const std::vector<std::vector<MarkerPlace>>& places;  ///< of each marker
};

/// The one that fewest share first, until those that are left agree. Where markers that were
/// outvoted may have the say in a frame's drift, its standard deviation is at least what it would
/// be off then. Of groups that are as many the drift is the mean of both, and its standard
/// deviation what it would be off if either of those seen were wrong.
/// @param reference  frame that drifts are told from
std::vector<MarkersApart> find_apart(const SolvedDrift& solved, std::size_t reference,
                                     std::span<DriftPoint> points);

}  // namespace driftd::tools
