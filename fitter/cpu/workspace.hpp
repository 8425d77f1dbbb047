// SPDX-License-Identifier: MIT
// The memory of CPU fits under way, largest ROI included: owned by a LiveFitter or a batch thread,
// never shared.
#pragma once

#include <cstddef>

#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"

namespace driftd::fitter::cpu {

/// Fits with their pixels across lanes that one thread advances side by side.
constexpr int kFlights = 4;
/// Vectors wider than this are not used.
constexpr int kMaxLanes = 16;
/// Rows are padded to whole vectors; the smoothing reads two columns further.
constexpr int kMaxPixels = kMaxRoiPx * kMaxRoiPx + kMaxLanes;
/// Larger ROIs are never fitted one to a lane: their pixels leave the second cache.
constexpr int kMostLaneRoiPx = 32;

/// For one fit with its pixels across lanes.
struct alignas(64) Workspace {
  alignas(64) float pixels[kMaxPixels];   ///< rows padded with 0, less the pedestal
  alignas(64) float scratch[kMaxPixels];  ///< while loading: unpadded; at the end: residuals
  alignas(64) float map[kMaxPixels];  ///< of weighted estimators: map_value(), rows padded with 0
  alignas(64) float x[3][kMaxRoiPx];  ///< X_k (AxisElement) by column, 0 beyond the ROI
  alignas(64) float y[3][kMaxRoiPx];  ///< Y_k by row, 0 beyond the ROI
  alignas(64) float yy[kPairs][kMaxRoiPx];  ///< pairs of Y by row, for weighted estimators
};

/// For fits one to a lane; each element is a vector.
template <std::size_t kMostPx>
struct alignas(64) LaneWorkspaceOf {
  static constexpr std::size_t kAxis = kMostPx * kMaxLanes;
  static constexpr std::size_t kPixels = kMostPx * kAxis;
  alignas(64) float pixels[kPixels];    ///< row-major, less the pedestals
  alignas(64) float map[kPixels];       ///< of weighted estimators: map_value()
  alignas(64) float x[3][kAxis];        ///< X_k (AxisElement) by column
  alignas(64) float y[3][kAxis];        ///< Y_k by row
  alignas(64) float xx[kPairs][kAxis];  ///< pairs of X by column, for weighted estimators
  alignas(64) float rows[3][kAxis];     ///< of the smoothing
  alignas(64) float windows[kPixels];   ///< 3x3 sums of the pixels, by their upper left one
};
using LaneWorkspace = LaneWorkspaceOf<kMostLaneRoiPx>;
/// For fits pixel by pixel, which never have their pixels across the lanes.
struct alignas(64) PixelwiseWorkspace : LaneWorkspaceOf<kMaxRoiPx> {
  alignas(64) float places[kPixels];  ///< of a line: Batch::places
};

}  // namespace driftd::fitter::cpu
