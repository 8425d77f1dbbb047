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
// the uncertainty of the place. A marker that was taken back elsewhere has a place before and one
// after. Frames whose places nothing ties to those of the others have no drift, and neither have
// those in which fewer markers agree than a drift needs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/driftfit/output_file.hpp"
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

/// Positions of all markers in all frames, 24 bytes each, and 24 bytes a frame for what is missing.
class MarkerTracks {
 public:
  struct Point {
    double x_px, y_px;  ///< NaN: missing
    float x_sd_px, y_sd_px;
  };
  explicit MarkerTracks(std::size_t markers) : markers_(markers), taken_back_(markers) {}
  void add_frame(std::span<const Spot> spots, const Absences& absences = {});
  std::size_t markers() const noexcept { return markers_; }
  std::size_t frames() const noexcept { return markers_ > 0 ? points_.size() / markers_ : 0; }
  const Point& at(std::size_t frame, std::size_t marker) const noexcept {
    return points_[frame * markers_ + marker];
  }
  /// Which of the marker's places its position in a frame belongs to: 0, and 1 more each time that
  /// it was taken back.
  std::size_t place(std::size_t frame, std::size_t marker) const noexcept;
  std::size_t places(std::size_t marker) const noexcept { return taken_back_[marker].size() + 1; }
  /// The first frame that may belong to a place; frames() beyond the last place.
  std::size_t begin_of(std::size_t marker, std::size_t place) const noexcept {
    if (place == 0) return 0;
    return place < places(marker) ? taken_back_[marker][place - 1] : frames();
  }
  const Absences& absences(std::size_t frame) const noexcept { return absences_[frame]; }
  /// How many markers have a position in a frame.
  int found(std::size_t frame) const noexcept;
  /// In how many frames a marker has a position.
  std::int64_t frames_of(std::size_t marker) const noexcept;

 private:
  std::size_t markers_;
  std::vector<std::vector<std::size_t>> taken_back_;  ///< of each marker, in which frames
  std::vector<Point> points_;
  std::vector<Absences> absences_;
};

/// Where the sample went: a localization less the drift is where it was in the reference frame.
struct DriftPoint {
  int markers = 0;  ///< that agree; 0: too few, the drift is not known
  double x_px = 0, y_px = 0;
  double x_sd_px = 0, y_sd_px = 0;  ///< of this frame's mean
};

struct DriftSettings {
  /// Frame of the tracks whose drift is zero; nothing: the first that has a drift.
  std::optional<std::size_t> reference = std::nullopt;
  int min_markers = 1;  ///< fewer do not make a drift
  double pixel_nm = 100;
};

/// Where the reference has too few markers, no point is known.
std::vector<DriftPoint> solve_drift(const MarkerTracks& tracks, const DriftSettings& settings);

/// A trace within a stack: point i is of frame first + i.
struct DriftTrace {
  std::vector<DriftPoint> points;
  /// Why a point is not known: "1 of 3 markers; 3 needed; 2 not fitted". "" where it is.
  std::vector<std::string> reasons;
  std::int64_t first_frame = 0;
  std::int64_t stack_frames = 0;
  double pixel_nm = 0;
  std::vector<double> times_s = {};  ///< of the stack's frames: StackFacts::times_s
};

/// As Picasso's: x and y in pixels, a line for every frame of the stack. Where the drift is not
/// known it is interpolated between frames, and constant beyond the first and the last.
/// @throws OutputError
void write_picasso_drift(const OutputFile& output, const DriftTrace& trace);

/// A header and a line for each frame fitted, with its time where the recording says any; where the
/// drift is not known, the reason stands in the last column and the numbers are left out.
/// @throws OutputError
void write_drift_csv(const OutputFile& output, const DriftTrace& trace);

}  // namespace driftd::tools
