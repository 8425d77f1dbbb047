// SPDX-License-Identifier: MIT
// From localizations to the drift: a robust, uncertainty-weighted mean of the markers'
// displacements from their references, averaged over frames, with its covariance and each marker's
// health. Tracking loop; no allocation after construction; noexcept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/types.hpp"

namespace driftd::control {

struct EstimatorSettings {
  double pixel_size_nm = 100;
  int average_frames = 1;
  int min_markers = 3;
  double outlier_sigma = 4;       ///< a marker further than this from the consensus is an outlier
  double outlier_floor_nm = 3;    ///< no marker nearer than this is called an outlier
  double max_width_change = 0.5;  ///< relative change of sigma against the reference's
  double max_brightness_change = 0.8;  ///< relative change of amplitude against a slow average
};

class DriftEstimator {
 public:
  explicit DriftEstimator(const EstimatorSettings& settings);

  /// New markers; their x_px, y_px serve as provisional references. Not from the loop.
  void set_markers(std::span<const Marker> markers);
  std::span<const Marker> markers() const noexcept { return markers_; }

  /// Starts a new reference: the mean position of each marker over the next `frames` good frames
  /// becomes its reference; update() measures against the old one until then.
  void begin_reference(int frames) noexcept;
  bool referencing() const noexcept { return reference_left_ > 0; }

  /// One frame. observations[i] belongs to markers()[i].
  const DriftEstimate& update(std::span<const MarkerObservation> observations) noexcept;
  /// Frames were missed or skipped (camera away): forget the frame average, keep the references.
  void restart_average() noexcept;

  std::span<const MarkerResult> results() const noexcept { return results_; }
  std::span<const Vec2> reference_px() const noexcept { return reference_px_; }

 private:
  // (yours)
  EstimatorSettings settings_;
  std::vector<Marker> markers_;
  std::vector<MarkerResult> results_;
  std::vector<Vec2> reference_px_;
  int reference_left_ = 0;
  DriftEstimate estimate_;
};

}  // namespace driftd::control
