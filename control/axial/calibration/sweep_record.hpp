// SPDX-License-Identifier: MIT
// What was seen at the places of a sweep: sums over the frames of each place, for each marker and
// for a reflected spot. Filled by the tracking loop, without allocation after construction;
// evaluated by another thread once the loop has given it away.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/vec2.hpp"
#include "control/axial/brightness_curves.hpp"
#include "control/axial/calibration/sweep_plan.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// One marker at one place; sums over its frames.
struct MarkerAtPlace {
  int frames = 0, saturated = 0;
  double x_px = 0, y_px = 0, sigma_x_px = 0, sigma_y_px = 0;
  double variance_x_px2 = 0, variance_y_px2 = 0;
  double electrons = 0, background_e = 0, dimness = 0, excess = 0;
  int late_frames = 0;  ///< in the second half of the time there
  double late_x_px = 0, late_y_px = 0;
};

struct SweepVisit {
  int frames = 0;
  double seconds = 0;  ///< sum over the frames, since the sweep began
  int lateral_frames = 0;
  Vec2 lateral_nm{};  ///< sum: where the sample is, less where the stage of x and y has taken it
  int spot_frames = 0;
  Vec2 spot_px{};            ///< sum: the reflected spot's place
  double spot_variance = 0;  ///< sum, px^2, of one axis
  int late_spot_frames = 0;  ///< in the second half of the time there
  Vec2 late_spot_px{};
};

/// One frame of a place, as far as it tells.
struct SweepFrame {
  double seconds = 0;  ///< since the sweep began
  std::span<const MarkerObservation> markers;
  FitUnits units;
  bool has_lateral = false;
  Vec2 lateral_nm{};
  bool has_spot = false;
  Vec2 spot_px{};
  double spot_variance_px2 = 0;
};

class SweepRecord {
 public:
  SweepRecord(SweepPlan plan, std::size_t markers);

  /// A frame of the place, or of back(); noexcept, no allocation.
  void add(std::size_t place, const SweepFrame& frame) noexcept;

  /// A place more: the start, once the stage was told to be back there, whatever ended the sweep.
  std::size_t back() const noexcept { return plan_.places().size(); }
  const SweepPlan& plan() const noexcept { return plan_; }
  std::size_t markers() const noexcept { return markers_; }
  const SweepVisit& visit(std::size_t place) const noexcept { return visits_[place]; }
  const MarkerAtPlace& at(std::size_t place, std::size_t marker) const noexcept {
    return sums_[place * markers_ + marker];
  }

 private:
  SweepPlan plan_;
  std::size_t markers_;
  std::vector<SweepVisit> visits_;
  std::vector<MarkerAtPlace> sums_;
};

}  // namespace driftd::control
