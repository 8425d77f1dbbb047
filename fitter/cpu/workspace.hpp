// SPDX-License-Identifier: MIT
// The memory of one CPU fit under way, largest ROI included: a LiveFitter or a batch thread owns
// kFlights of them; never shared.
#pragma once

#include "fitter/fitter.hpp"

namespace driftd::fitter::cpu {

/// Fits that one thread advances side by side.
constexpr int kFlights = 4;
/// Vectors wider than this are not used.
constexpr int kMaxLanes = 16;
/// Rows are padded to whole vectors; the smoothing reads two columns further.
constexpr int kMaxPixels = kMaxRoiPx * kMaxRoiPx + kMaxLanes;

struct alignas(64) Workspace {
  alignas(64) float pixels[kMaxPixels];   ///< rows padded with 0, less the pedestal
  alignas(64) float scratch[kMaxPixels];  ///< while loading: unpadded; at the end: residuals
  alignas(64) float map[kMaxPixels];   ///< of weighted estimators: map_value(), rows padded with 0
  alignas(64) float x[3][kMaxRoiPx];   ///< X, u X, u^2 X by column, 0 beyond the ROI
  alignas(64) float y[3][kMaxRoiPx];   ///< Y, v Y, v^2 Y by row, 0 beyond the ROI
  alignas(64) float yy[5][kMaxRoiPx];  ///< v^k Y^2 by row, for weighted estimators
};

}  // namespace driftd::fitter::cpu
