// SPDX-License-Identifier: MIT
// The drift in each frame, from the positions of markers followed through a stack. Pure functions
// of the whole recording; control/drift/drift_estimator.hpp estimates frame by frame.
//
// Model: position = place of the marker + drift of the frame. Two steps are repeated: the drift of
// a frame is the robust mean over markers of position - place (control/drift/consensus.hpp), the
// place of a marker is the median over frames of position - drift. A marker that comes or goes
// therefore makes no jump. The drift of the reference frame is subtracted at the end.
//
// A marker says something of a frame's drift only where its place is known from another frame, with
// the uncertainty of the place. A marker that was taken back elsewhere, or slips
// (marker_slips.hpp), has a place before and one after. Markers that move apart (marker_groups.hpp)
// are named; of as many the drift is the mean, and its standard deviation says so. Frames whose
// places nothing ties to those of the others have no drift, and neither have those in which fewer
// markers agree than a drift needs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/driftfit/marker_groups.hpp"
#include "tools/driftfit/marker_tracks.hpp"
#include "tools/driftfit/output_file.hpp"

namespace driftd::tools {

struct DriftSettings {
  /// Frame of the tracks whose drift is zero; nothing: the first that has a drift.
  std::optional<std::size_t> reference = std::nullopt;
  int min_markers = 1;  ///< fewer do not make a drift
  double pixel_nm = 100;
};

/// A marker that has another place from a frame on: it slipped, or was taken back elsewhere.
struct MarkerMoved {
  std::size_t marker = 0;
  std::size_t frame = 0;   ///< first that it is seen in at the new place
  std::size_t before = 0;  ///< last that it is seen in at the old one
  double by_px = 0;
};

struct DriftSolution {
  std::vector<DriftPoint> points;
  std::vector<MarkerMoved> moved;  ///< by marker, then by frame
  std::vector<MarkersApart> apart;
  PlaceBegins places{0};  ///< of the markers, with the slips found
};

/// Where the reference has too few markers, no point is known.
DriftSolution solve_drift(const MarkerTracks& tracks, const DriftSettings& settings);

/// A trace within a stack: point i is of frame first + i.
struct DriftTrace {
  std::vector<DriftPoint> points;
  /// Why a point is not known: "1 of 3 markers; 3 needed; 2 not fitted". "" where it is.
  std::vector<std::string> reasons;
  std::int64_t first_frame = 0;
  std::int64_t stack_frames = 0;
  double pixel_nm = 0;
  std::vector<double> times_s = {};  ///< of the stack's frames: StackFacts::times_s
  /// Of the points, and why one is not known; empty without a curve.
  std::vector<AxialPoint> axial = {};
  std::vector<std::string> axial_reasons = {};
};

/// As Picasso's: x and y in pixels, a line for every frame of the stack. Where the drift is not
/// known it is interpolated between frames, and constant beyond the first and the last. With a
/// curve z in nm is a third column.
/// @throws OutputError
void write_picasso_drift(const OutputFile& output, const DriftTrace& trace);

/// A header and a line for each frame fitted, with its time where the recording says any; where the
/// drift is not known, the reason stands in the last column and the numbers are left out.
/// @throws OutputError
void write_drift_csv(const OutputFile& output, const DriftTrace& trace);

}  // namespace driftd::tools
