// SPDX-License-Identifier: MIT
// From a spot of light that the cover glass reflects to z: its place along a line, from a
// reference, times a slope. References are taken with those of x and y; without markers, of the
// first frames. Owned by the tracking loop; no allocation; noexcept.
#pragma once

#include "control/axial/axial_estimator.hpp"
#include "control/axial/reference_follower.hpp"

namespace driftd::control {

struct ReflectionSettings {
  double nm_per_px;
  double angle_rad;         ///< of its way, from x towards y
  double max_width_change;  ///< EstimatorSettings's
  int average_frames;       ///< likewise
};

/// The spot in one frame. Only with `reason` Measured is the rest of it.
struct ReflectedSpot {
  AxialReason reason = AxialReason::Dark;
  double x_px = 0, y_px = 0;
  double x_sd_px = 0, y_sd_px = 0, sigma_px = 0;
};

class ReflectionEstimator {
 public:
  static constexpr int kFirstReferenceFrames = 16;

  /// One frame. @param lateral  which has had it; null: there are no markers
  const AxialEstimate& update(const ReflectionSettings& settings, const ReflectedSpot& spot,
                              const DriftEstimator* lateral) noexcept;
  /// The next frame is from a new zero: another slope, other markers.
  void forget() noexcept { *this = {}; }
  /// As DriftEstimator's.
  void restart_average() noexcept { averaged_ = 0; }
  // As AxialEstimator's.
  void begin_reference(int frames) noexcept;
  int reference_left() const noexcept { return own_ ? left_ : 0; }
  void keep_zero(bool kept) noexcept { kept_ = kept; }

 private:
  struct Place {
    double along_px, variance_px2;
  };
  void take(const Place& place, int frames) noexcept;

  ReferenceFollower follower_;
  bool kept_ = false;  ///< x and y do not change the zero
  bool own_ = false;   ///< left_ is of begin_reference(), with a provisional zero
  bool referenced_ = false;
  int left_ = kFirstReferenceFrames;  ///< of a reference of its own; 0: it takes none
  int taken_ = 0;
  double sum_px_ = 0, variance_sum_px2_ = 0, sigma_sum_px_ = 0;
  double reference_px_ = 0, reference_variance_px2_ = 0, reference_sigma_px_ = 0;
  double mean_px_ = 0;  ///< of the last frames, of which there are averaged_
  int averaged_ = 0;
  AxialEstimate estimate_;
};

}  // namespace driftd::control
