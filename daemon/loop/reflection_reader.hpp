// SPDX-License-Identifier: MIT
// Fits the spot of axial.reflection in its region of a frame. Made before the loop runs; tracking
// loop; no allocation after construction; noexcept.
#pragma once

#include <memory>

#include "camera/frame.hpp"
#include "control/axial/reflection_estimator.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

class ReflectionReader {
 public:
  /// A spot nearer to the region's edge is cut off, and the fit's place is not its own.
  static constexpr double kClearanceSigmas = 2;

  /// @param fitter  of the region's side, for one ROI; @param x_px, y_px  the region's first pixel,
  ///   on the sensor
  ReflectionReader(std::unique_ptr<fitter::LiveFitter> fitter, int x_px, int y_px)
      : fitter_(std::move(fitter)), x_px_(x_px), y_px_(y_px) {}

  control::ReflectedSpot read(const camera::Frame& frame) noexcept;

 private:
  std::unique_ptr<fitter::LiveFitter> fitter_;
  int x_px_, y_px_;
  fitter::Start start_;
};

}  // namespace driftd::daemon
