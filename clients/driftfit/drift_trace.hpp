// SPDX-License-Identifier: MIT
// From markers followed through a stack to the drift in each frame. Pure functions of the whole
// recording, unlike control/drift_estimator.hpp, which must answer at once.
//
// Positions are modelled as place of the marker + drift of the frame. Drift:
// control/consensus.hpp's robust mean over markers, in turn with places: the median over frames of
// what the drift leaves. A marker may come and go without a jump. The drift of the reference frame
// is then taken off.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "clients/driftfit/output_file.hpp"
#include "clients/driftfit/spot.hpp"

namespace driftd::clients {

/// Positions of all markers in all frames, 24 bytes each.
class MarkerTracks {
 public:
  struct Point {
    double x_px, y_px;  ///< NaN: missing
    float x_sd_px, y_sd_px;
  };
  explicit MarkerTracks(std::size_t markers) : markers_(markers) {}
  void add_frame(std::span<const Spot> spots);
  std::size_t markers() const noexcept { return markers_; }
  std::size_t frames() const noexcept { return markers_ > 0 ? points_.size() / markers_ : 0; }
  const Point& at(std::size_t frame, std::size_t marker) const noexcept {
    return points_[frame * markers_ + marker];
  }

 private:
  std::size_t markers_;
  std::vector<Point> points_;
};

/// Where the sample went: a localization less the drift is where it was in the reference frame.
struct DriftPoint {
  int markers = 0;  ///< that had a weight; 0: too few, the drift is not known
  double x_px = 0, y_px = 0;
  double x_sd_px = 0, y_sd_px = 0;  ///< of this frame's mean
};

struct DriftSettings {
  std::size_t reference = 0;  ///< frame of the tracks whose drift is zero
  int min_markers = 1;        ///< fewer do not make a drift
  double pixel_nm = 100;
};

/// Where the reference has too few markers, no point is known.
std::vector<DriftPoint> solve_drift(const MarkerTracks& tracks, const DriftSettings& settings);

/// A trace within a stack: point i is of frame first + i.
struct DriftTrace {
  std::vector<DriftPoint> points;
  std::int64_t first_frame = 0;
  std::int64_t stack_frames = 0;
  double pixel_nm = 0;
};

/// As Picasso's: x and y in pixels, a line for every frame of the stack. Where the drift is not
/// known it is interpolated between frames, and constant beyond the first and the last.
/// @throws OutputError
void write_picasso_drift(const OutputFile& output, const DriftTrace& trace);

/// A header and a line for each frame fitted; numbers are left out where the drift is not known.
/// @throws OutputError
void write_drift_csv(const OutputFile& output, const DriftTrace& trace);

}  // namespace driftd::clients
