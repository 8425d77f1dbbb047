// SPDX-License-Identifier: MIT
// Markers observed without noise, for the drift estimator's rules: each limit can be met from both
// sides. Axes, directions and uncertainties are unequal.
#pragma once

#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "support/catch.hpp"

namespace driftd::control::test {

constexpr double kFieldPixelNm = 107;
constexpr double kFloorNm2 = 0.3 * 0.3;  ///< irreducible error of a position
constexpr float kSigmaPx = 1.3F, kAmplitudeAdu = 800;
constexpr Vec2 kDirections[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};

inline EstimatorSettings rules(int min_markers = 3, int average_frames = 1) {
  return {.pixel_size_nm = kFieldPixelNm,
          .average_frames = average_frames,
          .min_markers = min_markers,
          .outlier_sigma = 4,
          .outlier_floor_nm = 3,
          .max_width_change = 0.5,
          .max_brightness_change = 0.8};
}

/// Markers where they are listed, seen with the uncertainties given.
struct Field {
  std::vector<Marker> markers;
  std::vector<MarkerObservation> seen;

  Field(int tracking, int witnesses, Vec2 sd_nm) {
    for (int i = 0; i < tracking + witnesses; ++i) {
      const MarkerRole role = i < tracking ? MarkerRole::Tracking : MarkerRole::Witness;
      markers.push_back({.id = static_cast<unsigned>(i + 1),
                         .role = role,
                         .x_px = 30.25 + 17 * i,
                         .y_px = 410.5 - 11 * i});
      seen.push_back({.fitted = true,
                      .inside_frame = true,
                      .x_px = markers.back().x_px,
                      .y_px = markers.back().y_px,
                      .x_sd_px = static_cast<float>(sd_nm.x / kFieldPixelNm),
                      .y_sd_px = static_cast<float>(sd_nm.y / kFieldPixelNm),
                      .sigma_px = kSigmaPx,
                      .amplitude_adu = kAmplitudeAdu,
                      .background_adu = 100});
    }
  }
  void move(std::size_t i, Vec2 nm) {
    seen[i].x_px += nm.x / kFieldPixelNm;
    seen[i].y_px += nm.y / kFieldPixelNm;
  }
  void move_all(Vec2 nm) {
    for (std::size_t i = 0; i < seen.size(); ++i) move(i, nm);
  }
};

inline const DriftEstimate& update(DriftEstimator& estimator, const Field& field, int frames = 1) {
  for (int i = 1; i < frames; ++i) estimator.update(field.seen);
  return estimator.update(field.seen);
}

/// Locked on the field as it is.
inline DriftEstimator locked(const Field& field, const EstimatorSettings& settings,
                             int frames = 100) {
  DriftEstimator estimator(settings);
  estimator.set_markers(field.markers);
  estimator.begin_reference(frames);
  update(estimator, field, frames);
  REQUIRE_FALSE(estimator.referencing());
  return estimator;
}

inline MarkerHealth health(const DriftEstimator& estimator, std::size_t i) {
  return estimator.results()[i].health;
}

inline Vec2 times(double factor, Vec2 v) {
  return {factor * v.x, factor * v.y};
}

/// Component along a direction.
inline double along(Vec2 v, Vec2 direction) {
  return v.x * direction.x + v.y * direction.y;
}

/// The drift along d over frames in which marker 0 is 2 nm off along d, less than any limit.
inline std::vector<double> pull_nm(DriftEstimator& estimator, Field field, Vec2 d, int frames) {
  field.move(0, times(2, d));
  std::vector<double> pull;
  for (int i = 0; i < frames; ++i) pull.push_back(along(update(estimator, field).drift_nm, d));
  return pull;
}

}  // namespace driftd::control::test
