// SPDX-License-Identifier: MIT
// Where to cut each marker's ROI in the next frame. The window moves by whole pixels, and only when
// the marker has left the middle by more than the hysteresis, so that the pixel phase stays put.
// Tracking loop; no allocation after construction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "control/values/types.hpp"

namespace driftd::control {

struct RoiOrigin {
  int x_px = 0;  ///< top-left pixel, sensor pixels
  int y_px = 0;
};

class RoiTracker {
 public:
  /// Room for kMaxMarkers. hysteresis_px: how far from the ROI's centre a marker may be (e.g. 1.0).
  RoiTracker(int roi_px, double hysteresis_px);

  /// New markers: centres a ROI on each. Not from the loop.
  void set_markers(std::span<const Marker> markers);
  /// The ROI of marker i.
  RoiOrigin origin(std::size_t i) const noexcept { return origins_[i]; }
  /// After a frame: a good marker is followed from where it was measured, any other one waits where
  /// the good markers' common displacement says that it must be now.
  /// @param results  health and residual of each marker
  /// @param reference_px  reference positions; @param displacement_px  the frame's common drift
  void follow(std::span<const MarkerObservation> observations,
              std::span<const MarkerResult> results, std::span<const Vec2> reference_px,
              Vec2 displacement_px) noexcept;
  /// Every marker's ROI to where `displacement_px` from its reference puts it.
  void move_all(std::span<const Vec2> reference_px, Vec2 displacement_px) noexcept;

 private:
  void place(std::size_t i, double x_px, double y_px) noexcept;
  int roi_px_;
  double hysteresis_px_;
  std::vector<RoiOrigin> origins_;
};

}  // namespace driftd::control
